"""The life of a rule: preview, deprecated, removed, renamed; with rules that a plugin brings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.registry import all_rules, families, known, meant_by, names, redirects
from amplint.registry.rule import Stage
from tests.conftest import Ran
from tests.registry.test_plugins import install, run

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

PINNED = "pinned = 1\n"
MODULE = '''\
"""{summary}

## What it does
It is made up.
"""

from amplint.plugin_api import Applicability, Rule, Severity, Stage

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    triggers=("pinned",),
    fixes=(Applicability.UNSAFE,),
    {more}
)


@rule.check
def check(module):
    yield rule.finding((0, 6), "{summary}")
'''
GONE = '''\
"""It never found anything."""

from amplint.plugin_api import Rule, Severity, Stage

rule = Rule(__name__, __doc__, severity=Severity.ERROR, stage=Stage.REMOVED)
'''
MODULES = {
    "house/hse101_pinned.py": MODULE.format(summary="Pinned.", more='formerly=("HSE099", "nailed-down"),'),
    "house/hse102_newer.py": MODULE.format(summary="Newer.", more="stage=Stage.PREVIEW,"),
    "house/hse103_older.py": MODULE.format(summary="Older.", more="stage=Stage.DEPRECATED, default=False,"),
    "house/hse104_gone.py": GONE,
}
CONCISE = ("--output-format=concise", "--quiet")
RENAMED = "rule HSE099 is now HSE101 (pinned); the old one still works"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plugin with a rule in each stage, installed."""
    site = tmp_path_factory.mktemp("stages") / "site-packages"
    site.mkdir()
    install(site, "house", "[amplint.rules]\nHSE = house\n", {"house/__init__.py": "", **MODULES})
    return site


def codes(out: str) -> list[str]:
    return re.findall(r"\bHSE\d+", out)


class TestRenamed:
    def test_selectors(self, site: Path, project: Write) -> None:
        root = project({"a.py": PINNED})
        for selector in ("HSE099", "nailed-down", "pinned", "HSE101"):
            assert codes(run(site, *CONCISE, "--select", selector, cwd=root).out) == ["HSE101"]
            assert codes(run(site, *CONCISE, "--ignore", selector, cwd=root).out) == []

    def test_it_is_told_once(self, site: Path, project: Write) -> None:
        root = project(
            {
                "a.py": PINNED,
                "b.py": PINNED,
                "amplint.toml": 'select = ["AMP4", "HSE099"]\nunfixable = ["HSE099"]\n',
            }
        )
        assert run(site, cwd=root).err == f"amplint: warning: amplint.toml:1: {RENAMED}\n"
        assert run(site, "--quiet", cwd=root).err == ""
        ran = run(site, "--isolated", "--ignore=HSE099", cwd=root)
        assert ran.err == f"amplint: warning: --ignore: {RENAMED}\n"

    def test_per_file_ignores(self, site: Path, project: Write) -> None:
        text = '[per-file-ignores]\n"a.py" = ["HSE099"]\n'
        root = project({"a.py": PINNED, "b.py": PINNED, "amplint.toml": text})
        ran = run(site, "--output-format=concise", cwd=root)
        assert ran.out.splitlines()[0].startswith("b.py:1:1: HSE101 ")
        assert ran.err == f"amplint: warning: amplint.toml:2: {RENAMED}\n"

    @pytest.mark.parametrize("comment", ["noqa: HSE099", "amplint: ignore[HSE099]", "amplint: ignore[nailed-down]"])
    def test_comments(self, site: Path, project: Write, comment: str) -> None:
        root = project({"a.py": f"pinned = 1  # {comment}\n", "b.py": f"pinned = 1  # {comment}\n"})
        ran = run(site, cwd=root)
        assert (ran.code, ran.out) == (0, "All checks passed!\n")
        former = "nailed-down" if "nailed" in comment else "HSE099"
        assert ran.err == f"amplint: warning: a.py:1: {RENAMED.replace('HSE099', former)}\n"
        # The code stands for the same rule where it silences nothing.
        project({"a.py": f"x = 1  # {comment}\n", "b.py": ""})
        assert "AMP002 [*] warning: unused suppression: nothing here is reported as HSE101" in run(site, cwd=root).out

    def test_comments_in_a_notebook(self, site: Path, project: Write) -> None:
        cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
        cells = [{**cell, "source": ["pinned = 1\n", "x = 1  # noqa: HSE099"]}]
        text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
        ran = run(site, cwd=project({"n.ipynb": text}))
        assert ran.err == f"amplint: warning: n.ipynb:cell 1:2: {RENAMED}\n"

    def test_a_baseline(self, site: Path, project: Write) -> None:
        root = project({"a.py": PINNED})
        run(site, "--baseline=old.json", "--write-baseline", cwd=root)
        old = root / "old.json"
        old.write_text(old.read_text().replace("HSE101", "HSE099"))
        assert run(site, "--baseline=old.json", cwd=root).out.startswith("All checks passed!\n1 finding not reported")

    def test_its_page(self, site: Path, project: Write) -> None:
        root = project({})
        ran, now = run(site, "rule", "HSE099", cwd=root), run(site, "rule", "HSE101", cwd=root)
        assert (ran.out, ran.err) == (now.out, f"amplint: warning: {RENAMED}\n")
        said = "On by default. Fixes: unsafe. Formerly HSE099, nailed-down. Of the plugin house 1.0."
        assert f"\nSeverity: error; a *likely* finding is a warning. {said}\n" in now.out
        assert now.err == ""

    def test_another_plugins_code(self, tmp_path: Path, project: Write) -> None:
        site = tmp_path / "env" / "site-packages"
        text = MODULES["house/hse101_pinned.py"].replace("HSE099", "AMP120")
        install(site, "house", "[amplint.rules]\nHSE = house\n", {"house/__init__.py": "", "house/hse101_x.py": text})
        ran = run(site, cwd=project({"a.py": ""}))
        said = "plugin house 1.0: HSE101 can't have been AMP120, which has another prefix"
        assert (ran.code, ran.err) == (2, f"amplint: error: {said}\n")


