"""A region without a dtype takes that of the region which its callers open round it."""

from __future__ import annotations

import re

import pytest

from amplint import check
from amplint.config.settings import Settings

TEXT = """\
import torch


class Trainer:
    def losses(self, batch):
        with torch.autocast("cuda", enabled=self.context.fp16):
            return self.model(batch).mean()


def main(args, loader):
    trainer = Trainer()
    for batch in loader:
        with OUTER:
            loss = trainer.losses(batch)
        loss.backward()
        trainer.optimizer.step()
        trainer.optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("outer", "found"),
    [
        ('torch.autocast("cuda", dtype=torch.bfloat16)', False),
        ('torch.autocast("cuda", dtype=torch.float16)', True),
        ('torch.autocast("cpu", dtype=torch.bfloat16)', True),
        ("torch.profiler.profile()", True),
    ],
)
def test_a_loss_from_it_needs_a_scaler_where_that_is_float16(outer: str, found: bool) -> None:
    assert ("AMP207" in {each.code for each in check(TEXT.replace("OUTER", outer))}) is found


def test_a_caller_outside_of_one_leaves_the_default() -> None:
    text = TEXT.replace("OUTER", 'torch.autocast("cuda", dtype=torch.bfloat16)')
    text += """

def smoke(batch):
    trainer = Trainer()
    loss = trainer.losses(batch)
    loss.backward()
    trainer.optimizer.step()
"""
    assert "AMP207" in {each.code for each in check(text)}


TWO_BRANCHES = """\
import torch


class Algorithm:
    def __init__(self, model, optimizer, mixed: bool = True):
        self.model, self.optimizer = model, optimizer
        self.mixed = mixed
        self.scaler = torch.amp.GradScaler("cuda", enabled=mixed)

    def train(self, batches):
        for batch in batches:
            with torch.autocast("cuda", dtype=torch.float16, enabled=self.mixed):
                self.step(batch)

    def step(self, batch):
        loss = self.model(batch).mean()
        self.optimizer.zero_grad()
        if TEST:
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            loss.backward()
            self.optimizer.step()


model = torch.nn.Linear(3, 3).cuda()
Algorithm(model, torch.optim.SGD(model.parameters(), 0.1), mixed=True).train([])
"""


@pytest.mark.parametrize(("test", "rows"), [("self.mixed", [19]), ("batch.any()", [19, 23])])
def test_the_branch_without_the_region_is_outside_of_it(test: str, rows: list[int]) -> None:
    """Also where a call of the constructor says which of the two runs."""
    findings = check(TWO_BRANCHES.replace("TEST", test), "a.py", Settings(frozenset({"AMP301"}), isolated=True))
    (finding,) = findings
    lines = [finding.location.row, *map(int, re.findall(r"AMP301 on line (\d+)", finding.message))]
    assert lines == rows
