"""The boundary of gradient accumulation, asked for by a helper: as if its condition stood in the if."""

from __future__ import annotations

from itertools import product

import pytest

from amplint import check

# What the helper says for a counter `i`, by how it is written.
BODIES = {
    "an expression": "return {asked}",
    "a variable": "last = {asked}\nreturn last",
    "an if": "if {asked}:\n    return True\nreturn False",
    "two returns": "if {end}:\n    return True\nreturn {asked}",
    "an or": "last = {end}\nreturn last or {asked}",
}
HELPERS = {
    "function": ("", "def ready(i, n, total):", "ready(i, self.n, self.total)", "(i + 1) % n == 0", "i + 1 == total"),
    "method": ("self", "def ready(self, i):", "self.ready(i)", "(i + 1) % self.n == 0", "i + 1 == self.total"),
    "static": (
        "static",
        "def ready(i, n, total):",
        "self.ready(i, self.n, self.total)",
        "(i + 1) % n == 0",
        "n == total",
    ),
    "counter": ("self", "def ready(self):", "self.ready()", "self.count % self.n == 0", "self.count == self.total"),
    "property": ("property", "def ready(self):", "self.ready", "self.count % self.n == 0", "self.count == self.total"),
}
STEP = ["self.scaler.step(self.optimizer)"]
UPDATE = ["self.scaler.update()"]
CLEAR = ["self.optimizer.zero_grad()"]
UNSCALE = ["self.scaler.unscale_(self.optimizer)"]
CLIP = ["torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)"]


def indented(lines: list[str], by: int) -> list[str]:
    """Lines inside of something."""
    return [" " * by + line for line in lines]


def written(helper: str, body: str, *parts: list[str], always: list[str]) -> str:
    """A program in which each part waits for the boundary, and `always` comes before, on each micro step."""
    where, head, ask, asked, end = HELPERS[helper]
    decorators = {"static": ["@staticmethod"], "property": ["@property"]}.get(where, [])
    lines = [*decorators, head, *indented(BODIES[body].format(asked=asked, end=end).splitlines(), 4), ""]
    step = ["with torch.autocast('cuda'):", "    loss = nn.functional.mse_loss(self.model(x), y) / self.n"]
    step += ["self.scaler.scale(loss).backward()", "self.count += 1", *always]
    for part in parts:
        step += [f"if {ask}:", *indented(part, 4)]
    return "\n".join(
        [
            *("import torch", "from torch import nn", "", *(lines if not where else ()), "class Trainer:"),
            "    def __init__(self, model, optimizer, n, total):",
            "        self.model, self.optimizer, self.n, self.total = model, optimizer, n, total",
            "        self.scaler, self.count = torch.amp.GradScaler('cuda'), 0",
            *(indented(lines, 4) if where else ()),
            *("    def micro_step(self, i, x, y):", *indented(step, 8)),
            *("    def fit(self, loader):", "        for i, (x, y) in enumerate(loader):"),
            *("            self.micro_step(i, x, y)", ""),
        ]
    )


def found(text: str) -> list[str]:
    """The codes that are found."""
    return [each.code for each in check(text)]


@pytest.mark.parametrize(("helper", "body"), list(product(HELPERS, BODIES)))
def test_what_waits_for_the_boundary_in_several_ifs_is_right(helper: str, body: str) -> None:
    assert found(written(helper, body, UNSCALE + CLIP, STEP, UPDATE, CLEAR, always=[])) == []


@pytest.mark.parametrize(("helper", "body"), list(product(HELPERS, BODIES)))
def test_what_does_not_wait_is_found(helper: str, body: str) -> None:
    assert found(written(helper, body, UPDATE + CLEAR, always=STEP)) == ["AMP404"]
    assert found(written(helper, body, CLEAR, always=STEP + UPDATE)) == ["AMP411"]
    assert found(written(helper, body, STEP, UPDATE + CLEAR, always=CLIP)) == ["AMP401"]


def test_the_parts_of_an_or_are_known_as_a_whole_where_paths_are_joined() -> None:
    asked = "i + 1 == self.total or (i + 1) % self.n == 0"
    text = written("method", "an expression", UNSCALE + CLIP, STEP, UPDATE, CLEAR, always=[])
    assert found(text.replace("self.ready(i)", asked)) == []


def test_a_property_is_asked_anew_when_the_counter_has_moved() -> None:
    text = written("property", "an expression", STEP, UPDATE + CLEAR, always=[])
    lines = text.splitlines()
    update = next(number for number, line in enumerate(lines) if UPDATE[0] in line)
    lines.insert(update - 1, "        self.count += 1")
    assert found("\n".join(lines)) != []


MADE = {
    "lambda": "return lambda i: (i + 1) % n == 0",
    "lambda by a name": "ends = lambda i: (i + 1) % n == 0\n    return ends",
    "function": "def ends(i):\n        return (i + 1) % n == 0\n    return ends",
}
ASKED = {"by a name": ("ends = every(n)", "ends(i)"), "there": ("pass", "every(n)(i)")}
FIT = """
import torch
from torch import nn
def every(n):
    {made}
def fit(model, optimizer, loader, n):
    scaler = torch.amp.GradScaler("cuda")
    {before}
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cuda"):
            loss = nn.functional.mse_loss(model(x), y) / n
        scaler.scale(loss).backward()
        if {steps}:
            scaler.step(optimizer)
            scaler.update()
        if {clears}:
            optimizer.zero_grad()
"""


@pytest.mark.parametrize("ask", ASKED)
@pytest.mark.parametrize("made", MADE)
def test_a_boundary_that_a_function_makes(made: str, ask: str) -> None:
    before, ends = ASKED[ask]
    for steps, codes in ((ends, []), ("True", ["AMP411"])):
        text = FIT.format(made=MADE[made], before=before, steps=steps, clears=ends)
        assert [each.code for each in check(text)] == codes
