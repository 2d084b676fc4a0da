"""Random training programs: a family gives the shape, mutations spoil some of them."""

from __future__ import annotations

import math
import re
from random import Random

from tests.differential import families, families_of_two, families_outlined  # noqa: F401 - they register themselves
from tests.differential.draft import FAMILIES
from tests.differential.program import Program
from tests.differential.tree import Node, mutate, rendered
from tests.differential.writer import Writer

MAX_RUNS = 16


def generate(seed: int, only: str = "", mutations: int | None = None) -> Program:
    """The program of a seed."""
    choose = Random(f"{only}/{seed}")
    name = only or choose.choice(sorted(FAMILIES))
    made, flags = FAMILIES[name]
    while True:
        writer = Writer(choose, flags)
        draft = made(writer)
        done = _mutated(draft.body, writer, choose.choice((0, 0, 1, 1, 2, 3)) if mutations is None else mutations)
        statements = draft.whole()
        if math.prod(map(len, writer.flags.values())) * (1 + writer.overflow) > MAX_RUNS:
            continue
        text = rendered(statements)
        text = "\n".join(sorted(writer.imports, key=lambda each: (each[0] == "f", each))) + "\n\n" + text
        text = re.sub(r"\n(?=@|class |def )", "\n\n\n", text).replace("\n\n\n\n", "\n\n\n")
        entry = next((each for each in ("main", "train") if re.search(rf"^def {each}\(loader", text, re.M)), "")
        deepest = max(len(each) - len(each.lstrip()) for each in text.splitlines()) // 4
        counted = {f"depth: {deepest}", f"functions: {text.count('def ')}", f"flags: {len(writer.flags)}"}
        shapes = frozenset(writer.shapes | counted | {f"mutation: {each}" for each in done})
        return Program(text, dict(writer.flags), entry, writer.overflow, name, seed, bool(only), tuple(done), shapes)


def _mutated(body: list[Node], writer: Writer, wanted: int) -> list[str]:
    done: list[str] = []
    for _ in range(wanted * 5):
        if len(done) < wanted:
            chosen = writer.choose.choice([writer.extra, *sorted({writer.amp, "clip"} & set(writer.flags))])
            known = chosen in writer.flags
            flag = writer.flag(chosen)
            name = mutate(body, writer.choose, f"self.{chosen}" if writer.wraps_in_class else flag)
            if name != "wrap" and not known:
                del writer.flags[chosen]
            done += [name] if name else []
    return done
