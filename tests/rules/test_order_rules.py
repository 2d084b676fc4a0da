"""The rules of the scaler's order against torch: random training loops are linted, and run.

Something has to be found exactly where a loop raises, or where its weights are not those of the same loop without a
scaler.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any, NamedTuple

import pytest

from amplint import check
from amplint.config.settings import Settings

torch = pytest.importorskip("torch")

ORDER = ("AMP402", "AMP403", "AMP404", "AMP405", "AMP406", "AMP407", "AMP410", "AMP411", "AMP418")
# Those that say that the scaler raises.
RAISING = ("AMP404", "AMP405", "AMP418")
SETTINGS = Settings(frozenset({*ORDER, "AMP401", "AMP419"}), isolated=True)

LINES = {
    "Z": "optimizer.zero_grad()",
    "B": "scaler.scale(loss_of(model, i)).backward()",
    "P": "loss_of(model, i).backward()",
    "U": "scaler.unscale_(optimizer)",
    "S": "scaler.step(optimizer)",
    "O": "optimizer.step()",
    "D": "scaler.update()",
}
# A second optimizer, over the second layer.
BOTH = {
    "Z": "model.zero_grad()",
    "B": LINES["B"],
    "U": LINES["U"],
    "V": "scaler.unscale_(second)",
    "S": LINES["S"],
    "T": "scaler.step(second)",
    "D": LINES["D"],
}
# Everything in float32 and the scale a power of two, so that agreement is exact but for the optimizer's rounding; the
# scale grows with every update, so that a gradient divided by another one shows.
PROGRAM = """\
import torch

def loss_of(model, i):
    inputs = torch.randn(4, 3, generator=torch.Generator().manual_seed(i))
    return (model(inputs) - 3 * inputs[:, :1]).square().mean()

def train(enabled=True):
    torch.manual_seed(0)
{model}    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1)
    weights = []
    for i in range(5):
{body}        weights.append([p.detach().clone() for p in model.parameters()])
    return weights
"""
ONE = """\
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
"""
TWO = """\
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.05)
    second = torch.optim.SGD(model[1].parameters(), lr=0.05)
"""
TOLERANCE = 1e-4


class Ran(NamedTuple):
    error: str
    right: bool


def program(lines: list[str], model: str = ONE) -> str:
    return PROGRAM.format(model=model, body="".join(f"        {line}\n" for line in lines))


def weights(text: str) -> Any:
    space: dict[str, Any] = {}
    exec(compile(text, "program.py", "exec"), space)
    return space["train"]()


def run(text: str) -> Ran:
    """What the program raises, and whether its weights are those of the same program with the scaler switched off."""
    try:
        found = weights(text)
    except (AssertionError, RuntimeError) as error:
        return Ran(str(error), False)
    reference = weights(text.replace("growth_interval=1)", "growth_interval=1, enabled=False)"))
    pairs = [(a, b) for x, y in zip(found, reference, strict=True) for a, b in zip(x, y, strict=True)]
    return Ran("", all((a - b).norm() <= TOLERANCE * (b.norm() + TOLERANCE) for a, b in pairs))


def codes(text: str) -> set[str]:
    """The codes found, those left out that speak of what weights don't show: of a step past the check for inf."""
    return {each.code for each in check(text, "program.py", SETTINGS) if "bypasses the scaler" not in each.message}


@cache
def agrees(text: str) -> bool:
    """Whether something is found exactly where the program raises or learns wrongly; returns which."""
    ran, found = run(text), codes(text) & set(ORDER)
    assert bool(found) is bool(ran.error or not ran.right), (text, ran, found)
    assert ran.error or not found & set(RAISING), (text, ran, found)
    return bool(found)


def test_a_loop_of_scaled_backwards_is_found_where_it_goes_wrong_and_nowhere_else() -> None:
    choose = random.Random(6)
    seen = {False: 0, True: 0}
    for _ in range(35):
        word = "ZB" + "".join(choose.choice("USDDS") for _ in range(choose.randint(1, 5)))
        if "S" in word:  # what lacks the step lacks more than order
            seen[agrees(program([LINES[each] for each in word]))] += 1
    assert min(seen.values()) > 1