class TestPreview:
    def test_it_is_off(self, site: Path, project: Write) -> None:
        root = project({"a.py": PINNED})
        assert codes(run(site, *CONCISE, cwd=root).out) == ["HSE101"]
        assert codes(run(site, *CONCISE, "--select=ALL", cwd=root).out) == ["HSE101", "HSE103"]
        ran = run(site, "--select=HSE102", cwd=root)
        said = "amplint: warning: --select: HSE102 has no effect without `--preview`: it is in preview\n"
        assert (ran.code, ran.err) == (0, said)

    def test_it_is_on_with_preview(self, site: Path, project: Write) -> None:
        root = project({"a.py": PINNED})
        assert codes(run(site, *CONCISE, "--preview", cwd=root).out) == ["HSE101", "HSE102"]
        ran = run(site, *CONCISE, "--preview", "--select=newer", cwd=root)
        assert (codes(ran.out), ran.err) == (["HSE102"], "")
        project({"amplint.toml": "preview = true\n"})
        assert codes(run(site, *CONCISE, cwd=root).out) == ["HSE101", "HSE102"]
        assert codes(run(site, *CONCISE, "--no-preview", cwd=root).out) == ["HSE101"]

    def test_its_page(self, site: Path, project: Write) -> None:
        page = run(site, "rule", "HSE102", cwd=project({})).out
        said = "In preview: it needs `preview = true`. Fixes: unsafe."
        assert f"\nSeverity: error; a *likely* finding is a warning. {said}" in page


class TestDeprecated:
    def test_to_ask_for_it_is_warned_about(self, site: Path, project: Write) -> None:
        root = project({"a.py": PINNED})
        ran = run(site, "--output-format=concise", "--select=HSE103", cwd=root)
        assert codes(ran.out) == ["HSE103"]
        said = "rule HSE103 is deprecated and will be removed; `amplint rule HSE103` says more"
        assert ran.err == f"amplint: warning: --select: {said}\n"
        assert run(site, "--select=HSE", cwd=root).err == run(site, "--ignore=HSE103", cwd=root).err == ""
        page = run(site, "rule", "HSE103", cwd=root).out
        assert '`extend-select = ["HSE103"]` turns it on. Deprecated: it will be removed.' in page


