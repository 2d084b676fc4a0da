"""Mutants that atheris chooses by what they reach: `python -m tests.fuzz.guided -max_total_time=600 fixtures`.

atheris (`pip install atheris`) takes libFuzzer's options, and folders to start from. It is no part of the tests.
"""

from __future__ import annotations

import sys
from random import Random

import atheris

with atheris.instrument_imports(include=["amplint"]):
    from amplint.registry import all_rules
    from tests.fuzz import corpus, syntax, tokens
    from tests.fuzz.judging import AMP, judge

    judge(AMP, "warm.py")  # and what is only imported when it is needed
    assert all(rule.doc for rule in all_rules().values())

PROGRAMS = corpus.programs()
_WAYS = (syntax.mutate, syntax.mutate, *tokens.MUTATIONS)


def mutant(data: bytes, most: int, seed: int) -> bytes:
    """A mutant of a mutant, with at most so many bytes."""
    random = Random(seed)
    text, other = data.decode("utf-8", "replace").replace("\r", "\n"), random.choice(PROGRAMS).text
    return random.choice(_WAYS)(random, text or other, other).encode("utf-8", "replace")[:most]


def one(data: bytes) -> None:
    """Judge an input.

    Raises:
        AssertionError: something does not hold for it.
    """
    if problems := judge(data, "mutant.py", fold=False).problems:
        raise AssertionError(problems)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one, custom_mutator=mutant)
    atheris.Fuzz()
