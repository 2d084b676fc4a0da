"""Questions and messages, each with the kind that it leads to, and which of them are of one family."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

from amplint.explain.messages import known
from amplint.explain.ranking import words_of

_HERE = Path(__file__).parent
# How much of their words two questions share that are near copies.
_NEAR = 0.6
# Words that say nothing.
_GLUE = frozenset({"the", "a", "an", "i", "is", "in", "with", "to", "my", "of", "and", "on", "it", "for", "when"})


class Labelled(NamedTuple):
    """A text, the kind that it leads to ("none" if to nothing), and the number of its family."""

    kind: str
    text: str
    family: int


def asked() -> list[tuple[str, str]]:
    """What people ask, in our words, and messages: kinds and texts."""
    return [line for paragraph in _paragraphs("asked.txt") for line in paragraph]


def drawn() -> list[list[tuple[str, str]]]:
    """What was drawn from threads: for each thread its own text, and then those like it."""
    return _paragraphs("drawn.txt")


@cache
def labelled() -> tuple[Labelled, ...]:
    """All texts that are labelled, those of threads first: also the questions that the tables themselves have.

    Near copies are of one family, and so is what was written down for one thread.
    """
    groups = [
        *drawn(),
        *([line] for line in asked()),
        *([(each.id, text)] for each in known() for text in each.questions),
    ]
    families = _families([[frozenset(words_of(text)) - _GLUE for _, text in group] for group in groups])
    return tuple(
        Labelled(kind, text, family) for group, family in zip(groups, families, strict=True) for kind, text in group
    )


def _paragraphs(name: str) -> list[list[tuple[str, str]]]:
    """The lines of a file as kinds and texts, by paragraphs."""
    text = "\n".join(each for each in (_HERE / name).read_text("utf-8").splitlines() if not each.startswith("#"))
    found = []
    for paragraph in text.strip().split("\n\n"):
        lines = (line.partition("|") for line in paragraph.splitlines())
        found.append([(kind, said) for kind, _, said in lines])
    return found


def _families(groups: list[list[frozenset[str]]]) -> list[int]:
    """A number for each group of sets of words, the same for two that hold near copies."""
    family = list(range(len(groups)))

    def root(at: int) -> int:
        while family[at] != at:
            at = family[at]
        return at

    times = Counter(word for group in groups for words in group for word in words)
    places: dict[str, list[tuple[int, frozenset[str]]]] = {}
    for at, group in enumerate(groups):
        for words in group:
            # Of so many words a near copy has one at least: of the rarest, which few others have.
            rarest = sorted(words, key=times.__getitem__)[: len(words) - math.ceil(_NEAR * len(words)) + 1]
            for other, theirs in {each for word in rarest for each in places.get(word, ())}:
                if len(words & theirs) >= _NEAR * len(words | theirs):
                    family[root(at)] = root(other)
            for word in words:
                places.setdefault(word, []).append((at, words))
    return [root(at) for at in range(len(groups))]
