"""Which symptoms a question is about, by what questions about each of them say.

A question's words, its phrases of two words, its concepts and the pairs of these are its features. Each symptom has a
weight for each feature, which the labelled questions in `tests/explaining` decide: `python -m tests.generate` writes
them to `weights.json`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from amplint.explain.concepts import concepts_of, is_elsewhere, is_without_amp, normalized

WEIGHTS = Path(__file__).with_name("weights.json")
# What stands for a question about something else among the symptoms.
NOTHING = "none"
# The weights of the file are whole numbers, each so many times too large.
SCALE = 100
_SUFFIXES = ("ations", "ation", "ingly", "ings", "ing", "edly", "ed", "ies", "es", "s", "ly")
# Letters that are left of a word without its suffix.
_STEM = 3
# Words of a brief question.
_BRIEF = 15
# How much each kind of feature counts: a word less than what it means.
_KINDS = {"word": 0.5, "phrase": 1.0, "concept": 1.0, "pair": 1.0}


# The score that an answer needs, and how far the next one has to be behind it: a brief question has fewer words for it.
_LEAST, _AHEAD, _AHEAD_BRIEF = -0.2, 0.8, 0.4
# What a question needs that says nothing of half precision: a brief one, since amplint is asked, and a longer one.
_LEAST_BRIEF, _LEAST_WITHOUT_AMP = 0.05, 0.2
# How much less the other questions count for one that does, and for a brief one.
_ABOUT_AMP, _PERHAPS_ABOUT_AMP = 0.4, 0.3
# How far the symptoms may be behind the other questions, for one that says nothing of half precision and has no NaN:
# many who have a NaN don't know that a setting made the model half.
_MAY_BE_AMP = 0.8
# How many symptoms are worth a look.
_AT_MOST = 3


class Weights(NamedTuple):
    """For each feature how rare it is, and its weight for symptoms; and what each symptom has without any."""

    symptoms: tuple[str, ...]
    bias: tuple[int, ...]
    features: Mapping[str, tuple[int, Mapping[int, int]]]


class Decision(NamedTuple):
    """The symptom that a question is about, if that is `sure`; else those that it may be about, the likeliest first."""

    sure: str
    near: tuple[str, ...]


def features_of(text: str) -> frozenset[str]:
    """What a question says: `word loss`, `phrase nan loss`, `concept nan`, `pair evaluation, nan`."""
    concepts = _situation(text)
    words = words_of(text)
    return frozenset(
        [
            *(f"word {each}" for each in words),
            *(f"phrase {one} {other}" for one, other in pairwise(words)),
            *(f"concept {each}" for each in concepts),
            *(f"pair {one}, {other}" for one, other in combinations(sorted(concepts), 2)),
        ]
    )


def words_of(text: str) -> list[str]:
    """The words of a question without their suffixes, and any number as one."""
    return ["#" if each.isdigit() else _stem(each) for each in normalized(text).split()]


def values(features: Iterable[str], rarity: Mapping[str, float]) -> dict[str, float]:
    """The features that are known, each with what it counts: rare ones more. Their squares add up to 1."""
    kinds: dict[str, dict[str, float]] = {}
    for each in features:
        if each in rarity:
            kinds.setdefault(each.partition(" ")[0], {})[each] = rarity[each]
    found: dict[str, float] = {}
    for kind, of in kinds.items():
        length = _length(of.values())
        found.update((each, _KINDS[kind] * value / length) for each, value in of.items())
    length = _length(found.values())
    return {each: value / length for each, value in found.items()}


def ranked(text: str) -> list[tuple[float, str]]:
    """The symptoms, each with how much a question says for it: from -1 (nothing) to 1 (all), the likeliest first."""
    weights = _weights()
    rarity = {each: rare / SCALE for each, (rare, _) in weights.features.items()}
    scores = [each / SCALE for each in weights.bias]
    # In the same order everywhere, since a sum depends on it in its last digit.
    for feature, value in sorted(values(features_of(text), rarity).items()):
        for at, weight in weights.features[feature][1].items():
            scores[at] += value * weight / SCALE
    return sorted(zip(scores, weights.symptoms, strict=True), reverse=True)


def decided(text: str, ranking: Sequence[tuple[float, str]], like: Mapping[str, Collection[str]]) -> Decision:
    """What the ranking of a question says.

    Symptoms that are `like` each other have the same causes, so that one is as good as the other.
    """
    concepts = concepts_of(text)
    amp = not is_without_amp(concepts)
    ahead = _AHEAD_BRIEF if is_brief(text) else _AHEAD
    least, less = _LEAST_WITHOUT_AMP, 0.0
    if amp or is_brief(text):
        least, less = (_LEAST, _ABOUT_AMP) if amp else (_LEAST_BRIEF, _PERHAPS_ABOUT_AMP)
    scores = sorted(((score - less if name == NOTHING else score, name) for score, name in ranking), reverse=True)
    first, name = scores[0]
    second = next(score for score, other in scores[1:] if other not in like.get(name, ()))
    if name != NOTHING and first >= least and first - second >= ahead:
        return Decision(name, ())
    near = [(score, name) for score, name in scores if name != NOTHING][:_AT_MOST]
    behind = first - near[0][0]
    if behind > (0.0 if amp else _MAY_BE_AMP) and (amp or "nan" not in concepts):
        return Decision("", ())
    return Decision("", tuple(name for _, name in near))


def _situation(text: str) -> frozenset[str]:
    """The concepts of a question, and what is special about it as a whole."""
    found = concepts_of(text)
    return found | {
        name
        for name, is_so in (
            ("no amp", is_without_amp(found)),
            ("long", not is_brief(text)),
            ("elsewhere", is_elsewhere(text)),
        )
        if is_so
    }


def is_brief(text: str) -> bool:
    """Whether a question has few words."""
    return len(text.split()) <= _BRIEF


def _stem(word: str) -> str:
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _STEM:
            return word.removesuffix(suffix)
    return word


def _length(numbers: Iterable[float]) -> float:
    return math.sqrt(math.fsum(each * each for each in numbers)) or 1.0


@cache
def _weights() -> Weights:
    document: dict[str, Any] = json.loads(WEIGHTS.read_text("utf-8"))
    features = {
        name: (rare, dict(zip(of[::2], of[1::2], strict=True))) for name, (rare, *of) in document["features"].items()
    }
    return Weights(tuple(document["symptoms"]), tuple(document["bias"]), features)
