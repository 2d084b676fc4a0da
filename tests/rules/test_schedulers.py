"""Schedulers that are none of torch's classes by name: functions of other libraries that make a LambdaLR."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings
from amplint.registry import all_rules
from tests import ROOT

PROGRAM = """
import torch
from transformers import {imported}


def train(model, loader, epochs):
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    scheduler = {made}
    for batch in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(**batch).loss
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scheduler.step()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("imported", "made", "found"),
    [
        ("get_linear_schedule_with_warmup", "get_linear_schedule_with_warmup(optimizer, 10, 100)", 1),
        ("get_cosine_schedule_with_warmup as cosine", "cosine(optimizer, 10, 100)", 1),
        ("get_constant_schedule", "get_constant_schedule(optimizer)", 1),
        # Not the optimizer comes first.
        ("get_scheduler", "get_scheduler('linear', optimizer)", 0),
        ("get_scheduler", "get_scheduler(optimizer)", 0),
    ],
)
def test_a_schedule_of_transformers_is_the_optimizers(imported: str, made: str, found: int) -> None:
    text = PROGRAM.format(imported=imported, made=made)
    findings = check(text, "train.py", Settings(frozenset({"AMP424"}), isolated=True))
    assert [text.count("\n", 0, each.start) + 1 for each in findings] == [15] * found


def test_a_step_and_a_scheduler_of_two_functions() -> None:
    """What decides about the one says nothing about the other: no error, whatever is found."""
    text = (ROOT / "fixtures/AMP418_scaler_before_scale").joinpath("step_of_a_helper_before_the_training", "bad.py")
    found = check(text.read_text(), settings=Settings(frozenset(all_rules()), isolated=True))
    assert "AMP000" not in {each.code for each in found}


ONCE = """
import torch

{constants}


def train_one_step(model, optimizer, scaler, batches):
    for batch in {batches}:
        with torch.autocast({arguments}):
            loss = model(batch)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def fit(model, optimizer, scheduler, loader):
    scaler = torch.amp.GradScaler("cuda")
    for batches in loader:
        train_one_step(model, optimizer, scaler, batches)
        scheduler.step()
"""
FLOAT16 = '"cuda", dtype=torch.float16'


@pytest.mark.parametrize(
    ("batches", "constants", "arguments", "said"),
    [
        ("batches", "", FLOAT16, None),
        ("batches[:1]", "", FLOAT16, ": the learning rate"),
        ("range(1)", "", FLOAT16, ": the learning rate"),
        # The dtype is in a dict, or out of sight: then the message says on what it hangs.
        ("range(1)", 'AMP = {"device_type": "cuda", "dtype": torch.float16}', "**AMP", ": the learning rate"),
        ("range(1)", 'AMP = {"device_type": "cuda", "dtype": torch.bfloat16}', "**AMP", None),
        (
            "range(1)",
            'AMP = dict(device_type="cuda", dtype=torch.bfloat16)\nAMP["dtype"] = choose()',
            "**AMP",
            "if the region on line 10 is float16",
        ),
        ("range(1)", "from settings import AMP", "**AMP", "if the region on line 9 is float16"),
    ],
)
def test_a_scheduler_beside_a_function_that_steps(
    batches: str, constants: str, arguments: str, said: str | None
) -> None:
    """One that makes many steps is an epoch; one that makes a single step is an iteration."""
    text = ONCE.format(batches=batches, constants=constants, arguments=arguments)
    findings = check(text, "train.py", Settings(frozenset({"AMP412"}), isolated=True))
    assert len(findings) == (said is not None)
    assert all(said in each.message for each in findings if said is not None)


AT_THE_END = """
import torch


def train(model, loader, opt, steps):
    scaler = torch.amp.GradScaler("cuda")
    scheduler = torch.optim.lr_scheduler.StepLR(opt, 1)
    batches = iter(loader)
    for step in range(steps):
        try:
            batch = next(batches)
        except StopIteration:
            batches = iter(loader)
            batch = next(batches)
            {inside}
        {outside}
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(batch).mean()
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("inside", "outside", "count"), [("scheduler.step()", "pass", 0), ("pass", "scheduler.step()", 1)]
)
def test_a_scheduler_that_steps_where_the_batches_end(inside: str, outside: str, count: int) -> None:
    findings = check(AT_THE_END.format(inside=inside, outside=outside), "a.py")
    assert sum(each.code == "AMP424" for each in findings) == count
