"""The README and the pages in docs/: commands print what is shown, and what is shown can be used as it is."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest
from packaging.requirements import Requirement

from amplint.config import keys
from amplint.model.objects.autocast_objects import Region
from amplint.model.objects.event import EventKind
from amplint.registry.rule import DOC_HEADINGS
from amplint.report.repository_paths import HOME
from tests import ROOT
from tests.conftest import LEGACY, Ran
from tests.shown import DOCS, README, blocks, current, documents, files, install, ran, without_measures
from tests.shown import printed as output

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Write = Callable[[dict[str, str | bytes]], Path]

_CODE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_INSTALL = re.compile(r"\"(amplint[^\"]* @ git[^\"]*)\"")
# Words that make a reader read twice. Outputs and what is made of other files have tests of their own.
_STOPS = re.compile(
    r"\b(?:behind|beside|stands|told|tells|left out|leav(?:e|es|ing) out|(?:is|are) no (?:half|\w+ type)|so that this"
    r"|yours to say|round (?:an?|the|each|code|it|its|them)|mend(?:s|ed|ing)?|likewise|thereof|all the same"
    r"|among others|is depends)\b"
)
# More of them, in what the program itself says: its options, messages, notes, tables and public docstrings.
_STOPS_IN_MESSAGES = re.compile(
    rf"{_STOPS.pattern}|\b(?:(?<![Tt]here )(?:is|are) no (?!longer)\w+|anew|for ever|(?:out of|in) sight|handed on"
    r"|held back|can't be seen|goes with|switch(?:es|ed) itself|no matter of|one a (?:step|fixture|rule|processor)"
    r"|hangs on)\b"
)
# And in what rules, refusals, verify and the doctor say, who speak of a user's code: name the place and the thing.
_STOPS_IN_FINDINGS = re.compile(
    rf"{_STOPS_IN_MESSAGES.pattern}|\b(?:so that (?:this|it) raises|(?:out of|in) sight|yours to|left out"
    r"|leav(?:e|es|ing)(?: \w+){0,3} out|switch(?:es|ed|ing)?(?: \w+)? (?:on|off)|suites?|arms?|round|likewise|nobody"
    r"|can't be (?:told|seen)|by the names of|goes past|stands? in|is given what|where that is|a file of its own"
    r"|(?<![Tt]hat )(?<![Ii]t )there(?! (?:is|are|was|were|have|may)\b)|here|mended|the next time|in this case"
    r"|(?:is|are) in no|has another order|only those of|all of the \w+ward|as for"
    r"|(?:[Tt]he|[Ee]ach|[Ee]very) (?:forward|backward)(?! pass| of |'s| and its| hooks?| line| operation))\b"
)
# What leaves open what or where it is: a message without a subject, a pronoun far from its noun, a condition that comes
# last, a line without a word about what it has, a case that the program knows.
_OPEN_IN_FINDINGS = re.compile(
    r"^(?:likely: |suspicion: )?raises: |\((?:since |first on |created on )?line \d+\)|same cause|\(if `"
    r"|\bsame one\b|\bthe two\b|\bfor (?:both|each)$"
    r"|\bshares? (?:its |a )?lines?\b|\bthis mean\b|\bdoes not: (?:it|they)\b|\S {2}\S|^no fix: it\b"
    r"|\bcompute it\b|\bCompute it\b"
    r"|; (?:call|clip|create|divide|clear|disable|enable|keep|load|move|read|step) (?:it|them|one|both)\b"
)
_FINDINGS_OF = ("rules", "fixes", "engine", "verify", "doctor", "explain")
# Keys of tables that hold what programs print, what people ask, and code.
_OTHERS_SAY = {"text", "lines", "but", "beside", "asked", "questions", "change", "before", "after", "variant"}
_PUBLIC = ("api.py", "plugin_api.py", "testing.py", "base/findings.py")
_SAID_IN = (
    *("adoption", "base", "cli", "config", "doctor", "engine", "explain", "files", "fixes", "guide", "integrations"),
    *("registry", "report", "rules", "sources", "suppression", "verify", "api.py", "plugin_api.py", "runner.py"),
    "testing.py",
)
_SNAPSHOTS = sorted((ROOT / "tests" / "__snapshots__" / "test_fixtures").glob("*.ambr"))
# A line of a finding in a snapshot that says something: its message, fix or refusal, not the code that it is about.
_SAID_IN_SNAPSHOT = re.compile(r"^      (?!at ')(.+)$", re.MULTILINE)
_LONGEST, _USUAL = 200, 125


def _all(kind: str) -> list[tuple[Path, str]]:
    return [
        (path, text) for path in documents() for found, text in _CODE.findall(path.read_text("utf-8")) if found == kind
    ]


def _named(shown: tuple[Path, str]) -> str:
    return f"{shown[0].name}: {shown[1].partition(chr(10))[0]}"


@pytest.mark.parametrize(
    ("path", "command", "shown"),
    [pytest.param(path, *each, id=f"{path.stem}: {each[0]}") for path in documents() for each in blocks(path)],
)
def test_commands_print_what_is_shown(path: Path, command: str, shown: str) -> None:
    if command.startswith("amplint verify"):
        torch = pytest.importorskip("torch")
        if torch.cuda.is_available():
            pytest.skip("a real GPU says so, where a simulated one is shown")
    now = output(path, command)
    assert without_measures(now) == without_measures(shown), "write it with: python -m tests.generate --shown"


def test_there_are_commands() -> None:
    assert len(blocks(README)) >= 3
    assert sum(len(blocks(path)) for path in documents()) >= 15


def test_an_output_is_written_anew(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('```python title="a.py"\nx = 1\n```\n\n```console\n$ amplint a.py\nold\n```\n')
    assert files(page) == {"a.py": "x = 1\n"}
    assert current(page).endswith("```console\n$ amplint a.py\nAll checks passed!\n```\n")


def test_what_is_installed_is_this_repository() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    shown = [each for path in documents() for each in _INSTALL.findall(path.read_text("utf-8"))]
    assert len(shown) >= 6
    for each in shown:
        requirement = Requirement(each)
        assert requirement.name == project["name"]
        assert requirement.extras <= project["optional-dependencies"].keys()
        assert requirement.url == f"git+{HOME}"
    for path in documents():  # there is no release
        text = path.read_text("utf-8")
        assert "pip install amplint" not in text
        assert set(re.findall(r"(?:--from|--spec) (\S+)", text)) <= {f"git+{HOME}"}


@pytest.mark.parametrize(("path", "text"), _all("toml"), ids=map(_named, _all("toml")))
def test_settings_are_valid(path: Path, text: str) -> None:
    table = tomllib.loads(text)
    if "amplint" in table.get("tool", {}):
        assert keys.problem(table["tool"]["amplint"]) is None


def test_the_rule_that_is_shown_is_the_one_that_is_tested() -> None:
    """That the package works is in tests/registry/test_plugins.py."""
    page = (DOCS / "own-rules.md").read_text("utf-8")
    example = ROOT / "tests" / "example_plugin"
    texts = [each.read_text("utf-8") for each in example.rglob("*") if each.suffix in {".py", ".toml"}]
    shown = [text for kind, text in _CODE.findall(page) if kind in {"python", "toml"}]
    assert len(shown) == 7
    for each in shown:
        assert any(each in text for text in texts), each
    for name in _CODE.findall(page)[0][1].split():
        assert (example / name).exists(), name
    headings = re.findall(r"^\| `## ([^`]+)` \|", page, re.MULTILINE)
    assert headings == [*DOC_HEADINGS]
    listed = re.search(r"`kind`: ([^;]+);", page)
    assert listed is not None
    assert re.findall(r"`(\w+)`", listed[1]) == [
        each for part in get_args(EventKind) for each in get_args(part) or (part,)
    ]
    table = page.partition("A `Region` has these attributes")[2].partition("\n\nAn argument may be")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == set(Region._fields)


def test_json_is_valid() -> None:
    for _, text in _all("json"):
        json.loads(text)


def test_commands_are_accepted(project: Write, amplint: Callable[..., Ran]) -> None:
    """One after the other in one project, in an order in which the files that they need are there."""
    pytest.importorskip("torch")
    step = files(README)["train.py"]
    root = project({"train.py": step, "src/a.py": LEGACY, "log.txt": "NaN loss\n"})
    install(root)
    lines = {
        line.partition("  #")[0].partition(" | reviewdog")[0]
        for path, text in _all("sh")
        for line in text.splitlines()
        if re.search(r"\bamplint\b", line)
        and not re.search(r"pip|uvx|vsix|HSE|--watch|verify --run|^git|python train", line)
    }
    assert len(lines) >= 10
    for line in sorted(lines, key=lambda each: ("--fix" in each, "--baseline" in each and "--write" not in each, each)):
        done = ran(line, root, amplint)
        assert done.code in {0, 1}, (line, done.err)


@pytest.mark.parametrize("path", [*documents(), ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name)
def test_sentences_use_plain_words(path: Path) -> None:
    text = re.sub(r"<!-- (\w+) -->\n.*?<!-- /\1 -->", "", path.read_text("utf-8"), flags=re.DOTALL)  # made elsewhere
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`]+`", "", text)
    found = [f"{match.group()}: {line.strip()}" for line in text.splitlines() for match in _STOPS.finditer(line)]
    assert found == []


def _strings(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a module that users may read, with their lines; docstrings only where they are public."""
    tree = ast.parse(path.read_text("utf-8"))
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    private = set()
    for node in ast.walk(tree):
        if isinstance(node, owners) and isinstance(node.body[0], ast.Expr):
            is_public = not getattr(node, "name", "").startswith("_") and str(path).endswith(_PUBLIC)
            is_public |= isinstance(node, ast.Module) and path.name.startswith("amp")  # a rule's page
            private |= set() if is_public else {id(node.body[0].value)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in private:
            yield node.lineno, node.value


def _said(path: Path) -> Iterator[tuple[object, str]]:
    """What a file says to users, with the line of each text, or with its key in a table."""
    if path.suffix == ".py":
        yield from _strings(path)
    elif path.suffix == ".toml":
        yield from _values(tomllib.loads(path.read_text("utf-8")))
    elif path.suffix == ".json":
        yield from _values(json.loads(path.read_text("utf-8")))
    elif path.name == "nan.md":
        yield from enumerate(path.read_text("utf-8").splitlines(), 1)


def _values(of: object, key: str = "") -> Iterator[tuple[str, str]]:
    """The texts of a table, with their keys; not what others print or ask."""
    if isinstance(of, str):
        yield key, of
    elif isinstance(of, list):
        for each in of:
            yield from _values(each, key)
    elif isinstance(of, dict):
        for name, each in of.items():
            if name not in _OTHERS_SAY:
                yield from _values(each, name)


@pytest.mark.parametrize("name", _SAID_IN)
def test_what_the_program_says_uses_plain_words(name: str) -> None:
    package = ROOT / "amplint" / name
    paths = sorted(each for each in package.rglob("*") if each.is_file()) if package.is_dir() else [package]
    found = [
        f"{path.relative_to(ROOT)}:{row}: {match.group()}: {text.strip()[:80]}"
        for path in paths
        for row, text in _said(path)
        if " " in text.strip() and "(?:" not in text  # an expression, which nobody reads
        for match in (_STOPS_IN_FINDINGS if name in _FINDINGS_OF else _STOPS_IN_MESSAGES).finditer(_without_code(text))
    ]
    assert found == []


def _without_code(text: str) -> str:
    """What is said in a text, without the code in it and what it quotes."""
    return re.sub(r"```.*?```|`[^`\n]+`|\"[^\"\n]+\"", "`_`", text, flags=re.DOTALL)


def _said_in_snapshots() -> list[str]:
    return [line for path in _SNAPSHOTS for line in _SAID_IN_SNAPSHOT.findall(path.read_text("utf-8"))]


def test_findings_use_plain_words() -> None:
    """As they are printed, with names and lines filled in."""
    said = sorted(set(map(_without_code, _said_in_snapshots())))
    assert len(said) > 400
    assert [f"{match.group()}: {line}" for line in said for match in _STOPS_IN_FINDINGS.finditer(line)] == []


def test_findings_say_what_they_are_about() -> None:
    assert [
        f"{match.group()}: {line}" for line in _said_in_snapshots() if (match := _OPEN_IN_FINDINGS.search(line))
    ] == []


def test_messages_are_short() -> None:
    """Most fit on a line; what a long one quotes, or names of the same cause or in another file, counts as little."""
    messages = {line for line in _said_in_snapshots() if not re.match(r"(?:safe fix|unsafe fix|no fix|help): ", line)}
    apart = re.compile(r" \(which also fixes .*\)|^this runs line \d+ of \S+, where ")
    said = [len(apart.sub("", _without_code(each))) for each in sorted(messages)]
    assert len(said) > 200
    assert max(said) <= _LONGEST
    assert sum(said) / len(said) <= _USUAL


def test_every_page_is_in_the_navigation() -> None:
    shown = (ROOT / "mkdocs.yml").read_text("utf-8")
    for path in DOCS.rglob("*.md"):
        assert path.relative_to(DOCS).as_posix() in shown
