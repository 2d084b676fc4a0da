"""The rules of the scaler's order against torch: random training loops are linted, and run.

What raises has to be found, what is found as an error of order has to raise, and a loop whose weights agree with those
of the same loop without a scaler has to be left alone.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest

from amplint import check
from amplint.settings import Settings

torch = pytest.importorskip("torch")

ORDER = ("AMP402", "AMP403", "AMP404", "AMP405", "AMP406", "AMP410", "AMP418")
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
# Everything in float32 and the scale a power of two, so that agreement is exact but for the optimizer's rounding; the
# scale grows with every update, so that a gradient divided by another one shows.
PROGRAM = """\
import torch

def loss_of(model, i):
    inputs = torch.randn(4, 3, generator=torch.Generator().manual_seed(i))
    return (model(inputs) - 3 * inputs[:, :1]).square().mean()

def train(enabled=True):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1)
    weights = []
    for i in range(5):
{body}        weights.append([p.detach().clone() for p in model.parameters()])
    return weights
"""
TOLERANCE = 1e-4


class Ran(NamedTuple):
    error: str
    right: bool


def program(lines: list[str]) -> str:
    return PROGRAM.format(body="".join(f"        {line}\n" for line in lines))


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
    return {each.code for each in check(text, "program.py", SETTINGS) if "past the scaler" not in each.message}


def test_a_loop_of_scaled_backwards_raises_where_a_rule_says_so_and_nowhere_else() -> None:
    choose = random.Random(1)
    seen = {False: 0, True: 0}
    for _ in range(400):
        word = "ZB" + "".join(choose.choice("USDDS") for _ in range(choose.randint(1, 5)))
        if "S" not in word:
            continue  # what lacks the step lacks more than order
        text = program([LINES[each] for each in word])
        ran, found = run(text), codes(text) & set(ORDER)
        assert bool(found) is bool(ran.error or not ran.right), (word, ran, found)
        assert ran.error or not found & set(RAISING), (word, ran, found)
        seen[bool(found)] += 1
    assert min(seen.values()) > 5


def test_what_is_right_is_left_alone() -> None:
    choose = random.Random(2)
    right = 0
    for number in range(500):
        word = [LINES[choose.choice("ZBBPUUSSODD")] for _ in range(choose.randint(2, 7))]
        if number % 2:
            # A stretch of it at every second step only.
            first = choose.randrange(len(word))
            stop = choose.randint(first + 1, len(word))
            inner = [f"    {line}" for line in word[first:stop]]
            word = [*word[:first], "if i % 2 == 1:", *inner, *word[stop:]]
        text = program(word)
        ran = run(text)
        if ran.right:
            right += 1
            assert not codes(text) & set(ORDER), text
        elif not ran.error:
            assert not codes(text) & set(RAISING), text
    assert right > 20
