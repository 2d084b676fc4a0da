"""The site: pages that are made of other files. That it builds, and that its links lead somewhere, is in .ci/run."""

from __future__ import annotations

import re

import pytest

from amplint.registry.rule import Rule
from tests import ROOT
from tests.shown import DOCS
from tests.site import pages
from tests.site.screenshots import PAGES, STORIES

MADE = pages.pages()
HEADINGS = ["Example", "Why is this bad?", "What it finds", "Fix safety", "Proof"]


@pytest.mark.parametrize("rule", pages.rules(), ids=lambda rule: rule.code)
def test_a_rule_has_a_page_with_all_of_it(rule: Rule) -> None:
    page = MADE[f"rules/{rule.code}.md"]
    shown = re.findall(r"^## (.+)$", page, re.MULTILINE)
    assert shown == [*HEADINGS, *(["Messages"] if "Messages" in shown else []), "References"]
    for name in ("Code", "Family", "Severity", "Confidence", "Fix", "Default", "Since", "Verify"):
        assert re.search(rf"^\| \*\*{name}\*\* \| [^|]+ \|$", page, re.MULTILINE)
    assert "```diff" in page or rule.code in {"AMP000", "AMP001"}
    assert rule.summary in page
    assert f"[{rule.code}]({rule.code}.md) {rule.name}" in MADE["rules/index.md"]


def test_facts_are_those_of_the_fixtures() -> None:
    """Which fixes a rule has changes now and then; these are of a kind that stays."""
    assert set(pages.facts("AMP401").fixes) == {"safe", "unsafe", "no"}
    assert pages.facts("AMP207").fix() == "none"
    assert pages.facts("AMP002").fixes_in_words() == "safe"
    assert "likely" in pages.facts("AMP410").confidences
    for rule in pages.rules():
        found = pages.facts(rule.code)
        assert found.confidences
        assert found.fixes


def test_facts_of_a_snapshot(tmp_path: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = """
  == a/bad.py
  1:1-1:2 AMP999 name warning likely
      at 'x'
      message
      unsafe fix: Do it
      - 1:1 'x'
  2:1-2:2 AMP999 name error
      at 'x'
      message
  3:1-3:2 AMP401 other error
      safe fix: Not of this rule
  4:1-4:2 AMP999 name error
      help: By hand
"""
    (tmp_path / "AMP999.ambr").write_text(snapshot)  # type: ignore[operator]
    monkeypatch.setattr(pages, "SNAPSHOTS", tmp_path)
    found = pages.facts("AMP999")
    assert (found.confidence(), found.fixes_in_words()) == ("certain or likely", "unsafe; not in all cases")


def test_rules_are_as_old_as_the_changelog_says() -> None:
    assert {pages.since()[code] for code in ("AMP000", "AMP002", "AMP215", "AMP603")} == {"0.1.0"}
    assert {"AMP003", "AMP699"}.isdisjoint(pages.since())


def test_a_diff_has_all_lines() -> None:
    assert pages.diff(["a", "", "b"], ["a", "", "c", "d"]) == " a\n\n-b\n+c\n+d\n"


def test_rules_are_linked() -> None:
    text = "AMP401, `AMP402`, [AMP403](x), AMP4, AMP999\n\n# AMP401\n\n```\nAMP401\n```\n"
    linked = text.replace("AMP401,", "[AMP401](../rules/AMP401.md),", 1)
    assert pages.linked(text, "stories/x.md") == linked
    assert pages.linked("AMP401 and AMP402", "rules/AMP401.md") == "AMP401 and [AMP402](../rules/AMP402.md)"
    assert pages.linked("AMP401", "x.md") == "[AMP401](rules/AMP401.md)"


def test_lists_and_tables_have_a_line_before_them() -> None:
    text = "Words\n- a\n  b\n- c\n\nWords\n| x |\n|---|\n```\nx\n- y\n```\n"
    assert pages.spaced(text) == text.replace("Words\n", "Words\n\n")


def test_links_of_the_repository_become_those_of_the_site() -> None:
    text = "[a](../../amplint/guide/rules.md#amp401) [b](../../CONTRIBUTING.md#add-a-rule) [c](../run.md#x) [d](#y)"
    moved = "[a](../rules/AMP401.md) [b](../contributing.md#add-a-rule) [c](../run.md#x) [d](#y)"
    assert pages.moved(text, "docs/stories/x.md") == moved
    assert pages.moved("[a](../../docs/fixes.md#z)", "amplint/guide/glossary.md") == "[a](fixes.md#z)"
    assert pages.moved("[a](LICENSE)", "README.md") == f"[a]({pages.HOME}/blob/main/LICENSE)"


def test_links_of_the_readme_are_those_of_the_site() -> None:
    text = MADE["index.md"]
    links = {link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text)}
    assert len(links) > 15
    for link in links - {pages.PICTURE}:
        assert link.startswith("https://") or link in MADE or (DOCS / link).exists(), link


def test_pages_that_are_looked_at_exist() -> None:
    for page in (*PAGES, *STORIES):
        place = page.rstrip("/") or "index"
        found = (f"{place}.md", f"{place}/index.md")
        assert any(each in MADE or (DOCS / each).exists() for each in found), page


def test_ci_builds_it() -> None:
    assert "mkdocs build --strict" in (ROOT / ".ci" / "run").read_text("utf-8")
