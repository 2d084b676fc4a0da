"""Fingerprints: what they hang on, and what not."""

from __future__ import annotations

from amplint import check
from amplint.adoption.fingerprint import fingerprints
from amplint.sources.source import Source

OLD = "with torch.cuda.amp.autocast():\n    pass\n"
CODE = f"import torch\n\n{OLD}"


def of(code: str, path: str = "a/b.py") -> list[str]:
    return fingerprints(Source(path, code), check(code), path)


def test_lines_may_move_and_be_indented() -> None:
    assert len(of(CODE)) == 1
    moved = "import torch\n\n\n\nif True:\n    with  torch.cuda.amp.autocast():\n        pass\n"
    assert of(moved) == of(CODE)


def test_a_second_one_is_another() -> None:
    twice = of(CODE + OLD)
    assert len(set(twice)) == 2
    assert twice[0] == of(CODE)[0]


def test_the_line_and_the_path_count() -> None:
    assert of(CODE) != of(CODE.replace("autocast()", "autocast(enabled=True)"))
    assert of(CODE) != of(CODE, "b.py")
    assert of(CODE, "a/b.py") == of(CODE, "a\\b.py")
