"""What is made of other files is current; `python -m tests.generate` makes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.guide.rule_pages import proofs
from tests.generate import FILES, ROOT
from tests.proofs import executed


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_generated_files_are_current(path: Path) -> None:
    assert path.read_text("utf-8") == FILES[path](), f"{path.relative_to(ROOT)}: write it with python -m tests.generate"


def test_each_fixture_that_is_run_has_its_proof() -> None:
    """Whether it still shows what is written down is asked where it is run (test_fixtures.py)."""
    written = [(rule, each["variant"]) for rule, of in proofs().items() for each in of]
    run = [(each.rule, each.name) for each in executed()]
    assert written == run, "run what is new, or has changed its place, with python -m tests.generate"
