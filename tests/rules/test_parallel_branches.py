"""What AMP420 advises where the arms of an if disagree."""

from __future__ import annotations

from amplint import check
from amplint.base.findings import Finding

STEP = """
import torch


def train(model, batches, optimizer, scaler, use_amp):
    for inputs, targets in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        if use_amp:
            scaler.scale(loss).backward(){scaled}
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward(){plain}
            optimizer.step()
"""
CLIP = "\n            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"


def _disagreements(scaled: str = "", plain: str = "") -> list[Finding]:
    text = STEP.format(scaled=scaled, plain=plain)
    return [finding for finding in check(text, "train.py") if finding.code == "AMP420"]


def test_a_clip_in_the_plain_arm_belongs_after_unscale_in_the_other() -> None:
    (finding,) = _disagreements(plain=CLIP)
    assert finding.message.endswith("do it in both, after `unscale_` in the scaler's arm")


def test_a_clip_in_both_arms_is_right() -> None:
    assert not _disagreements("\n            scaler.unscale_(optimizer)" + CLIP, CLIP)


def test_a_branch_without_the_scaler_may_skip_what_is_not_finite() -> None:
    skip = "\n            if torch.isnan(loss):\n                print('skipped')\n                continue"
    text = STEP.format(scaled="", plain=CLIP).replace("        else:", f"        else:{skip}")
    assert [finding.code for finding in check(text, "train.py")] == ["AMP420"]
    other = text.replace("print('skipped')", "optimizer.step()")
    assert "AMP420" not in {finding.code for finding in check(other, "train.py")}
