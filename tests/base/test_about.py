"""The addresses of the documentation: one constant, which pyproject.toml and mkdocs.yml name too."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.base.about import DOCUMENTATION, REPOSITORY, rule_url
from amplint.base.findings import Finding, Severity
from amplint.integrations.lsp_documents import Document
from amplint.registry import all_rules
from amplint.registry.rule import OURS
from amplint.sources.source import Source
from tests import ROOT
from tests.conftest import LEGACY, Ran
from tests.site.pages import pages

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

PAGE = "https://amplint.github.io/amplint/rules/AMP101/"


def test_the_address_is_the_one_of_the_project_and_the_site() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    assert urls["Documentation"] == DOCUMENTATION
    assert urls["Repository"] == REPOSITORY
    assert re.findall(r"^site_url: (.+)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE) == [DOCUMENTATION]


def test_each_rule_has_a_page_at_its_address() -> None:
    made = {f"{DOCUMENTATION}{place.removesuffix('.md')}/" for place in pages()}
    own = [code for code in all_rules() if code.startswith(OURS)]
    assert {rule_url(code) for code in own} <= made
    assert len({rule_url(code) for code in own}) == len(own)


def test_a_rule_of_a_plugin_has_none() -> None:
    assert rule_url("HSE101") is None


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("json", lambda out: out[0]["url"]),
        ("sarif", lambda out: out["runs"][0]["tool"]["driver"]["rules"][0]["helpUri"]),
        ("rdjson", lambda out: out["diagnostics"][0]["code"]["url"]),
    ],
)
def test_outputs_have_it(project: Write, amplint: Run, name: str, where: Callable[[object], str]) -> None:
    project({"old.py": LEGACY})
    assert where(json.loads(amplint(f"--output-format={name}").out)) == PAGE


def test_editors_get_it() -> None:
    pytest.importorskip("lsprotocol")
    found = [Finding(0, 1, code, "name", Severity.ERROR, "message") for code in ("AMP101", "HSE101")]
    own, other = Document(Source.from_text("x = 1", "x.py"), found, None, "utf-16").diagnostics()
    assert own.code_description is not None
    assert own.code_description.href == PAGE
    assert other.code_description is None
