"""AMP210: an option that the code itself switches on after the scaler was made by it."""

from __future__ import annotations

import pytest

import amplint

PROGRAM = """\
import torch
from torch import nn


def train(args, config, model, loader):
    optimizer = torch.optim.AdamW(model.parameters())
    BEFORE
    scaler = torch.amp.GradScaler("cuda", enabled=FLAG)
    AFTER
    for x, y in loader:
        FIRST
        with torch.autocast("cuda", enabled=FLAG):
            loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def codes(flag: str, *, before: str = "pass", after: str = "pass", first: str = "pass", more: str = "") -> list[str]:
    text = PROGRAM.replace("BEFORE", before).replace("AFTER", after).replace("FIRST", first).replace("FLAG", flag)
    return [each.code for each in amplint.check(text + more) if each.code == "AMP210"]


@pytest.mark.parametrize("flag", ["args.use_amp", "args.amp", 'config["amp"]'])
def test_switched_on_after_the_scaler(flag: str) -> None:
    assert codes(flag, first=f"{flag} = True") == ["AMP210"]
    assert codes(flag, after=f"{flag} = True") == ["AMP210"]
    assert codes(flag, after=f"with torch.device('cuda'): {flag} = True") == ["AMP210"]


@pytest.mark.parametrize("flag", ["args.use_amp", 'config["amp"]'])
def test_the_scaler_knows_it(flag: str) -> None:
    assert codes(flag) == []
    assert codes(flag, before=f"{flag} = True") == []
    assert codes(flag, before=f"{flag} = True", first=f"{flag} = True") == []
    assert codes(flag, first=f"{flag} = False") == []


@pytest.mark.parametrize("flag", ["args.use_amp", 'config["amp"]'])
def test_it_may_not_be_switched_on(flag: str) -> None:
    assert codes(flag, after=f"if args.fast: {flag} = True") == []
    assert codes(flag, after=f"{flag} = True", first=f"{flag} = args.fast") == []


def test_others_read_it() -> None:
    """Where another function reads it, that may be from before or after."""
    made = 'def make(args):\n    return torch.amp.GradScaler("cuda", enabled=args.use_amp)\n'
    text = PROGRAM.replace('torch.amp.GradScaler("cuda", enabled=FLAG)', "make(args)")
    text = text.replace("BEFORE", "args.use_amp = True").replace("FLAG", "args.use_amp")
    text = text.replace("AFTER", "pass").replace("FIRST", "pass")
    assert [each.code for each in amplint.check(text + made) if each.code == "AMP210"] == []
