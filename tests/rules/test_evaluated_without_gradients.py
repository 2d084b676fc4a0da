"""AMP207 and AMP210: a region that no backward goes through has no gradients that could become zero."""

from __future__ import annotations

import textwrap

import pytest

from amplint import check
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP207", "AMP210"}), isolated=True, target_torch="2.4")
# The training itself is right: its region and its scaler have one flag.
PROGRAM = """\
import torch
from torch import nn

def score(model, x, y):
    return nn.functional.cross_entropy(model(x), y)

{helper}
def train(args, model, batches, held_out):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda") if args.amp else None
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled=args.amp):
            loss = score(model, x, y)
{extra}
        if args.amp:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
"""
OFF = ["torch.no_grad()", "torch.inference_mode()", "torch.set_grad_enabled(False)"]
ADDED = "\nloss = loss + 0.1 * held"


def found(extra: str, helper: str = "") -> list[str]:
    text = PROGRAM.format(helper=helper, extra=textwrap.indent(extra, " " * 8))
    return [each.code for each in check(text, settings=SETTINGS)]


@pytest.mark.parametrize("off", OFF)
def test_the_same_function_is_called_without_gradients(off: str) -> None:
    extra = "with {off}:\n    with torch.autocast('cuda'):\n        held = score(model, x, y)" + ADDED
    assert found(extra.format(off=off)) == []
    assert found(extra.format(off="torch.enable_grad()")) == ["AMP210"]


@pytest.mark.parametrize("off", OFF)
def test_one_with_enters_both(off: str) -> None:
    assert found(f"with {off}, torch.autocast('cuda'):\n    held = score(model, x, y)" + ADDED) == []
    assert found("with torch.autocast('cuda'):\n    held = score(model, x, y)" + ADDED) == ["AMP210"]


def test_what_is_only_printed_is_no_part_of_the_loss() -> None:
    assert found("with torch.autocast('cuda'):\n    print(score(model, x, y).item())") == []


HELPERS = [
    "def evaluate(model, x, y):\n    with torch.autocast('cuda'):\n        return score(model, x, y)\n",
    "def one(model, x, y):\n    with torch.autocast('cuda'):\n        return score(model, x, y)\n"
    "\ndef evaluate(model, x, y):\n    held = one(model, x, y)\n    return held * 2\n",
    "@torch.autocast('cuda')\ndef evaluate(model, x, y):\n    return score(model, x, y)\n",
]


@pytest.mark.parametrize("helper", HELPERS)
def test_a_function_with_a_region_is_called_without_gradients(helper: str) -> None:
    assert found("with torch.no_grad():\n    held = evaluate(model, x, y)" + ADDED, helper) == []
    assert found("held = evaluate(model, x, y)" + ADDED, helper) == ["AMP210"]
    assert found(
        f"with torch.no_grad():\n    print(evaluate(model, x, y))\nheld = evaluate(model, x, y){ADDED}", helper
    ) == ["AMP210"]


ONE_FOR_BOTH = """\
import torch
from torch import nn

def run(model, batches, optimizer=None, scaler=None):
    for x, y in batches:
        loss = nn.functional.cross_entropy(model(x), y)
        if optimizer is None:
            continue
        optimizer.zero_grad()
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()

def held_out(model, batches):
{evaluation}

def main(model, batches, args):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run(model, batches, optimizer)
{last}
"""


@pytest.mark.parametrize(
    ("evaluation", "last", "codes"),
    [
        ("with torch.no_grad(), torch.autocast('cuda'):\n    run(model, batches)", "held_out(model, batches)", []),
        (
            "with torch.autocast('cuda'):\n    run(model, batches)",
            "with torch.no_grad():\n    held_out(model, batches)",
            [],
        ),
        ("with torch.autocast('cuda'):\n    run(model, batches)", "held_out(model, batches)", ["AMP210"]),
        (
            "with torch.autocast('cuda'):\n    run(model, batches)",
            "with torch.no_grad():\n    held_out(model, batches)\nheld_out(model, batches)",
            ["AMP210"],
        ),
    ],
)
def test_one_function_trains_and_evaluates(evaluation: str, last: str, codes: list[str]) -> None:
    text = ONE_FOR_BOTH.format(evaluation=textwrap.indent(evaluation, " " * 4), last=textwrap.indent(last, " " * 4))
    assert [each.code for each in check(text, settings=SETTINGS)] == codes
