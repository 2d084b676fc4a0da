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


CRITERION = """
import torch

def train(model, optimizer, loader):
    criterion = torch.nn.BCELoss()
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            pred = torch.sigmoid(model(x))
            loss = criterion(pred, y)
        scaler.scale(loss).backward()
        CLIP
        scaler.step(optimizer)
        scaler.update()
"""
CLIPS = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"


def test_what_no_run_can_show_is_not_clean_with_a_fix_either() -> None:
    (found,) = amplint.verify(CRITERION.replace("CLIP", "pass"), unsafe=True)
    assert [(each.code, each.fixed) for each in found.findings] == [("AMP304", True)]
    assert found.verdict == "not checkable"
    assert "AMP304 is reported, and the run can't show it, nor what its fix does" in found.reason
    right = CRITERION.replace("BCELoss", "BCEWithLogitsLoss").replace("torch.sigmoid(model(x))", "model(x)")
    (found,) = amplint.verify(right.replace("CLIP", "pass"), unsafe=True)
    assert found.verdict == "clean"


def test_a_step_that_is_confirmed_may_have_had_it() -> None:
    """It was wrong before the fixes, as the run shows, and nothing is reported after them."""
    (found,) = amplint.verify(CRITERION.replace("CLIP", CLIPS), unsafe=True)
    assert {each.code for each in found.findings} == {"AMP304", "AMP401"}
    assert found.verdict == "confirmed"
