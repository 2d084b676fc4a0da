"""AMP207 and AMP301 where a step only shows how much memory it takes: a suspicion."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP207"}), isolated=True, target_torch="2.4", suspicions=True)
PROGRAM = """
import torch


def probe(build, loader, config):
    torch.cuda.reset_peak_memory_stats()
    model = build(config).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for x, y in loader:
        with torch.autocast("cuda"):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    peak = torch.cuda.max_memory_allocated()
    count = sum(p.numel() for p in model.parameters())
    return peak, count


def train(model, optimizer, loader):
    torch.save(model.state_dict(), "model.pt")
"""
KEPT = {
    "returned": ("return peak, count", "return peak, model"),
    "stored": ("count = sum", "config.model = model\n    count = sum"),
    "saved": ("count = sum", "torch.save(model.state_dict(), config.path)\n    count = sum"),
    "given": ("model = build(config).cuda()", ""),
    "not reset": ("torch.cuda.reset_peak_memory_stats()", ""),
}


def confidences(text: str) -> list[Confidence]:
    return [each.confidence for each in check(text, "a.py", SETTINGS)]


def test_a_model_that_nobody_keeps() -> None:
    assert confidences(PROGRAM) == [Confidence.SUSPICION]


@pytest.mark.parametrize(("old", "new"), KEPT.values(), ids=KEPT)
def test_a_model_that_is_kept(old: str, new: str) -> None:
    text = PROGRAM.replace(old, new, 1).replace(
        "(build, loader", "(build, model, loader" if not new else "(build, loader"
    )
    assert confidences(text) == [Confidence.CERTAIN]


UNSTEPPED = """
import torch


def largest(model, dataset, sizes):
    peaks = []
    for size in sizes:
        torch.cuda.reset_peak_memory_stats()
        with torch.autocast("cuda"):
            loss = model(dataset[:size]).mean()
            loss.backward()
        peaks.append(torch.cuda.max_memory_allocated())
        model.zero_grad()
    return peaks
"""


@pytest.mark.parametrize(
    ("old", "new", "confidence"),
    [
        ("", "", Confidence.SUSPICION),
        ("        model.zero_grad()", "        optimizer.step()\n        model.zero_grad()", Confidence.CERTAIN),
        ("        torch.cuda.reset_peak_memory_stats()\n", "", Confidence.CERTAIN),
    ],
)
def test_gradients_that_nobody_takes(old: str, new: str, confidence: Confidence) -> None:
    text = UNSTEPPED.replace(old, new, 1) if old else UNSTEPPED
    settings = SETTINGS._replace(codes=frozenset({"AMP301"}))
    assert [each.confidence for each in check(text, "a.py", settings)] == [confidence]
