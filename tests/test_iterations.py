"""Which loops run once at most: a region round them spans one iteration."""

from __future__ import annotations

import pytest

from amplint.api import check
from amplint.settings import Settings

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
