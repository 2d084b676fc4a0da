"""Inputs made of real programs: the same for the same seed and number."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.fuzz import layout, syntax, tokens
from tests.fuzz.corpus import Program


def made(programs: Sequence[Program], seed: int, number: int) -> tuple[str, bytes]:
    """An input, and the path of the program that it was made of."""
    random = Random(f"{seed}:{number}")
    program = min(random.choice(programs), random.choice(programs), key=lambda each: len(each.text))
    other = random.choice(programs)
    text = program.text
    breaks = random.random() < 0.7
    for _ in range(random.choice((0, 1, 2) if breaks else (1, 2, 3, 5))):
        mutant = syntax.mutate(random, text, other.text)
        # What is no program never gets to the rules, so only a few of those go on.
        if syntax.shape(mutant) is not None or random.random() < 0.05:
            text = mutant
    for _ in range(random.choice((1, 1, 2, 3)) if breaks else 0):
        text = random.choice(tokens.MUTATIONS)(random, text, other.text) if text else text
    return program.path, layout.written(random, text)