def test_two_optimizers_likewise() -> None:
    choose = random.Random(6)
    seen = {False: 0, True: 0}
    for _ in range(35):
        word = "ZB" + "".join(choose.choice("USTVDDST") for _ in range(choose.randint(1, 6)))
        steps = ("U" not in word or "S" in word) and ("V" not in word or "T" in word)
        if steps and {"S", "T"} & set(word):
            seen[agrees(program([BOTH[each] for each in word], TWO))] += 1
    assert min(seen.values()) > 1


def test_gradients_cleared_anywhere_likewise() -> None:
    choose = random.Random(4)
    found = 0
    for _ in range(50):
        word = "".join(choose.choice("ZBUSDDSBZ") for _ in range(choose.randint(3, 7)))
        # Never cleared they add up, which is another matter.
        if set("ZBS") <= set(word):
            found += agrees(program([LINES[each] for each in word]))
    assert found > 10


def test_what_is_right_is_left_alone() -> None:
    choose = random.Random(2)
    right = 0
    for number in range(300):
        word = [LINES[choose.choice("ZBBPUUSSODD")] for _ in range(choose.randint(2, 7))]
        if number % 2:
            # A stretch of it at every second step only.
            first = choose.randrange(len(word))
            stop = choose.randint(first + 1, len(word))
            inner = [f"    {line}" for line in word[first:stop]]
            word = [*word[:first], "if i % 2 == 1:", *inner, *word[stop:]]
        text = program(word)
        ran = run(text)
        if ran.right and ("scaler.step" in text or "optimizer.step" in text):
            right += 1
            assert not codes(text) & set(ORDER), text
        elif not ran.error:
            assert not codes(text) & set(RAISING), text
    assert right > 5


HELPER = """\
import torch


def scale_back(loss, optim, amp_scaler):
    amp_scaler.scale(loss).backward()


def train(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        scale_back(model(x), optimizer, scaler)
        {call}
        scaler.update()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize("call", ["optimizer.step()", "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"])
def test_a_fix_takes_no_names_from_another_function(call: str) -> None:
    found = [each for each in check(HELPER.format(call=call)) if each.code in ("AMP401", "AMP402")]
    assert found
    for each in found:
        edits = each.fix.edits if each.fix else ()
        assert not any("amp_scaler" in edit.content or "optim)" in edit.content for edit in edits)
        assert "amp_scaler" not in each.message


OF_ONE_MODE = """\
import torch


def main(amp):
    scaler = torch.amp.GradScaler("cuda") if amp else None


def run(optimizer, batches, scaler, k, training=True):
    if training:
        pass
    else:
        {asserted}
    for i, batch in enumerate(batches):
        if i % k == k - 1:
            if scaler:
                scaler.unscale_(optimizer)
            if training:
                if scaler:
                    scaler.update()
"""


@pytest.mark.parametrize("asserted", ["assert scaler is None", "assert not scaler, 'not here'"])
def test_what_an_arm_asserts_of_the_scaler_is_known_behind_it(asserted: str) -> None:
    assert "AMP404" not in codes(OF_ONE_MODE.format(asserted=asserted))


def test_what_an_arm_asserts_of_another_is_not() -> None:
    found = check(OF_ONE_MODE.format(asserted="assert model is not None"), settings=SETTINGS._replace(suspicions=True))
    assert [each.code for each in found] == ["AMP404"]


GIVEN = """\
import torch


def epoch(model, loader, opt, scaler, training):
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        if training:
            opt.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
        if opt is not None:
            scaler.step(opt)
            scaler.update()


def main(model, tr, va):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    epoch(model, tr, opt, scaler, True)
    epoch(model, va, None, None, MODE)
"""


@pytest.mark.parametrize("mode", ["False", "model.training"])
@pytest.mark.parametrize(("asked", "codes"), [("opt is not None", []), ("model.stepping", ["AMP404"])])
def test_what_uses_an_optimizer_shows_that_there_is_one(asked: str, codes: list[str], mode: str) -> None:
    text = GIVEN.replace("MODE", mode).replace("opt is not None", asked)
    assert [each.code for each in check(text)] == codes
