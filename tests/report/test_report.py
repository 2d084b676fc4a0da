from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint.base.findings import Applicability, Edit, Finding, Fix, Severity
from amplint.cli import main
from amplint.engine.result import Result
from amplint.report import Fixed, Report, render
from amplint.report.formats.diff import painted
from amplint.report.summary import diff_summary, statistics, summary
from amplint.report.text import linked
from amplint.sources.source import Source
from tests import ROOT
from tests.conftest import LEGACY, Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

SAFE = Fix(Applicability.SAFE, "Do it", (Edit(0, 1, "y"),))
UNSAFE = Fix(Applicability.UNSAFE, "Dare it", (Edit(0, 1, "y"),))
ADVICE = Fix(Applicability.DISPLAY, "Do it")
SHOWN = Fix(Applicability.DISPLAY, "Like this", (Edit(0, 1, "y"),))


def finding(start: int, end: int, *, code: str = "AMP401", **rest: Any) -> Finding:
    return Finding(start, end, code, "clip-without-unscale", rest.pop("severity", Severity.ERROR), "message", **rest)


def report(text: str, *findings: Finding, **rest: Any) -> Report:
    unsafe = rest.pop("unsafe", False)
    if fixed := rest.pop("fixed", 0):
        rest["made"] = (Fixed("dir/x.py", ((finding(0, 1).kind, fixed),)),)
    return Report((Result("dir/x.py", Source("dir/x.py", text), findings, unsafe=unsafe),), **rest)


def show(text: str, span: str, **rest: Any) -> list[str]:
    """The lines under the header and the arrow, for the place where `span` stands in `text`."""
    start = text.index(span)
    lines = render("full", report(text, finding(start, start + len(span), **rest))).splitlines()
    return lines[2:]


def test_full() -> None:
    text = "\n" * 9 + "x = clip(y)\n"
    assert render("full", report(text, finding(13, 17, fix=SAFE))).splitlines() == [
        "AMP401 [*] error: message",
        "  --> dir/x.py:10:5",
        "   |",
        "10 | x = clip(y)",
        "   |     ^^^^",
        "   |",
        "help: Do it",
        "",
    ]


@pytest.mark.parametrize(
    ("text", "span", "line", "carets"),
    [
        ("\tif x:\ty", "x", "    if x:    y", "       ^"),
        ("\tif x:\ty", "y", "    if x:    y", "             ^"),
        ("\tx", "\tx", "    x", "^^^^^"),
        # Wide and combining characters, as a terminal shows them.
        ("'世界' clip", "clip", "'世界' clip", "       ^^^^"),
        ("'世界' clip", "世", "'世界' clip", " ^^"),
        ("e\u0301 clip", "clip", "e\u0301 clip", "  ^^^^"),
        ("é clip", "clip", "é clip", "  ^^^^"),
        # What would act on the terminal, and what can't be written.
        ("\x1b[31m clip", "clip", "\ufffd[31m clip", "      ^^^^"),
        ("\u202e clip", "clip", "\ufffd clip", "  ^^^^"),
        ("\udc80 clip", "clip", "\ufffd clip", "  ^^^^"),
        ("\x0cclip", "clip", "\ufffdclip", " ^^^^"),
        # Of several lines, the first.
        ("f(\n  x)", "f(\n  x)", "f(", "^^"),
        ("f(\r\n  x)", "f(\r\n  x)", "f(", "^^"),
        ("x\n", "\n", "x", " ^"),
    ],
)
def test_carets(text: str, span: str, line: str, carets: str) -> None:
    assert show(text, span) == ["  |", f"1 | {line}", f"  | {carets}", "  |", ""]


def test_a_finding_without_a_line_has_no_excerpt() -> None:
    assert render("full", report("", finding(0, 0))) == "AMP401 error: message\n --> dir/x.py:1:1\n\n"


def test_long_lines_are_cut() -> None:
    text = "a" * 5000 + "clip" + "b" * 5000
    _, line, carets, *_ = show(text, "clip")
    assert line == "1 | …" + "a" * 80 + "clip" + "b" * 116
    assert carets == "  |  " + " " * 80 + "^^^^"
    _, line, carets, *_ = show(text, text)
    assert line == "1 | " + "a" * 200
    assert carets == "  | " + "^" * 200
    _, line, carets, *_ = show("ü" + text, "clip")
    assert carets == "  |  " + " " * 80 + "^^^^"


