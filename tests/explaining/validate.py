"""How well `amplint explain` answers what it was not taught: `python -m tests.explaining.validate`.

Each family of labelled texts is left out in turn, and the rest decides what it is about. A text that quotes a message
is answered by the message, as always. *right* is an answer of the kind that the text is labelled with, or of one with
the same causes, and none where there is none; *among* is one that is not sure, with the kind among its candidates;
*wrong* any other answer that is sure; *none* is no answer where there is one, or candidates without the kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from amplint.explain.messages import known
from amplint.explain.ranking import NOTHING, Decision, decided, features_of
from amplint.explain.search import Doubt, Found, find
from tests.explaining.labelled import drawn, labelled
from tests.explaining.training import CONSTANT, RIDGE, Example, Matrix, matrix_of, rarity_of, target_of

# Scores of texts, a row for each, without those of its family.
Scores = Callable[[Sequence[Example], Sequence[int], Sequence[str]], Matrix]
_NEIGHBORS = 5
VERDICTS = ("right", "among", "wrong", "none")


def linear(*kinds: str) -> Scores:
    """The weights of `amplint explain`, with features of these kinds only."""

    def scores(texts: Sequence[Example], families: Sequence[int], names: Sequence[str]) -> Matrix:
        some = [_only(each, kinds) for each in texts]
        matrix, target = matrix_of(some, rarity_of(some)), target_of(some, names)
        inverse = np.linalg.inv(matrix @ matrix.T + CONSTANT + RIDGE * np.eye(len(texts)))
        shares = inverse @ target
        found = np.zeros((len(texts), len(names)))
        # What the others say of some rows follows from all: they are taken out of the solution.
        for rows in _rows_of(families):
            found[rows] = target[rows] - np.linalg.solve(inverse[np.ix_(rows, rows)], shares[rows])
        return found

    return scores


def nearest(texts: Sequence[Example], families: Sequence[int], names: Sequence[str]) -> Matrix:
    """The kinds of the texts that are most alike, which vote."""
    matrix = matrix_of(texts, rarity_of(texts))
    alike = matrix @ matrix.T
    found = np.zeros((len(texts), len(names)))
    of = np.array(families)
    for row in range(len(texts)):
        likeness = np.where(of == families[row], 0.0, alike[row])
        for other in np.argsort(-likeness)[:_NEIGHBORS]:
            found[row, names.index(texts[other][0])] += likeness[other] ** 2
    return found - 1


DESIGNS: dict[str, Scores] = {
    "nearest examples": nearest,
    "words": linear("word"),
    "words and phrases": linear("word", "phrase"),
    "concepts": linear("concept"),
    "concepts and their pairs": linear("concept", "pair"),
    "words, phrases, concepts, pairs": linear("word", "phrase", "concept", "pair"),
}


def figures(scores: Scores) -> tuple[Counter[str], Counter[str]]:
    """How often a design is right, wrong and silent: of the texts of threads, and of all."""
    texts = labelled()
    found = [(each.kind, features_of(each.text)) for each in texts]
    names = sorted({kind for kind, _ in found})
    ranking = scores(found, [each.family for each in texts], names)
    own = {group[0][1] for group in drawn()}
    ours, all_of_them = Counter[str](), Counter[str]()
    for each, row in zip(texts, ranking, strict=True):
        said = _answer(each.text, list(zip(row.tolist(), names, strict=True)))
        all_of_them[_verdict(each.kind, said)] += 1
        if each.text in own:
            ours[_verdict(each.kind, said)] += 1
    return ours, all_of_them


def _answer(text: str, ranking: list[tuple[float, str]]) -> Found:
    """What a text is answered with, where symptoms are ranked like this."""

    def decide(_: str) -> Decision:
        return decided(text, ranking, {each.id: each.like for each in known()})

    return find(text, asked=True, decide=decide)


def _verdict(kind: str, said: Found) -> str:
    like = {kind, *next((each.like for each in known() if each.id == kind), ())}
    if said.hits:
        return "wrong" if like.isdisjoint(hit.message.id for hit in said.hits) else "right"
    if kind == NOTHING and (said.doubt is Doubt.WITHOUT_AMP or not said.candidates):
        return "right"
    return "none" if like.isdisjoint(each.id for each in said.candidates) else "among"


def _only(example: Example, kinds: Sequence[str]) -> Example:
    kind, features = example
    return kind, frozenset(each for each in features if each.partition(" ")[0] in kinds)


def _rows_of(families: Sequence[int]) -> list[list[int]]:
    found: dict[int, list[int]] = {}
    for row, family in enumerate(families):
        found.setdefault(family, []).append(row)
    return list(found.values())


def main() -> None:
    """Print the figures of all designs."""
    print(f"{'':34}{'texts of threads':28}{'all texts':28}\n{'':34}" + f"{' '.join(VERDICTS):28}" * 2)
    for name, scores in DESIGNS.items():
        counts = figures(scores)
        print(f"{name:34}" + "".join(f"{_shown(each):28}" for each in counts))
    families = len({each.family for each in labelled()})
    print(f"{len(drawn())} texts of threads, {len(labelled())} in all, {families} families")


def _shown(verdicts: Counter[str]) -> str:
    return " ".join(f"{verdicts[each] / verdicts.total():5.0%}" for each in VERDICTS)


if __name__ == "__main__":
    main()
