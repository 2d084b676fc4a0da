"""What is found in a function that only times steps on made-up data is a suspicion."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP411"}), isolated=True, suspicions=True)
TEXT = """\
import time
import torch


def speed(model, loader, most):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    x = torch.ones([4, 3]).cuda()
    start = time.time()
    for i in range(most):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    print(time.time() - start)


def train(model, optimizer):
    torch.save(model.state_dict(), "model.pt")
"""


@pytest.mark.parametrize(
    ("old", "new", "confidence"),
    [
        ("", "", Confidence.SUSPICION),
        ("for i in range(most)", "for x in loader", Confidence.CERTAIN),
        ("    start = time.time()\n", "    start = 0\n", Confidence.CERTAIN),
        ("    print(time", '    torch.save(model, "model.pt")\n    print(time', Confidence.CERTAIN),
        ("    x = torch.ones([4, 3]).cuda()", "    x = loader[0]", Confidence.CERTAIN),
    ],
)
def test_gradients_that_a_benchmark_never_clears(old: str, new: str, confidence: Confidence) -> None:
    text = TEXT.replace(old, new, 1) if old else TEXT
    assert [each.confidence for each in check(text, "a.py", SETTINGS)] == [confidence]
