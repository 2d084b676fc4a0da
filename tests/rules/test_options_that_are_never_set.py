"""Options of a parser that gets nothing to parse, `parse_args([])`: each is what its default is."""

from __future__ import annotations

import pytest

from amplint import check

PROGRAM = """\
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--amp", default=True)
parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "int8"])
parser.add_argument("--half", action="store_true")
parser.add_argument("--precision", default="bf16", choices=["no", "bf16", "fp17"])
args = parser.PARSED
MORE


def train(model, loader):
    for x in loader:
        with torch.autocast("cuda", enabled=ENABLED):
            model(x)
"""
NOTHING = [
    "parse_args('')",
    "parse_args([])",
    "parse_args(())",
    "parse_args(args=[])",
    "parse_args(''.split())",
]
SOMETHING = [
    "parse_args()",
    "parse_args(None)",
    "parse_args(['--amp', 'yes'])",
    "parse_args(texts)",
    "parse_args([], namespace=read())",
]


def codes(parsed: str, enabled: str = "args.amp", more: str = "") -> list[str]:
    text = PROGRAM.replace("PARSED", parsed).replace("ENABLED", enabled).replace("MORE", more)
    return [each.code for each in check(text) if each.code in ("AMP212", "AMP604")]


@pytest.mark.parametrize("parsed", NOTHING)
def test_nothing_arrives(parsed: str) -> None:
    assert codes(parsed) == []
    assert codes(parsed, "args.half") == []
    assert codes(parsed, "args.dtype") == ["AMP212"]


@pytest.mark.parametrize("parsed", SOMETHING)
def test_texts_may_arrive(parsed: str) -> None:
    assert codes(parsed) == ["AMP212"]


@pytest.mark.parametrize(
    "more",
    [
        "for key, value in read().items():\n    setattr(args, key, value)",
        "vars(args).update(read())",
        "args.__dict__.update(read())",
        "other = parser.parse_args()",
    ],
)
def test_options_that_are_set_by_other_means(more: str) -> None:
    assert codes("parse_args([])", more=more) == ["AMP212"]


def test_other_choices_cannot_be() -> None:
    makes = "from accelerate import Accelerator\nAccelerator(mixed_precision=args.precision)"
    assert codes("parse_args([])", more=makes) == []
    assert "AMP604" in codes("parse_args()", more=makes)
