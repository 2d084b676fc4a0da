"""AMP425: a scaler that nothing uses matters where something is trained."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence
from amplint.config.settings import Settings

TEXT = """\
import torch


def main(model, loader, optimizer, criterion, amp):
    scaler = MADE
    model.eval()
    for x, y in loader:
        BODY


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("loss = criterion(model(x), y); loss.backward(); optimizer.step()", True),
        ("train_one_batch(model, x, y)", True),
        ("render(model(x), y)", False),
        ("print(y.training_step_of)", False),  # nothing is called
    ],
)
def test_it_is_said_of_what_trains(body: str, found: bool) -> None:
    text = TEXT.replace("BODY", body).replace("MADE", 'torch.amp.GradScaler("cuda", enabled=amp)')
    assert ("AMP425" in {each.code for each in check(text)}) is found


def test_a_scaler_that_is_always_disabled_is_not_missed() -> None:
    text = TEXT.replace("BODY", "train_one_batch(model, x, y)").replace("main()", "main(amp=False)")
    assert not check(text.replace("MADE", 'torch.amp.GradScaler("cuda", enabled=False)'))


@pytest.mark.parametrize(
    ("made", "confidence"),
    [
        ('torch.amp.GradScaler("cuda")', Confidence.SUSPICION),  # left over
        ('torch.amp.GradScaler("cuda", enabled=amp)', Confidence.CERTAIN),
        ('torch.amp.GradScaler("cuda") if amp else None', Confidence.CERTAIN),
        ('None\n    if amp:\n        scaler = torch.amp.GradScaler("cuda")', Confidence.CERTAIN),
    ],
)
def test_a_scaler_that_no_setting_asks_for_is_a_suspicion(made: str, confidence: Confidence) -> None:
    text = TEXT.replace("BODY", "criterion(model(x), y).backward(); optimizer.step()").replace("MADE", made)
    told = check(text, settings=Settings(frozenset({"AMP425"}), isolated=True, suspicions=True))
    assert [each.confidence for each in told] == [confidence]
