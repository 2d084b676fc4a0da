"""AMP403 and AMP418: the arm without AMP that steps with the scaler all the same."""

from __future__ import annotations

import pytest

import amplint

PROGRAM = """\
import torch
from torch.optim import SGD


def train(model, loader, criterion, config, k, make):
    use_fp16 = config["use_fp16"]
    accumulate = k > 0
    MADE
    scaler = torch.amp.GradScaler("cuda"ENABLED)
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cuda", enabled=use_fp16):
            loss = criterion(model(x), y)
        if use_fp16:
            scaler.scale(loss).backward()
            if accumulate:
                if (i + 1) % k == 0:
                    scaler.step(optimizer)
                    scaler.update()
                    optimizer.zero_grad()
            else:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        else:
PLAIN
"""
ONE = "optimizer = SGD(model.parameters(), lr=0.1)"
UNSEEN = "optimizer = make(model)"
TWO = "optimizer, other = make(model), (make(model.head) if config['head'] else None)"
STEPS = ["scaler.step(optimizer)", "scaler.update()", "optimizer.zero_grad()"]


def lines(depth: int, *texts: str) -> str:
    return "".join(f"{' ' * depth}{each}\n" for each in texts)


ALWAYS = lines(12, "loss.backward()", *STEPS)
ON_STEPS = lines(12, "loss.backward()", "if (i + 1) % k == 0:") + lines(16, *STEPS)
ACCUMULATED = (
    lines(12, "loss.backward()", "if accumulate:")
    + lines(16, "if (i + 1) % k == 0:")
    + lines(20, *STEPS)
    + lines(12, "else:")
    + lines(16, "optimizer.step()", "optimizer.zero_grad()")
)
RIGHT = ACCUMULATED.replace("scaler.step(optimizer)", "optimizer.step()").replace(lines(20, "scaler.update()"), "")
GUARDED = lines(12, "loss.backward()", "if config['amp']:") + lines(16, *STEPS)


def codes(plain: str, made: str = ONE, enabled: str = "") -> list[str]:
    text = PROGRAM.replace("PLAIN\n", plain).replace("MADE", made).replace("ENABLED", enabled)
    return [each.code for each in amplint.check(text) if each.code in ("AMP403", "AMP418", "AMP402", "AMP404")]


@pytest.mark.parametrize("made", [ONE, UNSEEN, TWO])
@pytest.mark.parametrize("plain", [ALWAYS, ON_STEPS, ACCUMULATED])
def test_the_scaler_steps_what_nothing_scaled(plain: str, made: str) -> None:
    assert codes(plain, made) == ["AMP403"]


@pytest.mark.parametrize("made", [ONE, UNSEEN, TWO])
def test_the_plain_arm_steps_plainly(made: str) -> None:
    assert codes(RIGHT, made) == []


@pytest.mark.parametrize("plain", [ALWAYS, ON_STEPS, ACCUMULATED])
def test_the_scaler_is_off_there(plain: str) -> None:
    assert codes(plain, enabled=", enabled=use_fp16") == []


def test_a_test_of_amp_around_the_step_may_be_the_flag() -> None:
    assert codes(GUARDED) == []


TURNS = """\
import torch


def train(loader, gen, disc, opt_g, opt_d, criterion):
    scaler = torch.amp.GradScaler("cuda")
    for i, x in enumerate(loader):
        if i % 2:
            with torch.autocast("cuda"):
                loss = criterion(disc(gen(x)))
            loss.backward()
            opt_g.step()
        else:
            with torch.autocast("cuda"):
                loss = criterion(disc(x))
            scaler.scale(loss).backward()
            scaler.step(opt_d)
            scaler.update()
        opt_g.zero_grad()
        opt_d.zero_grad()
"""


def test_optimizers_that_take_turns_wait_for_a_loss_of_their_own() -> None:
    found = [each.code for each in amplint.check(TURNS)]
    assert not {"AMP402", "AMP403", "AMP418"} & set(found)