@given(st.text(max_size=300), st.data())
def test_no_text_breaks_the_layout(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    lines = render("full", report(text, finding(start, end))).split("\n")
    assert len(lines) in (4, 8)
    assert "\x1b" not in "".join(lines)
    assert len(lines) == 4 or re.fullmatch(r" +\|  *\^+", lines[4])


def test_advice() -> None:
    assert show("x", "x", fix=UNSAFE)[-3:-1] == [
        "help: Dare it",
        "note: this fix is unsafe: it may change what the program does; `--unsafe-fixes` applies it",
    ]
    assert show("x", "x", fix=ADVICE)[-2] == "help: by hand: do it"
    assert show("x", "x", fix=SHOWN)[-2] == "note: this fix is only shown, never applied"
    assert show("x", "x", withheld="it is too late")[-2] == "help: no fix: it is too late"


def test_concise_marks_what_the_flags_would_fix() -> None:
    def marked(fix: Fix | None, unsafe: bool) -> bool:
        text = render("concise", report("xyz", finding(1, 2, fix=fix), unsafe=unsafe))
        assert re.fullmatch(r"dir/x\.py:1:2: AMP401 (\[\*\] )?error: message\n", text)
        return "[*]" in text

    assert marked(SAFE, False)
    assert marked(SAFE, True)
    assert marked(UNSAFE, True)
    assert not any(marked(fix, False) for fix in (UNSAFE, ADVICE, SHOWN, None))
    assert not any(marked(fix, True) for fix in (ADVICE, SHOWN, None))


def test_github() -> None:
    text = "a\nb = c\n"
    note = finding(2, 3, severity=Severity.NOTE)._replace(message="50% of\r\nthis: a,b")
    made = Report((Result("a,b:c%.py", Source("", text), (finding(6, 7), note)),))
    here = f"{Path.cwd()}/a%2Cb%3Ac%25.py"
    assert render("github", made).splitlines() == [
        f"::error title=amplint (AMP401),file={here},line=2,col=5,endLine=2,endColumn=6"
        "::a,b:c%25.py:2:5: AMP401 message",
        f"::notice title=amplint (AMP401),file={here},line=2,col=1,endLine=2,endColumn=2"
        "::a,b:c%25.py:2:1: AMP401 50%25 of%0D%0Athis: a,b",
    ]
    assert render("github", report("x", finding(0, 1, severity=Severity.WARNING))).startswith("::warning title=")


def shape(value: object) -> object:
    """The keys, in their order, and the types of a JSON document."""
    if isinstance(value, dict):
        return [(key, shape(each)) for key, each in value.items()]
    if isinstance(value, list):
        return [shape(each) for each in value[:1]]
    return type(value).__name__


def without_version(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """JSON without what ruff's doesn't have."""
    ours = ("schema_version", "confidence", "unconfirmed", "withheld", "unsafe_fixable_count")
    return [{key: value for key, value in each.items() if key not in ours} for each in rows]


def test_json_has_all_that_ruff_prints(project: Write, amplint: Run) -> None:
    project({"ruffs.py": "import os\n", "old.py": LEGACY})
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--output-format=json", "ruffs.py"]
    theirs = json.loads(subprocess.run(ruff, capture_output=True, check=False).stdout)
    ours = json.loads(amplint("old.py", "--output-format=json").out)
    assert shape(without_version(ours)) == shape(theirs)
    assert amplint("ruffs.py", "--output-format=json").out == "[]\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["old.py", "--output-format=json"],
        ["old.py", "--output-format=json-lines"],
        ["old.py", "--statistics", "--output-format=json"],
        ["old.py", "--statistics", "--output-format=json-lines"],
        ["explain", "step() has already been called since the last update().", "--output-format=json"],
        ["explain", "--list", "--output-format=json"],
        ["rule", "AMP101", "--output-format=json"],
        ["rule", "AMP101", "AMP102", "--output-format=json"],
        ["config", "old.py", "--output-format=json"],
        ["verify", "old.py", "--output-format=json"],
    ],
    ids=" ".join,
)
def test_each_object_says_the_version_of_its_keys(project: Write, amplint: Run, arguments: list[str]) -> None:
    """It changes with the keys, and docs/linting.md says so: old programs read new output."""
    project({"old.py": LEGACY})
    out = amplint(*arguments).out
    read = [json.loads(line) for line in out.splitlines()] if arguments[-1].endswith("lines") else json.loads(out)
    objects = read if isinstance(read, list) else [read]
    assert objects
    assert {each["schema_version"] for each in objects} == {1}


