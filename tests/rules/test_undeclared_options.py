"""AMP420: a flag of AMP that the parser of the program does not declare."""

from __future__ import annotations

import pytest

import amplint

PROGRAM = """\
import argparse
import torch
from elsewhere import add_options


def train(model, loader, args):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled=READ):
            loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    DECLARED
    args = parser.parse_args()
    train(torch.nn.Linear(3, 3), [], args)


main()
"""


def found(declared: str = "pass", read: str = "args.use_amp") -> list[str]:
    text = PROGRAM.replace("DECLARED", declared).replace("READ", read)
    return [each.message for each in amplint.check(text, "train.py") if each.code == "AMP420"]


@pytest.mark.parametrize("declared", ["pass", "parser.add_argument('--amp', action='store_true')"])
def test_a_flag_that_is_not_declared(declared: str) -> None:
    (message,) = found(declared)
    assert (
        message == "no option `use_amp` is declared, and nothing sets `args.use_amp`: this line raises AttributeError; "
        "declare the option, or read the right attribute"
    )


@pytest.mark.parametrize(
    ("declared", "read"),
    [
        ("parser.add_argument('--use-amp', action='store_true')", "args.use_amp"),
        ("parser.add_argument('--mixed', dest='use_amp', action='store_true')", "args.use_amp"),
        ("group = parser.add_argument_group(); group.add_argument('--use_amp')", "args.use_amp"),
        ("parser.set_defaults(use_amp=True)", "args.use_amp"),
        ("add_options(parser)", "args.use_amp"),
        ("for name in ('lr2', 'use_amp'): parser.add_argument('--' + name)", "args.use_amp"),
        ("pass", "getattr(args, 'use_amp', False)"),
        ("pass", "hasattr(args, 'use_amp') and args.use_amp"),
        ("pass", "args.lr > 0"),
        ("pass", "args.model.use_amp"),
    ],
)
def test_a_flag_that_is_declared_or_may_be(declared: str, read: str) -> None:
    assert not found(declared, read)


def test_a_flag_that_the_program_sets() -> None:
    text = PROGRAM.replace("DECLARED", "pass").replace("READ", "args.use_amp")
    right = text.replace("parse_args()\n", "parse_args()\n    args.use_amp = True\n")
    assert not [each for each in amplint.check(right, "train.py") if each.code == "AMP420"]
    right = text.replace("parser.parse_args()", "parser.parse_args(namespace=add_options())")
    assert not [each for each in amplint.check(right, "train.py") if each.code == "AMP420"]


def test_a_scaler_under_another_name() -> None:
    """The scaler is kept as `args.scaler`, and read as `args.scaler_s`."""
    (message,) = found("pass", "args.scaler_s is not None")
    assert "`args.scaler_s`" in message
    assert found("args = argparse.Namespace(); args.scaler_s = make()", "args.scaler_s is not None") == []
