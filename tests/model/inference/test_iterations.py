"""Which loops run once at most: a region round them spans one iteration."""

from __future__ import annotations

import math

import pytest

from amplint.api import check
from amplint.base.target import nothing_declared
from amplint.config.settings import Settings
from amplint.model import build
from amplint.model.inference.iterations import how_many
from amplint.model.syntax import ir
from amplint.sources.source import Source

CODE = """
import itertools
import torch
from tqdm import tqdm, trange

ONE = 1


def train(model, optimizer, scaler, loader, batch):
    with torch.autocast("cuda"):
        for item in {iterable}:
            optimizer.zero_grad()
            loss = model(batch)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
"""


@pytest.mark.parametrize(
    ("iterable", "once"),
    [
        ("range(1)", True),
        ("range(ONE)", True),
        ("range(0, 1)", True),
        ("range(5, 7, 2)", True),
        ("range(2 - 1)", True),
        ("tqdm(range(1))", True),
        ("trange(1)", True),
        ("enumerate([batch])", True),
        ("zip([batch], loader)", True),
        ("itertools.islice(loader, 1)", True),
        ("loader[:1]", True),
        ("(batch,)", True),
        ("range(2)", False),
        ("range(0, 3)", False),
        ("range(0, -3, -1)", False),
        ("range(len(loader))", False),
        ("tqdm(loader)", False),
        ("enumerate(loader)", False),
        ("[batch, batch]", False),
        ("[*loader]", False),
        ("itertools.islice(loader, 2)", False),
        ("loader[1:]", False),
        ("loader[:-1]", False),
        ("zip(loader, loader)", False),
    ],
)
def test_a_region_round_a_loop_that_runs_once_spans_no_iterations(iterable: str, once: bool) -> None:
    settings = Settings(frozenset({"AMP309"}), isolated=True)
    assert bool(check(CODE.format(iterable=iterable), "train.py", settings)) is not once


def test_a_list_that_is_added_to_has_any_number_of_items() -> None:
    settings = Settings(frozenset({"AMP309"}), isolated=True)
    text = CODE.format(iterable="parts").replace("    with", "    parts = [batch]\n    parts.append(loader)\n    with")
    assert check(text, "train.py", settings)
    assert not check(text.replace("parts.append", "others.append"), "train.py", settings)
    table = text.replace("[batch]", '{"a": batch}').replace("parts.append(loader)", 'parts["b"] = loader')
    assert check(table, "train.py", settings)
    assert not check(table.replace('parts["b"]', 'others["b"]'), "train.py", settings)


@pytest.mark.parametrize(
    ("iterable", "least", "most"),
    [
        ("range(10)", 10, 10),
        ("range(ONE)", 1, 1),
        ("trange(1, 3)", 2, 2),
        ("enumerate([batch, batch])", 2, 2),
        ("[batch, *loader]", 1, math.inf),
        ("zip([batch, batch], [batch, *loader])", 1, 2),
        ("itertools.islice(loader, 2)", 0, 2),
        ("loader[:2]", 0, 2),
        ('{"a": batch, "b": loader}.items()', 2, 2),
        ('{"a": batch, **loader}', 1, math.inf),
        ("{batch: batch, loader: loader}", 1, 2),
        ("loader", 0, math.inf),
        ("range(len(loader))", 0, math.inf),
    ],
)
def test_how_many_items_an_iterable_has(iterable: str, least: float, most: float) -> None:
    module = build(Source("x.py", CODE.format(iterable=iterable)), nothing_declared())
    (loop,) = (each for each in module.statements if isinstance(each, ir.For))
    assert how_many(module, loop.iter) == (least, most)


COUNTED = """
import torch


def train(model, optimizer, scaler, loader, batch):
    with torch.autocast("cuda"):
        {before}
        while {test}:
            optimizer.zero_grad()
            loss = model(batch)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            {end}
"""


@pytest.mark.parametrize(
    ("before", "test", "end", "once"),
    [
        ("i = 0", "i < 1", "i += 1", True),
        ("i = 0", "1 > i", "i = i + 1", True),
        ("i = 1", "i <= 1", "i += 1", True),
        ("i = 0", "i != 1", "i += 1", True),
        ("i = 1", "i > 0", "i -= 1", True),
        ("i = 1", "i", "i -= 1", True),
        ("i = 0", "i < 2", "i += 2", True),
        ("i, n = 0, 1", "i < n", "i += 1", True),
        ("again = True", "again", "again = False", True),
        ("done = False", "not done", "done = True", True),
        ("done = False", "not done", "done = not done", True),
        ("i = 0", "i < 2", "i += 1", False),
        ("i = 0", "i != 3", "i += 1", False),
        ("i = 5", "i", "i -= 1", False),
        ("i = 0", "i < len(loader)", "i += 1", False),
        ("i = 0", "i < 1", "if loss < 1:\n                i += 1", False),
        ("i = 0", "i < 1", "if loss > 1:\n                continue\n            i += 1", False),
        ("i = 0", "i < 1", "i += 1\n            i = 0", False),
        ("done = False", "not done", "done = loss < 0.1", False),
        ("done = False", "not done", "done = done", False),
        ("i = len(loader)", "i > 0", "i -= 1", False),
        ("pass", "batch", "batch = 0", False),  # what it is before can't be told
    ],
)
def test_a_counter_or_flag_that_lets_a_loop_run_once(before: str, test: str, end: str, once: bool) -> None:
    settings = Settings(frozenset({"AMP309"}), isolated=True)
    assert bool(check(COUNTED.format(before=before, test=test, end=end), "train.py", settings)) is not once


def test_what_stands_behind_a_loop_that_runs_once_is_reached() -> None:
    clip = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    text = f"""
import torch


def train(model, optimizer, scaler, loader):
    for x in loader:
        i = 0
        while i < 1:
            optimizer.zero_grad()
            scaler.scale(model(x)).backward()
            i += 1
        {clip}
        scaler.step(optimizer)
        scaler.update()
"""
    assert [each.code for each in check(text, "train.py", Settings(frozenset({"AMP401"}), isolated=True))] == ["AMP401"]
