"""From labelled questions to the weights that `amplint explain` ranks symptoms with.

`python -m tests.generate` writes them. Each kind's weights are a ridge regression on the features: 1 for its own
questions, and -1 for those of others.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from amplint.explain.messages import known
from amplint.explain.ranking import SCALE, features_of, values
from tests.explaining.labelled import Labelled, labelled

Example = tuple[str, frozenset[str]]
Matrix = NDArray[np.float64]
# How strongly weights are drawn to 0, how much a feature that all texts have would count, and below what a weight is 0.
RIDGE, CONSTANT, _LEAST = 0.3, 0.2, 0.07
# Texts that have a feature at least.
_TEXTS = 2
# How often a question of the tables counts: they are written for their kinds, and have to be answered.
_OFTEN = 3


def examples(texts: Iterable[Labelled]) -> list[Example]:
    """The kinds and features of labelled texts, those of the tables' own questions several times."""
    own = {text for each in known() for text in each.questions}
    found = ((each, (each.kind, features_of(each.text))) for each in texts)
    return [example for each, example in found for _ in range(_OFTEN if each.text in own else 1)]


def rarity_of(texts: Collection[Example]) -> dict[str, float]:
    """How rare each feature is among texts, for those features that occur often enough."""
    times = Counter(feature for _, features in texts for feature in features)
    return {
        feature: round(math.log(1 + len(texts) / times[feature]), 2)
        for feature in sorted(times)
        if times[feature] >= _TEXTS
    }


def matrix_of(texts: Collection[Example], rarity: dict[str, float]) -> Matrix:
    """What each feature (a column) counts in each text (a row)."""
    column = {feature: at for at, feature in enumerate(rarity)}
    matrix = np.zeros((len(texts), len(rarity)))
    for row, (_, features) in enumerate(texts):
        for feature, value in values(features, rarity).items():
            matrix[row, column[feature]] = value
    return matrix


def target_of(texts: Collection[Example], kinds: Sequence[str]) -> Matrix:
    """For each text (a row) and kind (a column) 1 if the text is of that kind, else -1."""
    target = -np.ones((len(texts), len(kinds)))
    for row, (kind, _) in enumerate(texts):
        target[row, kinds.index(kind)] = 1
    return target


def document(texts: Sequence[Example]) -> dict[str, object]:
    """What the file of weights holds."""
    rarity = rarity_of(texts)
    kinds = sorted({kind for kind, _ in texts})
    matrix = matrix_of(texts, rarity)
    shares = np.linalg.solve(matrix @ matrix.T + CONSTANT + RIDGE * np.eye(len(texts)), target_of(texts, kinds))
    features = {}
    for feature, row in zip(rarity, (matrix.T @ shares).tolist(), strict=True):
        kept = [(at, round(SCALE * weight)) for at, weight in enumerate(row) if abs(weight) >= _LEAST]
        features[feature] = [round(SCALE * rarity[feature]), *(number for pair in kept for number in pair)]
    bias = [round(SCALE * CONSTANT * each) for each in shares.sum(axis=0).tolist()]
    return {"symptoms": kinds, "bias": bias, "features": features}


def text() -> str:
    """The file of weights, a line for each feature."""
    made = document(examples(labelled()))
    features = made.pop("features")
    assert isinstance(features, dict)
    head = "".join(f" {json.dumps(name)}: {json.dumps(value)},\n" for name, value in made.items())
    lines = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(of, separators=(',', ':'))}" for name, of in features.items()
    )
    return f'{{\n{head} "features": {{\n{lines}\n }}\n}}\n'
