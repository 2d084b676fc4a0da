"""AMP402 where a scaler of a chosen scale only ever scales: what the optimizer divides out, and what is lost."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence, Severity
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP402"}), isolated=True, suspicions=True)
TEXT = """\
import torch
from somewhere import make, FusedLion

def main(args, loader, model):
    optimizer = {made}
    scaler = torch.amp.GradScaler("cuda", {scale})
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).sum()
        scaler.scale(loss).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "confidence", "says"),
    [
        ("torch.optim.SGD(model.parameters(), 0.1)", Confidence.CERTAIN, ""),
        ("make(args, model)", Confidence.LIKELY, "except with Adam"),
        ("FusedLion(model.parameters())", Confidence.LIKELY, "except with Adam"),
        (
            "torch.optim.Adam(model.parameters(), weight_decay=1e-5)",
            Confidence.LIKELY,
            "the weight decay is too weak",
        ),
        (
            "torch.optim.Adam(model.parameters(), weight_decay=args.decay)",
            Confidence.LIKELY,
            "the weight decay is too weak",
        ),
        (
            'torch.optim.Adam([{"params": model.parameters(), "weight_decay": 1e-6}])',
            Confidence.LIKELY,
            "the weight decay is too weak",
        ),
        ("torch.optim.Adam(model.parameters())", Confidence.LIKELY, "aren't skipped"),
        ("torch.optim.Adam(model.parameters(), weight_decay=0.0)", Confidence.LIKELY, "aren't skipped"),
        ("torch.optim.AdamW(model.parameters(), weight_decay=0.1)", Confidence.LIKELY, "aren't skipped"),
        (
            "torch.optim.NAdam(model.parameters(), weight_decay=0.1, decoupled_weight_decay=True)",
            Confidence.LIKELY,
            "aren't skipped",
        ),
    ],
)
def test_a_chosen_scale_is_said_to_be_wrong_as_far_as_the_optimizer_shows_it(
    made: str, confidence: Confidence, says: str
) -> None:
    """An Adam divides a constant out, but not what is added to the gradients; nothing is ever skipped."""
    (finding,) = check(TEXT.format(made=made, scale="init_scale=2**10"), settings=SETTINGS)
    assert finding.confidence is confidence
    assert says in finding.message
    assert finding.message.endswith("call `scaler.step(optimizer)` instead, then `scaler.update()`")


@pytest.mark.parametrize(
    ("comment", "confidence"),
    [
        ("# don't unscale it because we are using Adam", Confidence.SUSPICION),
        ("# update the weights", Confidence.LIKELY),
    ],
)
def test_a_comment_says_that_the_gradients_stay_scaled_on_purpose(comment: str, confidence: Confidence) -> None:
    """The step is one that the author has thought about."""
    text = TEXT.format(made="torch.optim.Adam(model.parameters())", scale="init_scale=2**10")
    text = text.replace("        optimizer.step()", f"        {comment}\n        optimizer.step()")
    (finding,) = check(text, settings=SETTINGS)
    assert finding.confidence is confidence


def test_a_scale_that_nobody_chose_is_an_error_for_any_optimizer() -> None:
    """Nothing says that the program wants a constant."""
    made = "torch.optim.Adam(model.parameters())"
    (finding,) = check(TEXT.format(made=made, scale="growth_interval=100"), settings=SETTINGS)
    assert (finding.confidence, finding.severity) == (Confidence.CERTAIN, Severity.ERROR)
