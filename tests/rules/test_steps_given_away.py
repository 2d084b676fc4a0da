"""Training steps that are given to an engine: what they call doesn't run them again."""

from __future__ import annotations

import pytest

import amplint

ENGINE = """\
import torch
from engines import Engine


def create_trainer(model, optimizer, loss_fn, config, device):
    scaler = torch.amp.GradScaler("cuda", enabled=config.amp)

    def update(engine, batch):
        x, y = batch
        score, features = model(x)
        with torch.autocast("cuda", enabled=config.amp):
            loss = loss_fn(score, features, y)
        {first}
        {step}
        return loss.item(), (score.max(1)[1] == y).float().mean()

    return Engine(update)
"""
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
STEP = f"scaler.scale(loss).backward()\n{CLIP}\nscaler.step(optimizer)\nscaler.update()"
ARMS = """\
if config.amp:
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
else:
    loss.backward()
    optimizer.step()
"""


def codes(step: str, first: str = "optimizer.zero_grad()", program: str = ENGINE) -> set[str]:
    text = program.format(first=first, step=step.replace("\n", "\n        "))
    return {each.code for each in amplint.check(text, "train.py") if each.code[:4] == "AMP4"}


def test_a_clip_in_a_step_that_is_given_away() -> None:
    assert "AMP401" in codes(STEP)
    assert not codes(STEP.replace(CLIP, f"scaler.unscale_(optimizer)\n{CLIP}"))


def test_a_branch_of_a_step_that_is_given_away() -> None:
    assert codes(ARMS, "pass") == {"AMP420"}
    assert not codes(ARMS)


OTHER = """\
import torch
from engines import Engine


def create(model, optimizer, loss_fn, config, after):
    scaler = torch.amp.GradScaler("cuda", enabled=config.amp)

    def unscale(engine):
        scaler.unscale_(optimizer)

    def update(engine, batch):
        x, y = batch
        {first}
        with torch.autocast("cuda", enabled=config.amp):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        after.run(engine)
        {step}

    after.add(unscale)
    return Engine(update)
"""


@pytest.mark.parametrize("name", ["unscale", "update"])
def test_what_another_function_may_do_is_not_seen(name: str) -> None:
    program = OTHER.replace("after.add(unscale)", f"after.add({name})")
    step = f"{CLIP}\nscaler.step(optimizer)\nscaler.update()"
    assert codes(step, program=program) == ({"AMP401"} if name == "update" else set())