def test_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "é = 1\r\nwith a, \\\r\n   b:\r\n"
    fix = Fix(Applicability.UNSAFE, "Dare it", (Edit(4, 5, "2\n"), Edit(7, 7, "#")))
    syntax = finding(0, 1, code="AMP001")
    one, other = json.loads(render("json", report(text, syntax, finding(12, 13, fix=fix))))
    assert (one["noqa_row"], one["fix"], one["cell"]) == (None, None, None)
    assert one["url"] == "https://amplint.github.io/amplint/rules/AMP001/"
    assert other == {
        "cell": None,
        "code": "AMP401",
        "confidence": "certain",
        "end_location": {"column": 7, "row": 2},
        "filename": f"{tmp_path}/dir/x.py",
        "fix": {
            "applicability": "unsafe",
            "edits": [
                {"content": "2\n", "location": {"row": 1, "column": 5}, "end_location": {"row": 1, "column": 6}},
                {"content": "#", "location": {"row": 2, "column": 1}, "end_location": {"row": 2, "column": 1}},
            ],
            "message": "Dare it",
        },
        "location": {"column": 6, "row": 2},
        "message": "message",
        "name": "clip-without-unscale",
        # A comment after the backslash in line 2 would be an error.
        "noqa_row": 3,
        "schema_version": 1,
        "severity": "error",
        "unconfirmed": None,
        "url": "https://amplint.github.io/amplint/rules/AMP401/",
        "withheld": None,
    }


def test_json_advice_has_no_edits() -> None:
    (one,) = json.loads(render("json", report("x", finding(0, 1, fix=ADVICE))))
    assert one["fix"] == {"applicability": "display", "message": "Do it", "edits": []}


REFUSALS = {"withheld": "the fix would replace a comment", "unconfirmed": "no training step contains this code"}


@pytest.mark.parametrize("given", [{}, *({key: why} for key, why in REFUSALS.items())], ids=str)
def test_programs_are_told_why_there_is_no_fix(given: dict[str, str]) -> None:
    made = report("x", finding(0, 1, **given))
    (one,) = json.loads(render("json", made))
    assert {key: one[key] for key in REFUSALS} == {**dict.fromkeys(REFUSALS), **given}
    (result,) = json.loads(render("sarif", made))["runs"][0]["results"]
    assert result["properties"] == {"confidence": "certain", **given}


def test_the_keys_of_json_are_documented() -> None:
    (one,) = json.loads(render("json", report("x", finding(0, 1))))
    section = (ROOT / "docs/linting.md").read_text().partition("### JSON")[2].partition("\n## ")[0]
    listed = [
        each for line in re.findall(r"^\| (`.+?) \|", section, re.MULTILINE) for each in re.findall("`(.+?)`", line)
    ]
    assert sorted(listed) == sorted(one)


def test_json_stdin_keeps_its_dash() -> None:
    (one,) = json.loads(render("json", Report((Result("-", Source("-", "x"), (finding(0, 1),)),))))
    assert one["filename"] == "-"


def test_statistics() -> None:
    many = [finding(0, 1, fix=SAFE if number % 2 else UNSAFE) for number in range(10)]
    few = [
        finding(0, 1, code=code, fix=fix)
        for code, fix in (("AMP102", SAFE), ("AMP101", None), ("AMP103", UNSAFE), ("AMP104", SAFE), ("AMP104", None))
    ]
    made = report("x", *few, *many)
    assert statistics(made, "concise").splitlines() == [
        "10\tAMP401\t[-] clip-without-unscale (5 fixable, 5 more with `--unsafe-fixes`)",
        " 2\tAMP104\t[-] clip-without-unscale (1 fixable)",
        " 1\tAMP101\t[ ] clip-without-unscale",
        " 1\tAMP102\t[*] clip-without-unscale",
        " 1\tAMP103\t[ ] clip-without-unscale (1 fixable with `--unsafe-fixes`)",
    ]
    first = json.loads(statistics(made, "json"))[0]
    assert first == {
        "code": "AMP401",
        "name": "clip-without-unscale",
        "count": 10,
        "fixable": False,
        "fixable_count": 5,
        "unsafe_fixable_count": 5,
        "schema_version": 1,
    }
    # Without anything to fix there is no column for it.
    assert statistics(report("x", few[1]), "full") == "1\tAMP101\tclip-without-unscale\n"
    assert statistics(report("x", few[2]), "full") == (
        "1\tAMP103\tclip-without-unscale (1 fixable with `--unsafe-fixes`)\n"
    )
    assert statistics(report("x"), "full") == ""


