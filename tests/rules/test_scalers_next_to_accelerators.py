"""AMP425: a scaler of the file's own that `accelerator.backward` passes by; AMP207 of the region there."""

from __future__ import annotations

import pytest

import amplint
from amplint.base.findings import Confidence, Severity

TEXT = """\
import torch
from accelerate import Accelerator


def train(model, loader):
    accelerator = Accelerator(GIVEN)
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(batch).mean()
        BACKWARD
        optimizer.step()
"""


def found(given: str, backward: str = "accelerator.backward(loss)") -> dict[str, amplint.Finding]:
    text = TEXT.replace("GIVEN", given).replace("BACKWARD", backward)
    settings = amplint.make_settings(suspicions=True)
    return {each.code: each for each in amplint.check(text, settings=settings)}


@pytest.mark.parametrize(("given", "severity"), [("", Severity.WARNING), ('mixed_precision="fp16"', Severity.NOTE)])
def test_the_scaler_is_not_known_to_the_accelerator(given: str, severity: Severity) -> None:
    finding = found(given)["AMP425"]
    assert finding.severity is severity
    assert "`accelerator.backward` on line 14 doesn't know it" in finding.message


def test_a_scaler_in_use_is_none_of_it() -> None:
    used = "accelerator.backward(scaler.scale(loss))"
    assert "AMP425" not in found("", used)
    assert "AMP425" not in found("", "scaler.scale(loss).backward()")


def test_what_accelerate_is_configured_for_is_not_known() -> None:
    finding = found("")["AMP207"]
    assert finding.confidence is Confidence.SUSPICION
    assert finding.message.startswith('unless accelerate is configured for "fp16" or "bf16", ')


def test_a_precision_in_the_code_is() -> None:
    assert found('mixed_precision="no"')["AMP207"].confidence is not Confidence.SUSPICION
    assert "AMP207" not in found('mixed_precision="fp16"')