class TestRemoved:
    def test_it_can_be_ignored_and_not_selected(self, site: Path, project: Write) -> None:
        root = project({"a.py": PINNED, "amplint.toml": 'ignore = ["HSE104"]\n'})
        ran = run(site, "--output-format=concise", cwd=root)
        assert codes(ran.out) == ["HSE101"]
        assert ran.err == (
            "amplint: warning: amplint.toml:1: rule HSE104 was removed, so to name it here does nothing\n"
        )
        project({"amplint.toml": '\nselect = ["HSE104"]\n'})
        said = "rule HSE104 was removed; `amplint rule HSE104` says why"
        ran = run(site, cwd=root)
        assert (ran.code, ran.err) == (2, f"amplint: error: amplint.toml:2: {said}\n")

    def test_a_comment_for_it_is_unused(self, site: Path, project: Write) -> None:
        root = project({"a.py": "x = 1  # noqa: HSE104\n"})
        assert "unused suppression: there is no rule HSE104" in run(site, cwd=root).out
        run(site, "--fix", cwd=root)
        assert (root / "a.py").read_text() == "x = 1\n"

    def test_its_page(self, site: Path, project: Write) -> None:
        root = project({})
        page = run(site, "rule", "HSE104", cwd=root).out
        assert page.startswith("# gone (HSE104)\n\nSeverity: error. It was removed, and never runs.")
        assert "It never found anything." in page
        assert "HSE104" not in run(site, "rule", cwd=root).out


def test_the_list(site: Path, project: Write) -> None:
    root = project({})
    lines = run(site, "rule", cwd=root).out.splitlines()
    at = lines.index("house 1.0 (HSE)")
    assert [line.split()[2:] for line in lines[at + 1 : at + 4]] == [
        ["error", "unsafe", "on"],
        ["error", "unsafe", "preview"],
        ["error", "unsafe", "off,", "deprecated"],
    ]
    rows = {each["code"]: each for each in json.loads(run(site, "rule", "--output-format=json", cwd=root).out)}
    assert rows["HSE101"]["formerly"] == ["HSE099", "nailed-down"]
    assert [(rows[f"HSE10{at}"]["stage"], rows[f"HSE10{at}"]["default"]) for at in (1, 2, 3)] == [
        ("stable", True),
        ("preview", False),
        ("deprecated", False),
    ]


class TestOurs:
    def test_each_word_has_one_meaning(self) -> None:
        """No name is a code, a family's, or two rules'; nothing that a rule was is what another one is."""
        ours = [*all_rules().values(), *known().removed.values()]
        words = [*families(), *redirects(), *(rule.name for rule in ours), *(rule.code for rule in ours)]
        assert len(words) == len(set(words))

    def test_each_name_leads_to_its_rule(self) -> None:
        for code, rule in all_rules().items():
            assert meant_by(rule.name) == meant_by(rule.name.upper()) == meant_by(code) == code
        for name, start in families().items():
            assert meant_by(name) == start
            assert all(code.startswith(start) for code, rule in all_rules().items() if f".{name}." in rule.module_name)
        assert meant_by("AMP4") == "AMP4"
        assert names()["island-without-upcast"] == "AMP311"

    @pytest.mark.parametrize("code", all_rules())
    def test_the_fixes_are_those_that_the_page_speaks_of(self, code: str) -> None:
        rule = all_rules()[code]
        text = rule.sections()["Fix safety"]
        spoken = {kind for kind in ("safe", "unsafe") if re.search(rf"\b{kind}\b", text, re.IGNORECASE)}
        assert rule.fixes is not None
        assert {each.value for each in rule.fixes} == spoken

    @pytest.mark.parametrize("command", ["check", "config", "verify"])
    def test_each_command_tells_of_former_names(self, project: Write, amplint: Run, command: str) -> None:
        project({"x.py": "x = 1\n"})
        said = "rule arms-disagree is now AMP420 (branches-disagree); the old one still works"
        assert amplint(command, "x.py", "--ignore=arms-disagree").err == f"amplint: warning: --ignore: {said}\n"

    def test_stages_are_read_from_the_text(self) -> None:
        assert {rule.stage for rule in all_rules().values()} <= {*Stage} - {Stage.REMOVED}
