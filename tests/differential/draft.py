"""A program before it is put together, and the functions that its statements go into."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import takewhile
from typing import NamedTuple

from tests.differential.outline import apart
from tests.differential.tree import Node, block, line
from tests.differential.writer import Writer

# The events that may stand in functions of their own, and those functions' names.
APART = {
    "zero": "clear",
    "backward": "propagate",
    "unscale": "divide",
    "clip": "limit",
    "step": "advance",
    "update": "adapt",
}


class Draft(NamedTuple):
    """`body` is what may be spoiled; `whole` gives the text's statements behind the imports, with the body in place."""

    body: list[Node]
    whole: Callable[[], list[Node]]


Family = Callable[[Writer], Draft]
FAMILIES: dict[str, tuple[Family, str]] = {}  # with the style of the flags, where the family asks for one


def family(name: str, flags: str = "") -> Callable[[Family], Family]:
    """Register a family."""

    def register(made: Family) -> Family:
        FAMILIES[name] = made, flags
        return made

    return register


def train(writer: Writer, *body: Node) -> list[Node]:
    """The function that trains, and what calls it with the flags' values."""
    # What is wrong with a function is wrong whatever this file gives it: no scaler that is always off.
    if writer.enabled == "never":
        return _train(writer, *body)
    helpers = _apart(writer, list(body)) if writer.maybe("events in functions of their own", 0.35) else []
    return [*helpers, *(_fitted if writer.maybe("loop in a function", 0.3) else _train)(writer, *body)]


def _apart(writer: Writer, body: list[Node]) -> list[Node]:
    """Functions for one or two kinds of event."""
    found = []
    known = {"torch", "nn", "contextlib", writer.grad_scaler, writer.autocast}
    for tag in sorted({writer.one("apart", *APART, "zero"), writer.one("apart", *APART, "zero")}):
        function = apart(body, APART[tag], tag, known)
        found += [line(""), function] if function is not None else []
    return found


def _fitted(writer: Writer, *body: Node) -> list[Node]:
    """What is made first stays; the rest goes into a function that is given it."""
    made = list(takewhile(_makes, body))
    names = [node.text.split(" = ")[0] for node in made]
    flags = (["args"] if writer.flag_style == "args" else sorted(writer.flags)) if writer.flags else []
    given = ", ".join(["loader", *names, *flags])
    function = block(f"def fit({given}):", *body[len(made) :])
    return [line(""), function, *_train(writer, *made, line(f"fit({given})"))]


def _makes(node: Node) -> bool:
    """Whether a statement makes a model, a criterion, an optimizer or a scaler."""
    return not node.body and re.match(r"\w+ = (Net|nn\.\w+|torch\.optim\.\w+|\S*GradScaler)\(", node.text) is not None


def _train(writer: Writer, *body: Node) -> list[Node]:
    flags = sorted(writer.flags)
    if writer.flag_style == "plain" or not flags:
        given = "".join(f", {each}" for each in flags)
        return [line(""), block(f"def train(loader{given}):", *body)]
    writer.imports.add("import argparse")
    spelled = ", ".join(f"{each}={each}" for each in flags)
    main = block(f"def main(loader, {', '.join(flags)}):", line(f"train(loader, argparse.Namespace({spelled}))"))
    return [line(""), block("def train(loader, args):", *body), line(""), main]


def simple(writer: Writer, body: list[Node], head: str = "for x, y in loader:") -> Draft:
    """A function with one loop round the body."""
    return looped(writer, writer.made(), body, head)


def looped(writer: Writer, made: list[Node], body: list[Node], head: str, models: list[Node] | None = None) -> Draft:
    """A function that makes what it needs, and has one loop; mutations may reach round that."""
    if writer.flags and writer.maybe("asked for nothing", 0.3):
        name = writer.choose.choice(sorted(writer.flags))
        body.insert(0, block(f"if {writer.flag(name, *writer.flags[name])}:", line('print("", end="")')))
    loop = block(head, *body)
    outer = [loop]
    spoiled = outer if writer.maybe("mutations round the loop", 0.25) else loop.body
    return Draft(spoiled, lambda: [line(""), *(models or []), *train(writer, *made, *outer)])
