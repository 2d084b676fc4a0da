"""Anomaly detection that a Lightning Trainer for float16 turns on (AMP509)."""

from __future__ import annotations

import pytest

from amplint import check

TEXT = "import lightning as L\n\n\ndef main(args, model, loader):\n    L.Trainer({}).fit(model, loader)\n"


def found(arguments: str) -> bool:
    return "AMP509" in {each.code for each in check(TEXT.format(arguments))}


@pytest.mark.parametrize("precision", ["16", '"16"', '"16-mixed"'])
def test_it_ends_what_the_scaler_would_skip(precision: str) -> None:
    assert found(f"precision={precision}, detect_anomaly=True")


@pytest.mark.parametrize(
    "arguments",
    [
        'precision="bf16-mixed", detect_anomaly=True',
        "precision=args.precision, detect_anomaly=True",
        'precision="16-mixed", detect_anomaly=args.debug',
        'precision="16-mixed", detect_anomaly=False',
        "detect_anomaly=True",
    ],
)
def test_without_a_scaler_or_on_demand_it_is_right(arguments: str) -> None:
    assert not found(arguments)


GLOBAL = """\
import torch
import lightning as L


def main(args, model, loader):
    torch.autograd.set_detect_anomaly(True)
    L.Trainer(precision="16-mixed").fit(model, loader)
"""


@pytest.mark.parametrize(
    ("old", "new", "confidences"),
    [
        ("", "", ["certain"]),
        ('"16-mixed"', '"16-mixed" if args.half else 32', ["likely"]),
        # Another call that switches the detection on, on demand.
        (
            "    torch.auto",
            "    if args.debug:\n        torch.autograd.set_detect_anomaly(True)\n    torch.auto",
            ["certain"],
        ),
        # Nothing is scaled; the detection is on demand, or off again, or elsewhere.
        ('"16-mixed"', '"bf16-mixed"', []),
        ("    torch.auto", "    if args.debug:\n        torch.auto", []),
        ("    L.Trainer", "    torch.autograd.set_detect_anomaly(False)\n    L.Trainer", []),
        ("    L.Trainer", "\n\ndef fit(args, model, loader):\n    L.Trainer", []),
    ],
)
def test_it_is_switched_on_for_all(old: str, new: str, confidences: list[str]) -> None:
    assert old in GLOBAL
    told = [each for each in check(GLOBAL.replace(old, new, 1)) if each.code == "AMP509"]
    assert [each.confidence.value for each in told] == confidences
    assert all(each.message.startswith("anomaly detection ends the program") for each in told)