@pytest.mark.parametrize("arguments", [["--statistics"], ["--statistics", "--output-format=json"]])
def test_statistics_are_like_ruffs(project: Write, amplint: Run, arguments: list[str]) -> None:
    project({"ruffs.py": "import os\nimport sys\nprint(x)\n", "old.py": LEGACY * 2 + "print(sys)\n"})
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select=F", *arguments, "ruffs.py"]
    theirs = subprocess.run(ruff, capture_output=True, check=False, text=True).stdout
    ours = amplint("old.py", *arguments).out
    number = re.compile(r"\b\d+\b")
    assert number.sub("N", theirs.splitlines()[0]).replace("F401", "AMP101").replace(
        "unused-import", "deprecated-autocast"
    ) == number.sub("N", ours.splitlines()[0])
    if "json" in arguments[-1]:
        assert shape(without_version(json.loads(ours))) == shape(json.loads(theirs))


@pytest.mark.parametrize(
    ("findings", "rest", "expected"),
    [
        ([], {}, "All checks passed!\n"),
        ([], {"errors": ("a.py: is gone",)}, ""),  # nothing found doesn't mean all is well
        ([None], {}, "Found 1 error.\n"),
        ([SAFE, SAFE], {}, "Found 2 errors.\n[*] 2 fixable with `--fix`.\n"),
        ([UNSAFE], {}, "Found 1 error.\n1 fixable with `--fix --unsafe-fixes`.\n"),
        (
            [SAFE, UNSAFE, UNSAFE, ADVICE],
            {},
            "Found 4 errors.\n[*] 1 fixable with `--fix`, 2 more with `--unsafe-fixes`.\n",
        ),
        ([SAFE, UNSAFE], {"unsafe": True}, "Found 2 errors.\n[*] 2 fixable with `--fix`.\n"),
        ([], {"fixed": 1}, "Found 1 error (1 fixed, 0 remaining).\n"),
        ([None, None], {"fixed": 3}, "Found 5 errors (3 fixed, 2 remaining).\n"),
    ],
)
def test_summary(findings: list[Fix | None], rest: dict[str, Any], expected: str) -> None:
    assert summary(report("x", *(finding(0, 1, code="AMP101", fix=fix) for fix in findings), **rest)) == expected


_UNSEEN = "AMP101"  # no run can show it


@pytest.mark.parametrize(
    ("findings", "said"),
    [
        ([("AMP401", None)], "`amplint verify FILE` checks the finding on real tensors."),
        (
            [("AMP401", None), ("AMP401", SAFE)],
            "[*] 1 fixable with `--fix`; `amplint verify FILE` checks all 2 findings on real tensors.",
        ),
        ([("AMP401", None), (_UNSEEN, None)], "`amplint verify FILE` checks 1 of the 2 findings on real tensors."),
        # Unsafe fixes are tried only where they are asked for.
        (
            [("AMP401", UNSAFE)],
            "1 fixable with `--fix --unsafe-fixes`; "
            "`amplint verify --unsafe-fixes FILE` checks the finding on real tensors.",
        ),
        (
            [("AMP401", UNSAFE), ("AMP401", None), (_UNSEEN, None)],
            "1 fixable with `--fix --unsafe-fixes`; "
            "`amplint verify --unsafe-fixes FILE` checks 2 of the 3 findings on real tensors.",
        ),
        # The unsafe fix is of one that no run shows.
        (
            [("AMP401", SAFE), (_UNSEEN, UNSAFE)],
            "[*] 1 fixable with `--fix`, 1 more with `--unsafe-fixes`; "
            "`amplint verify FILE` checks 1 of the 2 findings on real tensors.",
        ),
        ([(_UNSEEN, SAFE)], "[*] 1 fixable with `--fix`."),
        ([("AMP401", SHOWN)], "`amplint verify FILE` checks the finding on real tensors."),
    ],
)
def test_summary_leads_to_the_proof_where_there_can_be_one(findings: list[tuple[str, Fix | None]], said: str) -> None:
    found = (finding(0, 1, code=code, fix=fix) for code, fix in findings)
    assert summary(report("x", *found)).splitlines()[1:] == [said]


def test_summary_names_no_command_for_what_has_no_file() -> None:
    assert "verify" not in summary(Report((Result("-", Source("-", "x"), (finding(0, 1),)),)))


