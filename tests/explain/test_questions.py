"""What people ask leads to what they mean, and what amplint does not know to nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.explain.concepts import asked, concepts_of, normalized
from amplint.explain.messages import known
from tests import ROOT
from tests.explaining import ids

ASKED = [
    tuple(line.split("|", 1))
    for line in Path(ROOT, "tests", "explaining", "asked.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize(("kind", "text"), ASKED)
def test_what_is_asked(kind: str, text: str) -> None:
    found = ids(text, asked=True)
    assert kind in found if kind != "none" else not found


def test_the_kinds_are_known() -> None:
    kinds = {kind for kind, _ in ASKED}
    assert kinds - {"none"} < {each.id for each in known()}
    assert len(ASKED) > 280


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("fp16 loss is nan", "Half-precision loss is NaN"),
        ("nan in validation", "inf during eval"),
        ("val loss nan", "test loss NaN"),
        ("AMP is slower", "mixed precision is slow"),
        ("doesn't converge in bf16", "does not converge in bfloat 16"),
        ("grad norm inf", "gradient norm is infinite"),
    ],
)
def test_other_words_for_the_same(one: str, other: str) -> None:
    assert ids(one, asked=True) == ids(other, asked=True) != []


def test_settings_are_no_question() -> None:
    assert "nan" not in concepts_of("min_loss=inf patience=3")
    assert "nan" not in concepts_of("val_loss improved from inf to 0.53")
    assert "nan" in concepts_of("val_loss=nan")
    assert normalized("O1's eps=1e-8 isn't BF 16") == "o1s eps 1e 8 isnt bf16"


def test_a_concept_has_to_exist() -> None:
    assert asked("nan & loss & !evaluation").unwanted == {"evaluation"}
    with pytest.raises(ValueError, match="no concept los"):
        asked("nan & los")
