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
