"""AMP411: gradients that are cleared only in the first pass of a loop, while the scaler steps in each."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP411"}), isolated=True)
PROGRAM = """\
import torch
from tqdm import tqdm, trange


class Learner:
    def __init__(self, model, criterion, {held}, size):
        self.model, self.criterion, self.{held}, self.size = model, criterion, {held}, size
        self.scaler = torch.amp.GradScaler("cuda")

    def train_one_step(self, x, y):
        for {loop}:
            if i == {first}:
                self.{cleared}.zero_grad()
            with torch.autocast("cuda"):
                loss = self.criterion(self.model(x[i : i + self.size]), y[i : i + self.size])
            self.scaler.scale(loss).backward()
            {step}self.scaler.step(self.{stepped})
            {step}self.scaler.update()

    def rehearse(self, x, y):
        {clear}self.{cleared}.zero_grad()
        loss = self.criterion(self.model(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.{stepped})
        self.scaler.update()
"""


def program(
    loop: str = "i in range(0, len(x), self.size)",
    cleared: str = "optimizer",
    stepped: str = "optimizer",
    first: str = "0",
    step: str = "",
    clear: str = "",
) -> str:
    held = cleared.partition(".")[0]
    return PROGRAM.format(loop=loop, cleared=cleared, stepped=stepped, first=first, step=step, clear=clear, held=held)


@pytest.mark.parametrize(
    "loop",
    [
        "i in range(len(x))",
        "i in range(0, len(x))",
        "i in range(0, len(x), self.size)",
        "i in trange(0, len(x), self.size)",
        "i in tqdm(range(0, len(x), self.size))",
        "i, _ in enumerate(x)",
        "i, _ in enumerate(x, 0)",
        "i, _ in enumerate(x, start=0)",
        "i, _ in tqdm(enumerate(x), total=len(x))",
    ],
)
def test_a_loop_that_counts_from_zero(loop: str) -> None:
    (found,) = check(program(loop), settings=SETTINGS)
    assert found.message.startswith("when `i != 0`, this step unscales the gradients, and the next backward pass")


@pytest.mark.parametrize("cleared", ["optimizer_regime", "opt_wrapper", "regime"])
def test_an_object_that_wraps_the_optimizer_clears_its_gradients(cleared: str) -> None:
    (found,) = check(program(cleared=cleared, stepped=f"{cleared}.optimizer"), settings=SETTINGS)
    assert found.message.startswith("when `i != 0`, this step unscales the gradients, and the next backward pass")


@pytest.mark.parametrize(
    "text",
    [
        program("i in range(self.size, len(x))", first="self.size"),
        program("i in range(self.first, len(x))"),
        program("i, _ in enumerate(x, self.first)"),
        program(step="if i + self.size >= len(x): "),
        program("i, _ in enumerate(x)", step="if i == len(x) - 1: "),
        program().replace("            if i == 0:\n    ", ""),
        program(cleared="optimizer_regime", stepped="optimizer_regime.optimizer").replace(
            "            if i == 0:\n    ", ""
        ),
    ],
)
def test_what_may_be_cleared_in_each_pass_or_steps_once(text: str) -> None:
    assert not check(text, settings=SETTINGS)


def test_a_step_in_every_kth_pass_comes_again() -> None:
    assert check(program("i, _ in enumerate(x)", step="if (i + 1) % 4 == 0: "), settings=SETTINGS)
