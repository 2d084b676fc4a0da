"""A run under the doctor leaves everything as it is: what is printed, how it ends, and all that variables reach."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests import some
from tests.doctor.hard import HARD, program
from tests.doctor.remains import remains
from tests.doctor.test_programs import FAULTY, HEALTHY


def differences(path: Path, **options: bool) -> list[str]:
    """What is not as without the doctor."""
    plain, _ = remains(path, is_watched=False)
    seen, report = remains(path, is_watched=True, **options)
    assert report is not None
    assert not report.is_off, report.notes
    assert not any("failed" in note for note in report.notes), report.notes
    different = [name for name in {**plain, **seen} if plain.get(name) != seen.get(name)]
    shown = ("what is printed", "how it ends", "settings of the process")
    for name in shown:
        if name in different:
            assert seen[name] == plain[name]
    return different


@pytest.mark.parametrize("path", some([*FAULTY, *HEALTHY], 8), ids=lambda path: path.stem)
def test_a_program_is_left_as_it_is(path: Path) -> None:
    assert differences(path) == []


@pytest.mark.parametrize(
    ("name", "careful"),
    [*((name, False) for name in some(HARD, 14)), *((name, True) for name in some(HARD, 5))],
    ids=str,
)
def test_a_hard_program_is_left_as_it_is(name: str, careful: bool, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(program(HARD[name]), "utf-8")
    assert differences(path, careful=careful) == []
