"""float16 regions that a program opens itself, next to an Accelerator that has no scaler (AMP207)."""

from __future__ import annotations

import pytest

from amplint import check, make_settings
from amplint.base.findings import Confidence, Finding, Severity

TEXT = """\
import torch
from accelerate import Accelerator


def main(args, model, optimizer, loader, criterion):
    accelerator = MADE
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x, y in loader:
        with REGION:
            loss = criterion(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    accelerator.save_state(args.output)
"""
OWN = 'torch.autocast("cuda", dtype=torch.float16)'


def found(made: str, region: str = OWN) -> list[Finding]:
    settings = make_settings(suspicions=True)
    text = TEXT.replace("MADE", made).replace("REGION", region)
    return [each for each in check(text, settings=settings) if each.code == "AMP207"]


@pytest.mark.parametrize("made", ["Accelerator()", 'Accelerator(log_with="wandb", gradient_accumulation_steps=4)'])
@pytest.mark.parametrize("region", [OWN, 'torch.autocast("cuda", enabled=args.amp)', "torch.cuda.amp.autocast()"])
def test_accelerate_may_be_configured_for_float16(made: str, region: str) -> None:
    (finding,) = found(made, region)
    assert finding.confidence is Confidence.SUSPICION
    assert finding.message.startswith('unless accelerate is configured for "fp16" or "bf16", ')


@pytest.mark.parametrize(("precision", "confidence"), [("no", Confidence.CERTAIN), ("bf16", Confidence.SUSPICION)])
def test_a_precision_that_is_written_out_is_the_one(precision: str, confidence: Confidence) -> None:
    # With "bf16" the prepared model opens a region of its own.
    (finding,) = found(f'Accelerator(mixed_precision="{precision}")')
    assert finding.confidence is confidence
    assert (finding.severity is Severity.ERROR) is (confidence is Confidence.CERTAIN)
    assert "unless" not in finding.message


@pytest.mark.parametrize(
    ("made", "region"),
    [
        ('Accelerator(mixed_precision="fp16")', OWN),  # it scales
        ("Accelerator(mixed_precision=args.precision)", OWN),  # it may
        ("Accelerator(**args.accelerator)", OWN),
        ("Accelerator(deepspeed_plugin=args.plugin)", OWN),  # the engine may
        ("Accelerator()", "accelerator.autocast()"),  # it opens no region either
        ("Accelerator()", 'torch.autocast("cuda", dtype=torch.bfloat16)'),
        ("Accelerator()", 'torch.autocast("cuda", enabled=False)'),
    ],
)
def test_what_is_scaled_or_not_float16_is_right(made: str, region: str) -> None:
    assert not found(made, region)


def test_a_loss_that_the_program_scales_is_right() -> None:
    text = TEXT.replace("MADE", "Accelerator()").replace("REGION", OWN)
    text = text.replace("backward(loss)", "backward(scaler.scale(loss))").replace("criterion):", "criterion, scaler):")
    assert "AMP207" not in {each.code for each in check(text)}


CHOSEN_PRECISION = """\
import argparse

from accelerate import Accelerator

parser = argparse.ArgumentParser()
parser.add_argument("--precision", default=DEFAULT)
args = parser.parse_args()
accelerator = Accelerator(mixed_precision=args.precision)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x, y in loader:
    optimizer.zero_grad()
    with accelerator.autocast():
        loss = criterion(model(x), y)
        accelerator.backward(loss)
    optimizer.step()
"""


@pytest.mark.parametrize(("default", "confidence"), [('"no"', "likely"), ('"fp16"', "certain"), ("None", "certain")])
def test_a_region_that_is_off_by_default_is_only_likely_to_be_one(default: str, confidence: str) -> None:
    found = [each for each in check(CHOSEN_PRECISION.replace("DEFAULT", default)) if each.code == "AMP301"]
    assert [each.confidence.value for each in found] == [confidence]
