"""AMP411 where one of several optimizers is stepped in a loop inside of the step of another one."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence, Finding

PROGRAM = """\
import torch
from mine import make_optimizer


class Trainer:
    def __init__(self, model):
        self.model = model
        self.main = make_optimizer(model.module.main_parameters)
        self.probe = make_optimizer(model.module.probe_parameters)
        self.scaler = torch.amp.GradScaler("cuda")

    def train(self, loader, probe_steps=5):
        for x, y in loader:
            self.model.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                code, loss = self.model(x, y)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.main)
            self.scaler.update()
            self.model.zero_grad()
            for _ in range(probe_steps):
                {first}
                with torch.autocast("cuda", dtype=torch.float16):
                    loss_of_probe = self.model(code, probe=True)
                self.scaler.scale(loss_of_probe).backward()
                self.scaler.step(self.probe)
                self.scaler.update()
                {last}
            self.probe.zero_grad()
"""


def found(text: str) -> list[Finding]:
    return [each for each in check(text, "train.py") if each.code == "AMP411"]


def test_nothing_clears_between_the_steps() -> None:
    (finding,) = found(PROGRAM.format(first="pass", last="pass"))
    assert finding.confidence is Confidence.LIKELY
    assert finding.message.startswith("when `probe_steps > 1`, this step")
    assert "call `zero_grad()` after each step" in finding.message


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("self.probe.zero_grad()", "pass"),
        ("pass", "self.probe.zero_grad()"),
        ("self.model.zero_grad()", "pass"),
        ("pass", "self.model.module.probe.zero_grad()"),
        ("for p in self.model.parameters(): p.grad = None", "pass"),
        ("pass", "self.after_each(self.probe)"),
    ],
)
def test_something_clears_or_may(first: str, last: str) -> None:
    assert not found(PROGRAM.format(first=first, last=last))


STEP = """\
import torch
from mine import make


def optimize(scaler, loss, optimizer):
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


def train(loader):
    generator, discriminator, g_optimizer, d_optimizer = make()
    scaler = torch.amp.GradScaler("cuda")
    for real, noise in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            fake = generator(noise)
            d_loss = discriminator(real).mean() - discriminator(fake.detach()).mean()
            g_loss = discriminator(fake).mean()
        {first}
        optimize(scaler, d_loss, d_optimizer)
        {second}
        optimize(scaler, g_loss, g_optimizer)
        {last}
"""
CLEAR_D, CLEAR_G = "d_optimizer.zero_grad()", "g_optimizer.zero_grad()"


@pytest.mark.parametrize(
    ("first", "second", "last"),
    [
        (CLEAR_D, CLEAR_G, "pass"),
        (f"{CLEAR_D}; {CLEAR_G}", "pass", "pass"),
        ("pass", CLEAR_D, CLEAR_G),
        ("pass", "pass", f"{CLEAR_D}; {CLEAR_G}"),
    ],
)
def test_turns_that_are_cleared(first: str, second: str, last: str) -> None:
    assert not found(STEP.format(first=first, second=second, last=last))


def test_turns_of_which_one_is_never_cleared() -> None:
    assert found(STEP.format(first=CLEAR_G, second="pass", last="pass"))