def test_diff_summary() -> None:
    assert diff_summary(report("x")) == ""
    assert diff_summary(report("x", finding(0, 1))) == (
        "No fixes available: correct 1 finding by hand (run without `--diff` to list them).\n"
    )
    assert diff_summary(report("x", finding(0, 1, fix=UNSAFE))) == (
        "No findings would be fixed (1 fix available with `--unsafe-fixes`).\n"
    )
    assert diff_summary(report("x", fixed=2)) == "Would fix 2 errors.\n"
    assert diff_summary(report("x", finding(0, 1, fix=UNSAFE), finding(0, 1, fix=UNSAFE), fixed=1)) == (
        "Would fix 1 error (2 additional fixes available with `--unsafe-fixes`).\n"
    )


# What says that a terminal shows links, or that nothing reads colours.
_SAID_BY_TERMINALS = {
    *("NO_COLOR", "FORCE_COLOR", "CI", "TERM", "TERM_PROGRAM", "VTE_VERSION", "WT_SESSION", "KONSOLE_VERSION")
}


def _environment(**said: str) -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in _SAID_BY_TERMINALS} | {"TERM": "xterm"} | said


def _on_a_terminal(command: list[str], environment: dict[str, str]) -> bytes:
    """What a command that finds something writes to a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 4096):
                shown += chunk
        except OSError:  # Linux says so at the end of a terminal
            pass
    os.close(ours)
    assert process.returncode == 1
    return shown


@pytest.mark.parametrize(
    ("said", "coloured"),
    [({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colour_is_for_terminals(project: Write, said: dict[str, str], coloured: bool) -> None:
    project({"old.py": LEGACY})
    command = [sys.executable, "-m", "amplint", "old.py"]
    environment = _environment(**said)
    piped = subprocess.run(command, capture_output=True, check=False, env=environment).stdout
    assert b"\033" not in piped
    shown = _on_a_terminal(command, environment)
    assert (b"\033[" in shown) == coloured
    assert re.sub(rb"\033\[[\d;]*m", b"", shown).replace(b"\r\n", b"\n") == piped


_LINK = b"\033]8;;https://amplint.github.io/amplint/rules/AMP101/\033\\\033[1;33mAMP101\033[0m\033]8;;\033\\ "


@pytest.mark.parametrize(
    ("said", "links"),
    [
        ({}, False),
        ({"TERM_PROGRAM": "iTerm.app"}, True),
        ({"TERM": "xterm-kitty"}, True),
        ({"VTE_VERSION": "6800"}, True),
        ({"VTE_VERSION": "4205"}, False),
        ({"WT_SESSION": "1"}, True),
        ({"WT_SESSION": "1", "NO_COLOR": "1"}, False),
        ({"WT_SESSION": "1", "TERM": "dumb"}, False),
        ({"WT_SESSION": "1", "CI": "true"}, False),
    ],
)
@pytest.mark.parametrize("form", ["full", "concise", "grouped"])
def test_codes_are_links_on_terminals_that_can(
    project: Write, monkeypatch: pytest.MonkeyPatch, said: dict[str, str], links: bool, form: str
) -> None:
    project({"old.py": LEGACY})
    for name in _SAID_BY_TERMINALS:
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"TERM": "xterm"} | said).items():
        monkeypatch.setenv(name, value)
    ours, theirs = pty.openpty()
    with open(theirs, "w") as terminal, monkeypatch.context() as changed:
        changed.setattr(sys, "stdout", terminal)
        assert main(["--output-format", form, "old.py"]) == 1
        terminal.flush()
        assert (_LINK in os.read(ours, 4096)) == links
    os.close(ours)


@pytest.mark.parametrize(("said", "links"), [({}, False), ({"FORCE_COLOR": "1"}, True)])
def test_codes_are_links_in_a_pipe_only_where_colour_is_forced(
    project: Write, said: dict[str, str], links: bool
) -> None:
    project({"old.py": LEGACY})
    command = [sys.executable, "-m", "amplint", "old.py"]
    piped = subprocess.run(command, capture_output=True, check=False, env=_environment(WT_SESSION="1", **said)).stdout
    assert (_LINK in piped) == links


def test_a_plugins_code_is_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WT_SESSION", "1")
    for name in ("CI", "TERM"):
        monkeypatch.delenv(name, raising=False)
    assert linked("X", "AMP101", colour=True) != "X"
    assert linked("X", "XYZ001", colour=True) == "X"
    assert linked("X", "AMP101", colour=False) == "X"


def test_a_diff_in_colours() -> None:
    diff = b"--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n same\n-old\r\n+new\r\n\\ No newline at end of file\n"
    shown = painted(diff)
    assert b"\033[31m-old\033[0m\r\n\033[32m+new\033[0m\r\n" in shown
    assert b"\n same\n" in shown
    assert re.sub(rb"\033\[[\d;]*m", b"", shown) == diff
