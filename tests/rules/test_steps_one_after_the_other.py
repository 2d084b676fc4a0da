"""AMP402: an optimizer's own step next to the scaler's, where the backward is out of sight."""

from __future__ import annotations

import pytest

import amplint

TRAINER = """\
from abc import ABC, abstractmethod


class Trainer(ABC):
    def __init__(self, model, optimizer, scaler, loader, amp):
        self.model, self.optimizer, self.scaler = model, optimizer, scaler
        self.loader, self.amp = loader, amp

    @abstractmethod
    def run(self, batch):
        pass

    def penalty(self, loss):
        self.scaler.scale(loss).backward()

    def epoch(self):
        self.optimizer.zero_grad()
        for number, batch in enumerate(self.loader):
            STEPS
            self.scaler.update()
            self.optimizer.zero_grad()
"""


def found(steps: str) -> list[tuple[str, str]]:
    text = TRAINER.replace("STEPS", steps.replace("\n", "\n            "))
    return [(each.code, text[each.start : each.end]) for each in amplint.check(text)]


@pytest.mark.parametrize(
    "steps",
    [
        "self.run(batch)\nself.optimizer.step()\nself.scaler.step(self.optimizer)",
        "self.run(batch)\nself.scaler.step(self.optimizer)\nself.optimizer.step()",
        "self.run(batch)\nself.optimizer.step()\nprint(number)\nself.scaler.step(self.optimizer)",
        "self.run(batch)\nself.scaler.unscale_(self.optimizer)\nself.scaler.step(self.optimizer)\nself.optimizer.step()",
    ],
)
def test_two_steps_with_the_same_gradients(steps: str) -> None:
    assert found(steps) == [("AMP402", "self.optimizer.step()")]


@pytest.mark.parametrize(
    "steps",
    [
        # Another backward may come between; another optimizer's step does.
        "self.run(batch)\nself.optimizer.step()\nself.run(batch)\nself.scaler.step(self.optimizer)",
        "self.run(batch)\nself.second.step()\nself.scaler.step(self.optimizer)",
        # A condition chooses, whatever it is called.
        "self.run(batch)\nif self.amp:\n    self.scaler.step(self.optimizer)\nif self.raw:\n    self.optimizer.step()",
        "self.run(batch)\nif self.amp:\n    self.scaler.step(self.optimizer)\nelse:\n    self.optimizer.step()",
        # A closure runs a backward of its own.
        "self.optimizer.step(lambda: self.run(batch))\nself.run(batch)\nself.scaler.step(self.optimizer)",
        "self.run(batch)\nself.scaler.step(self.optimizer)",
    ],
)
def test_each_step_has_gradients_of_its_own(steps: str) -> None:
    assert found(steps) == []


def test_the_fix_leaves_the_scalers_step() -> None:
    steps = "self.run(batch)\n            self.optimizer.step()\n            self.scaler.step(self.optimizer)"
    fixed = amplint.fix(TRAINER.replace("STEPS", steps), unsafe=True)
    assert "self.optimizer.step()" not in fixed
    assert "self.scaler.step(self.optimizer)" in fixed


STUB = """\
import torch


class Trainer:
    def __init__(self, model, optimizer, loader):
        self.model, self.optimizer, self.loader = model, optimizer, loader
        self.scaler = torch.amp.GradScaler("cuda")

    def run(self, batch):
        BODY

    def epoch(self):
        for batch in self.loader:
            self.optimizer.zero_grad()
            self.run(batch)
            self.scaler.step(self.optimizer)
            self.scaler.update()


def scaled(loss, scaler):
    scaler.scale(loss).backward()
"""


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ("raise NotImplementedError", []),
        ('"""For subclasses."""\n        raise NotImplementedError("run")', []),
        ("return self.model(batch)", ["AMP407"]),
    ],
)
def test_a_method_that_is_left_to_subclasses_may_run_backward(body: str, codes: list[str]) -> None:
    assert [each.code for each in amplint.check(STUB.replace("BODY", body))] == codes


METERED = """\
import torch


class Trainer:
    def __init__(self, model, optimizer, loader, meters, names):
        self.model, self.optimizer, self.loader = model, optimizer, loader
        self.meters, self.names = meters, [names[0]] + names
        self.scaler = torch.amp.GradScaler("cuda")

    def clip(self):
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)

    def run(self, batch):
        with torch.autocast("cuda", dtype=torch.float16):
            batch["loss"] = self.model(batch["x"]).mean()
        self.scaler.scale(batch["loss"]).backward()
        return batch

    def epoch(self):
        for batch in self.loader:
            self.optimizer.zero_grad()
            batch = self.run(batch)
            for name in self.names:
                if name in batch:
                    self.meters.update(name, batch[name].item())
            UNSCALE
            self.clip()
            self.scaler.step(self.optimizer)
            self.scaler.update()
"""


@pytest.mark.parametrize(("unscale", "codes"), [("pass", ["AMP401"]), ("self.scaler.unscale_(self.optimizer)", [])])
def test_a_loop_that_updates_meters_is_none_over_scalers(unscale: str, codes: list[str]) -> None:
    assert [each.code for each in amplint.check(METERED.replace("UNSCALE", unscale))] == codes
