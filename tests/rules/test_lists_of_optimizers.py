"""Optimizers in a list that a function makes, and such as are asked for by their names."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

PROGRAM = """import torch

class Model:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")

    def step_all(self, names, groups):
        {made}
        for optimizer in optimizers:
            self.scaler.step(optimizer)
            {each}
            optimizer.zero_grad()
        {last}
"""
BY_NAME = """import torch

class Model:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")

    def step_all(self, names):
        for name in names:
            optimizer = getattr(self, name)
            self.scaler.step(optimizer)
            optimizer.zero_grad()
        self.scaler.update()
"""
SETTINGS = Settings(frozenset({"AMP407", "AMP410"}), isolated=True)


@pytest.mark.parametrize(
    "made",
    [
        "optimizers = []\n        for optimizer_name in names:\n            "
        "optimizers.append(getattr(self, optimizer_name))",
        "optimizers = []\n        for each in groups:\n            opt = each.opt\n            optimizers.append(opt)",
        "optimizers = [each.optimizer for each in groups]",
    ],
)
@pytest.mark.parametrize(
    ("each", "last", "expected"),
    [("self.scaler.update()", "pass", ["AMP410"]), ("pass", "self.scaler.update()", [])],
)
def test_an_update_after_each_of_them(made: str, each: str, last: str, expected: list[str]) -> None:
    text = PROGRAM.format(made=made, each=each, last=last)
    assert [each.code for each in check(text, "model.py", SETTINGS)] == expected


def test_what_is_given_an_optimizer_may_step_it() -> None:
    made = "optimizers = []\n        for each in groups:\n            opt = each.opt\n            self.run(opt)"
    assert not check(PROGRAM.format(made=made, each="self.scaler.update()", last="pass"), "model.py", SETTINGS)


def test_what_is_asked_for_by_the_name_of_a_loop_is_another_object_in_each_round() -> None:
    assert not check(BY_NAME, "model.py", SETTINGS)
