"""Optimizers that are items of lists and dicts: which one an item is, by a literal, or by the index of a loop."""

from __future__ import annotations

import pytest

from amplint import check

PROGRAM = """\
import torch

def train(model_a, model_b, loader):
    a = torch.optim.SGD(model_a.parameters(), lr=0.1)
    b = torch.optim.Adam(model_b.parameters(), lr=0.1)
    {held}
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        {clear}
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model_b(model_a(x)).mean()
        scaler.scale(loss).backward()
        {step}
"""
CLEAR = "a.zero_grad()\n        b.zero_grad()"
LIST, DICT = "held = [a, b]", 'held = {"a": a, "b": b}'


def found(held: str, clear: str, *step: str) -> set[str]:
    text = PROGRAM.format(held=held, clear=clear, step="\n        ".join(step))
    return {each.code for each in check(text)}


@pytest.mark.parametrize(("held", "one", "other"), [(LIST, "0", "1"), (DICT, '"a"', '"b"'), ("held = a, b", "0", "1")])
def test_an_item_is_what_was_put_there(held: str, one: str, other: str) -> None:
    first, second = f"scaler.step(held[{one}])", f"scaler.step(held[{other}])"
    assert not found(held, CLEAR, first, second, "scaler.update()")
    assert found(held, CLEAR, first, "scaler.update()", second, "scaler.update()") == {"AMP410"}
    assert "AMP411" in found(held, "a.zero_grad()", first, second, "scaler.update()")


def test_an_item_may_have_been_replaced() -> None:
    held = f"{LIST}\n    held[1] = make(model_b)"
    assert "AMP410" not in found(held, CLEAR, "scaler.step(held[0])", "scaler.step(b)", "scaler.update()")


@pytest.mark.parametrize(
    ("held", "loop"),
    [
        (LIST, "for i in range(len(held)):"),
        ("held = [a, b]\n    del a, b", "for i in range(len(held)):"),
        (DICT, "for i in held:"),
        (DICT, "for i in held.keys():"),
    ],
)
def test_a_loop_over_indexes_is_one_over_what_is_there(held: str, loop: str) -> None:
    clear = f"{loop}\n            held[i].zero_grad()"
    each = f"{loop}\n            scaler.step(held[i])\n            scaler.update()"
    once = f"{loop}\n            scaler.step(held[i])\n        scaler.update()"
    assert found(held, clear, each) == {"AMP410"}
    assert not found(held, clear, once)
    if "del" not in held:
        assert found(held, CLEAR, each) == {"AMP410"}
        assert not found(held, CLEAR, once)


def test_a_loop_with_a_backward_for_each() -> None:
    each = (
        "for i in range(len(held)):\n            held[i].zero_grad()\n"
        '            with torch.autocast("cuda", dtype=torch.float16):\n                loss = losses[i](model_a(x))\n'
        "            scaler.scale(loss).backward()\n            scaler.step(held[i])\n            scaler.update()"
    )
    text = PROGRAM.format(held=LIST, clear="pass", step=each).replace(
        "        scaler.scale(loss).backward()\n        for", "        for"
    )
    assert not {each.code for each in check(text)}


MICRO_STEPS = """\
import torch

def train(model, optimizers, schedulers, loader, every):
    scaler = torch.amp.GradScaler("cuda")
    for number, x in enumerate(loader):
        if number % every == 0:
            for optimizer in optimizers:
                optimizer.zero_grad()
        if number % every == every - 1:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x) / every
            scaler.scale(loss).backward()
            for optimizer, scheduler in zip(optimizers, schedulers):
                {backward}
                scaler.step(optimizer)
                {inside}
                scheduler.step()
            {after}
        else:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x) / every
            scaler.scale(loss).backward()
"""


@pytest.mark.parametrize(
    ("backward", "inside", "after", "wanted"),
    [
        ("pass", "scaler.update()", "pass", {"AMP410"}),
        ("pass", "pass", "scaler.update()", set()),
        ("scaler.scale(optimizer.loss(x)).backward()", "scaler.update()", "pass", set()),
    ],
)
def test_an_update_in_a_loop_over_optimizers_comes_too_early_for_the_next(
    backward: str, inside: str, after: str, wanted: set[str]
) -> None:
    text = MICRO_STEPS.format(backward=backward, inside=inside, after=after)
    assert {finding.code for finding in check(text)} & {"AMP410"} == wanted


ONE_OF_SEVERAL = """\
import torch

def run_epoch(loader, nets, optims, scaler):
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nets["d"](nets["e"](x)).sum()
        for {target}:
            {clears}.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optims["d"])
        torch.nn.utils.clip_grad_norm_(nets["d"].parameters(), 1.0)
        for o in optims.values():
            scaler.step(o)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("target", "clears", "codes"),
    [
        ("o in optims.values()", "o", []),
        ("name, o in optims.items()", "o", []),
        ("o in [optims['e']]", "o", ["AMP411"]),
        ("_ in range(1)", "optims['e']", ["AMP411"]),
    ],
)
def test_a_loop_over_what_is_out_of_sight_takes_the_items_that_are_asked_for(
    target: str, clears: str, codes: list[str]
) -> None:
    found = check(ONE_OF_SEVERAL.format(target=target, clears=clears), "train.py")
    assert list(dict.fromkeys(each.code for each in found)) == codes
