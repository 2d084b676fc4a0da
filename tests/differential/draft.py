"""A program before it is put together, and the functions that its statements go into."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.differential.tree import Node, block, line
from tests.differential.writer import Writer


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
    loop = block(head, *body)
    outer = [loop]
    spoiled = outer if writer.maybe("mutations round the loop", 0.25) else loop.body
    return Draft(spoiled, lambda: [line(""), *(models or []), *train(writer, *made, *outer)])
