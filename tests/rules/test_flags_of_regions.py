"""AMP210: a region that is always on is in plain sight; one with a flag of its own may go together with the scaler."""

from __future__ import annotations

import pytest

import amplint
from amplint import make_settings
from amplint.base.findings import Confidence

TASK = """\
import torch


class Task(Base):
    def __init__(self):
        self.scaler = None

    def prepare(self, parameters):
        self.optimizer = make_optimizer(parameters)
        if self.criterion is None:
            raise NotImplementedError("a loss is missing")
        self.scaler = torch.amp.GradScaler("cuda") if self.mixed_precision else None

    def run(self, loader):
        if not self.prepared:
            raise RuntimeError("call prepare() first")
        for x, y in loader:
            with torch.autocast("cuda"ENABLED):
                loss = self.criterion(self.model(x), y)
            if self.scaler is not None:
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                loss.backward()
                self.optimizer.step()
"""


@pytest.mark.parametrize("enabled", ["", ", enabled=True", ", enabled=torch.cuda.is_available()"])
def test_a_region_that_is_always_on(enabled: str) -> None:
    findings = amplint.check(TASK.replace("ENABLED", enabled), "task.py")
    assert [each.confidence for each in findings if each.code == "AMP210"] == [Confidence.CERTAIN]


def test_a_region_with_the_flag_of_the_scaler() -> None:
    text = TASK.replace("ENABLED", ", enabled=self.mixed_precision")
    findings = amplint.check(text, "task.py", make_settings(suspicions=True))
    assert [each.confidence for each in findings if each.code == "AMP210"] == [Confidence.SUSPICION]


APART = """\
import torch


def train(model, loader, optimizer, settings, flags):
    scaler = torch.amp.GradScaler("cuda", enabled=flags["scale_loss"])
    for x, y in loader:
        with torch.autocast("cuda"ENABLED):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("enabled", "confidence"),
    [
        ("", Confidence.CERTAIN),
        (', enabled=settings["large"]', Confidence.SUSPICION),
        (', enabled=flags["large"]', Confidence.CERTAIN),  # two options, which a user sets one by one
    ],
)
def test_a_flag_that_another_may_have_set(enabled: str, confidence: Confidence) -> None:
    findings = amplint.check(APART.replace("ENABLED", enabled), "train.py", make_settings(suspicions=True))
    assert [each.confidence for each in findings if each.code == "AMP210"] == [confidence]
