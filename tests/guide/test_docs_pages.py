"""The pages in docs/ and CONTRIBUTING.md: what they name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from amplint.registry import all_rules
from tests import ROOT
from tests.test_import_graph import ORDER

DOCS = ROOT / "docs"
PAGES = [ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
_LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")
_FILE = re.compile(r"`((?:amplint|tests|fixtures|docs)/[\w/.-]+)`")
_MODULE = re.compile(r"`((?:amplint|tests)(?:\.\w+)+)`")
_CITED = re.compile(r"docs/([\w-]+\.md), \"([^\"]+)\"")


def test_the_packages_are_in_their_order() -> None:
    text = (DOCS / "architecture.md").read_text("utf-8")
    assert tuple(re.findall(r"^### `([\w.]+)`$", text, re.MULTILINE)) == ORDER


def test_each_package_is_told_in_few_lines() -> None:
    text = (DOCS / "architecture.md").read_text("utf-8").partition("### `base`")[2]
    for part in text.split("\n### "):
        assert 1 <= len(part.strip().splitlines()[1:]) <= 3, part


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    for link in _LINK.findall(text):
        assert (page.parent / link).exists(), link
    for name in _FILE.findall(text):
        assert (ROOT / name).exists(), name
    for name in _MODULE.findall(text):
        path = ROOT / name.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), name


@pytest.mark.parametrize("name", ["amp-facts.md", "fix-safety.md"])
def test_codes_are_those_of_rules(name: str) -> None:
    """The rows of one rule are missed by who has renumbered it."""
    codes = re.findall(r"AMP\d{3}", (DOCS / name).read_text("utf-8"))
    assert codes
    assert set(codes) <= all_rules().keys()


def test_what_docstrings_cite_stands_there() -> None:
    cited = [
        (path, *found)
        for folder in ("amplint", "tests")
        for path in (ROOT / folder).rglob("*.py")
        for found in _CITED.findall(path.read_text("utf-8"))
    ]
    assert cited
    for path, page, heading in cited:
        headings = re.findall(r"^#+ (.+)$", (DOCS / page).read_text("utf-8"), re.MULTILINE)
        assert heading in headings, f"{path.relative_to(ROOT)} cites {page}, {heading!r}"
