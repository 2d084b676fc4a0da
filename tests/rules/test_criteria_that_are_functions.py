"""AMP303: criteria that are functions, however they come to where they are called."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence
from amplint.config.settings import Settings

PROGRAM = """import functools
import torch
import torch.nn.functional as F

def plain(outputs, targets, weight=1.0):
    return weight * F.cross_entropy(outputs, targets)

def rounded(outputs, targets):
    return F.cross_entropy(outputs.float(), targets)

def built(args):
    def inner(outputs, targets):
        return args.weight * F.cross_entropy(outputs, targets)
    return args, inner

def train(model, loader, optimizer, scaler, criterion):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            out = model(x)
        loss = criterion(out, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

def main(model, loader, optimizer, scaler, args):
    {made}
    train(model, loader, optimizer, scaler, criterion)
"""
SETTINGS = Settings(frozenset({"AMP303"}), isolated=True)


@pytest.mark.parametrize(
    ("made", "count"),
    [
        ("criterion = plain", 1),
        ("criterion = F.cross_entropy", 1),
        ("criterion = lambda outputs, targets: F.cross_entropy(outputs, targets)", 1),
        ("criterion = functools.partial(F.cross_entropy, label_smoothing=0.1)", 1),
        ("criterion = functools.partial(plain, weight=2.0)", 1),
        ("_, criterion = built(args)", 1),
        ("criterion = plain if args.plain else F.cross_entropy", 2),
        ("criterion = F.cross_entropy if args.plain else args.criterion", 0),
        ("criterion = rounded", 0),
        ("criterion = functools.partial(rounded)", 0),
        ("criterion = lambda outputs, targets: F.cross_entropy(outputs.float(), targets)", 0),
        ("criterion = args.criterion", 0),
        ("criterion = F.binary_cross_entropy_with_logits", 0),
    ],
)
def test_a_criterion_behind_the_region(made: str, count: int) -> None:
    assert [each.code for each in check(PROGRAM.format(made=made), "train.py", SETTINGS)] == count * ["AMP303"]


def test_a_criterion_in_the_region_is_right() -> None:
    text = PROGRAM.format(made="criterion = plain").replace("        loss = criterion", "            loss = criterion")
    assert not check(text, "train.py", SETTINGS)


@pytest.mark.parametrize(
    ("call", "confidence"),
    [("out = model(x)", Confidence.LIKELY), ("out, _ = model(x, y)", Confidence.SUSPICION)],
)
def test_a_model_that_gets_the_targets_may_give_float32(call: str, confidence: Confidence) -> None:
    """A head with a margin mixes the scores with a one-hot tensor."""
    text = PROGRAM.format(made="criterion = F.cross_entropy").replace("out = model(x)", call)
    (found,) = check(text, "train.py", SETTINGS._replace(suspicions=True))
    assert found.confidence is confidence


@pytest.mark.parametrize("pieces", ["model(x).chunk(2)", "torch.chunk(model(x), 2)", "model(x).split(8, dim=1)"])
def test_pieces_of_an_output_are_what_it_is(pieces: str) -> None:
    text = PROGRAM.format(made="criterion = F.cross_entropy").replace("out = model(x)", f"out, other = {pieces}")
    (found,) = check(text, "train.py", SETTINGS)
    assert found.confidence is Confidence.LIKELY
