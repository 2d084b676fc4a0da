"""AMP423: functions that save and load the state of a scaler which another function of the file makes and returns."""

from __future__ import annotations

import pytest

import amplint
from amplint.base.findings import Confidence

TEXT = """\
import torch


def new_scaler(options):
    return torch.amp.GradScaler("cuda", ENABLED)


def write(path, model, scaler):
    torch.save({"model": model.state_dict(), "scaler": SAVED}, path)


def resume(path, model, scaler=None):
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    if scaler is not None and TEST:
        scaler.load_state_dict(saved["scaler"])
"""


def found(
    enabled: str = "enabled=options.half", saved: str = "scaler.state_dict()", test: str = "True", more: str = ""
) -> list[amplint.Finding]:
    text = TEXT.replace("ENABLED", enabled).replace("SAVED", saved).replace("TEST", test) + more
    return [each for each in amplint.check(text) if each.code == "AMP423"]


@pytest.mark.parametrize("saved", ["scaler.state_dict()", "scaler.state_dict() if scaler is not None else None"])
@pytest.mark.parametrize(
    "test", ["True", '"scaler" in saved', 'saved["scaler"] is not None', 'saved.get("scaler") is not None']
)
def test_a_disabled_scaler_has_saved_nothing(saved: str, test: str) -> None:
    (finding,) = found(saved=saved, test=test)
    assert finding.confidence is Confidence.LIKELY
    assert finding.message.startswith("if `options.half` is false, line 9 saves an empty state")


@pytest.mark.parametrize(
    "changes",
    [
        {"test": 'saved["scaler"]'},
        {"test": 'saved.get("scaler")'},
        {"test": "scaler.is_enabled()"},
        {"enabled": ""},
        {"enabled": "enabled=torch.cuda.is_available()"},
        {"saved": "None"},
        {"more": "\n\ndef other():\n    return torch.amp.GradScaler('cuda')\n"},  # which of them it is isn't known
    ],
)
def test_what_is_asked_for_or_not_known(changes: dict[str, str]) -> None:
    assert found(**changes) == []
