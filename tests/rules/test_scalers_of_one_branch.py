"""AMP420 of a scaler that one branch of an `if` creates: which branch, and what to do, by the test's name."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

TEXT = """\
import torch


def main(args, loader, model, optimizer):
    if TEST:
        THEN
    else:
        ELSE
    for x in loader:
        with torch.autocast("cuda"):
            loss = model(x)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
MADE = 'scaler = torch.amp.GradScaler("cuda")'
OTHER = "print(args)"


@pytest.mark.parametrize(
    ("test", "then", "said", "to_do"),
    [
        ("args.use_amp", True, "the `if` on line 5: if `args.use_amp` is false", "`enabled=args.use_amp`"),
        ("args.fp32", False, "the `else` of the `if` on line 5: if `args.fp32` is true", "`enabled=not args.fp32`"),
        ("args.fp32", True, "the `if` on line 5: if `args.fp32` is false", "`enabled=args.fp32`"),
        (
            "args.precision == 32",
            False,
            "the `else` of the `if` on line 5: if `args.precision == 32` is true",
            "`enabled=not (args.precision == 32)`",
        ),
        # Not a setting of AMP: the scaler belongs to both branches.
        (
            "args.distributed",
            False,
            "the `else` of the `if` on line 5: if `args.distributed` is true",
            "before line 5",
        ),
    ],
)
def test_the_branch_and_what_to_do(test: str, then: bool, said: str, to_do: str) -> None:
    text = TEXT.replace("TEST", test)
    text = text.replace("THEN", MADE if then else OTHER).replace("ELSE", OTHER if then else MADE)
    (one,) = check(text, "train.py", Settings(frozenset({"AMP420"}), isolated=True))
    assert f"is created only in {said}, this line raises UnboundLocalError" in one.message
    assert one.message.endswith(to_do)
