"""The README, CONTRIBUTING.md and the pages in docs/: what they name exists."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

import amplint
from amplint.guide import GLOSSARY, GUIDE, RULES
from amplint.registry import all_rules
from tests import ROOT
from tests.shown import documents
from tests.test_import_graph import ORDER

DOCS = ROOT / "docs"
PAGES = [ROOT / "CONTRIBUTING.md", *documents()]
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([\w-]+))?\)")
_CODE = re.compile(r"^( *)```.*?^ *```|`[^`\n]+`", re.DOTALL | re.MULTILINE)
_OTHERS = {"node_modules", "site", "build", "dist", "fixtures"}
MARKDOWN = [
    path
    for path in sorted(ROOT.rglob("*.md"))
    if not any(part in _OTHERS or part.startswith(".") for part in path.relative_to(ROOT).parts)
]
_FILE = re.compile(r"`((?:amplint|tests|fixtures|docs)/[\w/.-]+)`")
_MODULE = re.compile(r"`((?:amplint|tests)(?:\.\w+)+)`")
_CITED = re.compile(r"docs/([\w-]+\.md), \"([^\"]+)\"")


@cache
def _anchors(path: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings, and those that it has itself."""
    text = path.read_text("utf-8")
    headings = re.findall(r"^#+ (.+)$", _CODE.sub(lambda found: found[0].strip("`"), text), re.MULTILINE)
    made = {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}
    return made | set(re.findall(r'<a id="([\w-]+)">', text))


def test_the_packages_are_in_their_order() -> None:
    text = (DOCS / "architecture.md").read_text("utf-8")
    assert tuple(re.findall(r"^### `([\w.]+)`$", text, re.MULTILINE)) == ORDER


def test_each_package_is_told_in_few_lines() -> None:
    text = (DOCS / "architecture.md").read_text("utf-8").partition("### `base`")[2]
    for part in text.split("\n### "):
        assert 1 <= len(part.strip().splitlines()[1:]) <= 3, part


# Those of the extension for VS Code.
_EXTENSION = json.loads((ROOT / "editors" / "vscode" / "package.json").read_text("utf-8"))
SETTINGS = set(_EXTENSION["contributes"]["configuration"]["properties"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    for name in _FILE.findall(text):
        assert (ROOT / name).exists(), name
    public = {f"amplint.{name}" for name in (*amplint.__all__, "__all__")} | SETTINGS
    for name in set(_MODULE.findall(text)) - public - {"amplint.toml"}:
        path = ROOT / name.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), name


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_a_file_and_an_anchor_of_the_repository(page: Path) -> None:
    """GitHub shows the same files as the site does, whose own links are made of these."""
    for link, anchor in _LINK.findall(_CODE.sub("", page.read_text("utf-8"))):
        place = (page.parent / link).resolve() if link else page
        assert place.exists(), link
        assert not anchor or anchor in _anchors(place), (link, anchor)


def test_all_pages_are_looked_at() -> None:
    assert {*PAGES, GUIDE, GLOSSARY, RULES, ROOT / "CHANGELOG.md"} <= set(MARKDOWN)


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
