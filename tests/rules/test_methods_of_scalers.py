"""What a scaler is asked for beside its own methods."""

from __future__ import annotations

import pytest

from amplint import check

STEP = """\
import torch


class Trainer:
    def __init__(self, model, optimizer, limit=1.0):
        self.model, self.optimizer, self.limit = model, optimizer, limit
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, loss, amp):
        self.optimizer.zero_grad()
        if amp:
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.optimizer)
            CALL
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.limit)
            self.optimizer.step()
"""


def codes(call: str) -> set[str]:
    return {each.code for each in check(STEP.replace("CALL", call))}


@pytest.mark.parametrize("method", ["clip_grad_norm_", "clip_grads"])
def test_a_clip_of_the_scaler_is_no_missing_clip(method: str) -> None:
    """It raises, and that is said; the branch is not one that doesn't clip."""
    assert codes("pass") == {"AMP420"}
    assert codes(f"self.scaler.{method}(self.model.parameters(), self.limit)") == {"AMP107"}


@pytest.mark.parametrize("method", ["get_scale", "is_enabled", "_check_inf_per_device"])
def test_what_a_scaler_has(method: str) -> None:
    assert codes(f"self.scaler.{method}()") == {"AMP420"}


PERHAPS = """\
import torch
from helpers import make_scaler


class Trainer:
    def __init__(self, given=None):
        self.scaler = MADE
        MORE

    def step(self):
        self.scaler.report()
"""
OWN = 'torch.amp.GradScaler("cuda")'


@pytest.mark.parametrize(
    ("made", "more", "found"),
    [
        (OWN, "pass", ["AMP107"]),
        (f"{OWN} if torch.cuda.is_available() else None", "pass", ["AMP107"]),
        (f"given or {OWN}", "pass", []),
        (f"make_scaler() if given else {OWN}", "pass", []),
        (OWN, "if given is not None:\n            self.scaler = given", []),
        (OWN, "self.scaler = make_scaler(self.scaler)", []),
    ],
)
def test_what_may_be_another_scaler(made: str, more: str, found: list[str]) -> None:
    text = PERHAPS.replace("MADE", made).replace("MORE", more)
    assert [each.code for each in check(text) if each.code == "AMP107"] == found


TWICE = """\
import torch


def step(scaler, optimizer, loss):
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    BETWEEN
    scaler.update()
    return scaler.get_scale()
"""


@pytest.mark.parametrize(("between", "fixed"), [("print(loss)", True), ("before = scaler.get_scale()", False)])
def test_a_second_update_around_a_reading_of_the_scale(between: str, fixed: bool) -> None:
    """Whichever goes, the other one has to be the one whose change is read."""
    (finding,) = (each for each in check(TWICE.replace("BETWEEN", between)) if each.code == "AMP410")
    assert (finding.fix is not None) is fixed
