"""AMP207: float16 regions that are taken out of a table, or whose dtype is None where the device may not be the CPU."""

from __future__ import annotations

import pytest

import amplint

PROGRAM = """\
import argparse
import contextlib
from functools import partial

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--precision", choices=["fp16", "bf16", "fp32"], default=DEFAULT)
args = parser.parse_args()


def train(model, loader, optimizer):
    TABLE
    for x, y in loader:
        optimizer.zero_grad()
        with REGION:
            loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
"""
FLOAT16 = 'torch.autocast("cuda", dtype=torch.float16)'
BFLOAT16 = 'torch.autocast("cuda", dtype=torch.bfloat16)'
PLAIN = "contextlib.nullcontext()"


def codes(table: str, region: str, default: str = '"bf16"') -> list[str]:
    text = PROGRAM.replace("TABLE", table).replace("REGION", region).replace("DEFAULT", default)
    return [each.code for each in amplint.check(text) if each.code.startswith("AMP2")]


def written(half: str) -> str:
    return f'{{"bf16": {BFLOAT16}, "fp16": {half}, "fp32": {PLAIN}}}'


TAKEN = [
    ("pass", "{}[args.precision]"),
    ("table = {}", "table[args.precision]"),
    ("table = {}", "table.get(args.precision)"),
    ("region = {}[args.precision]", "region"),
    ("pass", "{}.get(args.precision, contextlib.nullcontext())"),
]


@pytest.mark.parametrize(("table", "region"), TAKEN)
@pytest.mark.parametrize("default", ['"bf16"', '"fp16"'])
def test_a_float16_region_of_a_table(table: str, region: str, default: str) -> None:
    half = written(FLOAT16)
    assert codes(table.replace("{}", half), region.replace("{}", half), default) == ["AMP207"]


@pytest.mark.parametrize(("table", "region"), TAKEN)
def test_no_region_of_a_table_is_float16(table: str, region: str) -> None:
    other = written(PLAIN)
    assert codes(table.replace("{}", other), region.replace("{}", other)) == []


def test_a_table_of_what_makes_regions() -> None:
    table = 'table = {"fp16": partial(torch.autocast, "cuda", dtype=torch.float16), "fp32": contextlib.nullcontext}'
    assert codes(table, "table[args.precision]()") == ["AMP207"]
    assert codes(table.replace("float16", "bfloat16"), "table[args.precision]()") == []


def test_one_item_of_a_table_is_what_is_entered() -> None:
    assert codes("pass", f'{written(FLOAT16)}["bf16"]') == []
    assert codes("pass", f'{written(FLOAT16)}["fp16"]') == ["AMP207"]


CLIPPED = """\
import torch
from torch import nn


def clip(model, most):
    norm = sum(p.grad.norm() ** 2 for p in model.parameters()) ** 0.5
    if norm > most:
        for p in model.parameters():
            p.grad.mul_(most / norm)


def train(model, loader, optimizer, most):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x * 2), y)
        loss = loss / len(loader)
        BACKWARD
        clip(model, most)
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("backward", "expected"),
    [
        ("loss.backward()", ["AMP207"]),
        ("(loss / 4).backward()", ["AMP207"]),
        ("(loss * most).backward()", []),
        ("loss = loss.mul(most); loss.backward()", []),
        ("loss *= most; loss.backward()", []),
        ("loss.backward(torch.tensor(most))", []),
        ("loss.backward(gradient=most)", []),
        ("torch.autograd.backward(loss, most)", []),
        ("torch.autograd.backward(loss)", ["AMP207"]),
    ],
)
def test_gradients_that_are_clipped_by_hand_undo_no_scale(backward: str, expected: list[str]) -> None:
    found = amplint.check(CLIPPED.replace("BACKWARD", backward))
    assert [each.code for each in found if each.code == "AMP207"] == expected
