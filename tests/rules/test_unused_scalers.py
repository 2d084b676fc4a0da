"""AMP425: a scaler that nothing uses matters where something is trained."""

from __future__ import annotations

import pytest

from amplint import check

TEXT = """\
import torch


def main(model, loader, optimizer, criterion):
    scaler = torch.amp.GradScaler("cuda")
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
    assert ("AMP425" in {each.code for each in check(TEXT.replace("BODY", body))}) is found
