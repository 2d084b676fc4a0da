"""A region without a dtype takes that of the region which its callers open round it."""

from __future__ import annotations

import pytest

from amplint import check

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
