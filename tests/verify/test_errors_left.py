"""A step in which the linter finds an error that no run can show is not called right."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

import amplint
from amplint.verify.steps.verify import StepRow, Verifier

STEP = """
import torch

def train(model, optimizer, loader, args):
    scaler = SCALER
    for x, y in loader:
        with torch.autocast("cuda"):
            loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
BARE = """
import torch

def train(model, optimizer, loader):
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def row(text: str) -> StepRow:
    (found,) = amplint.verify(text)
    return found


def test_float16_without_a_scaler_is_not_clean() -> None:
    found = row(BARE)
    assert [each.code for each in found.findings] == ["AMP207"]
    assert found.verdict == "not checkable"
    assert "AMP207 is left, and the run can't show it: it depends on how small your gradients are" in found.reason
    assert row(BARE.replace("float16", "bfloat16")).verdict == "clean"


def test_a_scaler_that_is_none_raises_in_the_run() -> None:
    found = row(STEP.replace("SCALER", 'torch.amp.GradScaler("cuda") if args.amp else None'))
    (finding,) = found.findings
    assert (finding.code, finding.shown, found.verdict) == ("AMP210", True, "misbehaves")
    assert "'NoneType' object has no attribute 'scale' where not (args.amp)" in found.reason
    assert row(STEP.replace("SCALER", 'torch.amp.GradScaler("cuda")')).verdict == "clean"


def test_a_file_has_a_limit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    more = BARE.replace("float16", "bfloat16") + BARE.replace("float16", "bfloat16").replace("train", "fit")
    now = [0.0]

    def passes() -> float:
        now[0] += 100.0
        return now[0]

    monkeypatch.setattr("amplint.verify.steps.verify.monotonic", passes)
    first, second = amplint.verify(more, timeout=60.0)
    assert (first.verdict, second.verdict) == ("clean", "not checkable")
    assert second.reason == "the steps before it took more than 120 s, the limit for one file: --timeout"


def test_a_search_that_fails_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def lost(_self: Verifier, wanted: dict[str, Any]) -> dict[str, Any]:
        asked.append(wanted["ask"])
        return {"failed": "timed out after 60 s"}

    monkeypatch.setattr(Verifier, "_ask", lost)
    (found,) = amplint.verify(BARE)
    assert (found.verdict, asked) == ("not checkable", ["steps"])
    assert found.reason == "looking for training steps failed: timed out after 60 s"
