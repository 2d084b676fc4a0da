"""AMP307: which two calls of a model meet in one region, and how the first of them is without gradients."""

from __future__ import annotations

import textwrap

import pytest

from amplint import check, fix
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP307"}), isolated=True, target_torch="2.3")
PROGRAM = """\
import torch
from torch import nn

{helper}
def step(model, optimizer, scaler, x, y, it, warmup, mode, training):
    with torch.autocast("cuda", dtype=torch.float16):
{body}
        loss = nn.functional.mse_loss(out, y)
    model.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
WITHOUT = "with torch.no_grad():\n        out = model(x)"
WITH = "out = model(x)"


def program(body: str, helper: str = "") -> str:
    return PROGRAM.format(helper=textwrap.dedent(helper), body=textwrap.indent(textwrap.dedent(body), " " * 8))


def count(body: str, helper: str = "") -> int:
    return len(check(program(body, helper), settings=SETTINGS))


@pytest.mark.parametrize(
    ("first", "second", "findings"),
    [
        ("it < warmup", "it >= warmup", 0),
        ("it < warmup", "warmup <= it", 0),
        ("it < warmup", "not it < warmup", 0),
        ("it > warmup", "warmup >= it", 0),
        ("it <= warmup", "it >= warmup", 1),
        ("it < warmup", "it <= warmup", 1),
        ("it < warmup", "it >= other", 1),
        ("mode == 'eval'", "mode == 'train'", 0),
        ("mode != 'train'", "mode != 'eval'", 1),
    ],
)
def test_comparisons_that_exclude_each_other(first: str, second: str, findings: int) -> None:
    assert count(f"if {first}:\n    {WITHOUT}\nif {second}:\n    {WITH}\n") == findings


@pytest.mark.parametrize(
    ("cases", "behind", "findings"),
    [
        ("case 'eval':\n        {without}\n    case 'train':\n        {plain}", "", 0),
        ("case 'eval':\n        {without}\n    case _:\n        {plain}", "", 0),
        ("case 'eval':\n        {without}", "if mode == 'train':\n    {plain}", 0),
        ("case 'eval':\n        {without}\n        return out", "{plain}", 0),
        ("case 'eval':\n        {without}", "{plain}", 1),
        ("case 'eval' if warmup:\n        {without}", "if warmup:\n    {plain}", 1),
    ],
)
def test_cases_exclude_each_other(cases: str, behind: str, findings: int) -> None:
    body = f"match mode:\n    {cases}\n{behind}\n"
    without = WITHOUT.replace("\n", "\n    " * 2)
    assert count(body.format(without=without, plain=WITH)) == findings


def test_cases_of_several_rounds() -> None:
    cases = (
        f"case 0:\n            {WITHOUT.replace(chr(10), chr(10) + ' ' * 12)}\n        case 1:\n            {WITH}\n"
    )
    assert count(f"for phase in range(2):\n    match phase:\n        {cases}") == 1


def test_a_flag_that_is_set_anew_in_between() -> None:
    assert count(f"if not training:\n    {WITHOUT}\n    training = True\nif training:\n    {WITH}\n") == 1
    assert count(f"if not training:\n    {WITHOUT}\n    it = 0\nif training:\n    {WITH}\n") == 0


PEEK = "def peek(model, x):\n    with torch.no_grad():\n        return model(x)\n"


@pytest.mark.parametrize(
    ("helper", "body", "findings"),
    [
        (PEEK, "out = model(peek(model, x))", 1),
        (PEEK, "first = peek(model, x)\nout = model(first)", 1),
        (PEEK, "first = peek(x=x, model=model)\nout = model(first)", 1),
        (PEEK, "first = peek(teacher, x)\nout = model(first)", 0),
        (PEEK, "first = model(x)\nout = model(peek(model, first))", 0),
        (PEEK, "if training:\n    out = model(x)\nelse:\n    out = peek(model, x)", 0),
        (
            "@torch.no_grad()\ndef peek(model, x):\n    return model(x)\n",
            "first = peek(model, x)\nout = model(first)",
            1,
        ),
        ("@cached\n@torch.no_grad()\ndef peek(model, x):\n    return model(x)\n", "out = model(peek(model, x))", 0),
        ("def peek(model, x):\n    return model(x)\n", "first = peek(model, x)\nout = model(first)", 0),
        (
            "def peek(model, x):\n    return model(x)\n",
            "with torch.no_grad():\n    x = peek(model, x)\nout = model(x)",
            1,
        ),
        ("def go(model, x):\n    return model(x)\n", f"{WITHOUT}\nout = go(model, out)", 1),
        (
            PEEK.replace(
                "        return",
                "        x = x + 1\n    torch.clear_autocast_cache()\n    with torch.no_grad():\n        return",
            ),
            "first = peek(model, x)\nout = model(first)",
            0,
        ),
        # Whether it runs the model can't be told.
        (
            PEEK.replace("    with", "    if x is None:\n        return x\n    with"),
            "first = peek(model, x)\nout = model(first)",
            0,
        ),
    ],
)
def test_a_function_that_calls_the_model(helper: str, body: str, findings: int) -> None:
    assert count(body, helper) == findings


def test_the_cache_is_cleared_behind_the_call() -> None:
    text = program("first = peek(model, x)\nout = model(first)", PEEK)
    cleared = "first = peek(model, x)\n        torch.clear_autocast_cache()\n"
    assert fix(text, settings=SETTINGS, unsafe=True) == text.replace("first = peek(model, x)\n", cleared)
    text = program("out = model(peek(model, x))", PEEK)
    assert fix(text, settings=SETTINGS, unsafe=True) == text


def test_a_method_without_gradients() -> None:
    text = """\
import torch
from torch import nn

class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    @torch.no_grad()
    def peek(self, x):
        return self.model(x)

    def step(self, x, y):
        with torch.autocast("cuda", dtype=torch.float16):
            first = self.peek(x)
            loss = nn.functional.mse_loss(self.model(x + first), y)
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""
    (found,) = check(text, settings=SETTINGS)
    assert "weights that it cached on line 16 without gradients" in found.message
    assert not check(text.replace("self.peek(x)", "self.other.peek(x)"), settings=SETTINGS)
