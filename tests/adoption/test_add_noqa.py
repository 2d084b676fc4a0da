"""`--add-noqa`: where the comments stand, what they change, and that nothing is found behind them."""

from __future__ import annotations

import ast
import io
import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amplint import cli
from amplint.adoption.add_noqa import Silenced, refused, silence
from amplint.config.selection import SettingsError
from amplint.sources.comments import layout
from amplint.sources.load import load
from amplint.sources.source import LINE_END, Source
from tests import ROOT
from tests.conftest import LEGACY, MODERN, Ran
from tests.suppression.test_suppressions import EVERYTHING

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

FIXTURES = sorted((ROOT / "fixtures").glob("AMP*/*/bad.py"))
OLD = "torch.cuda.amp.GradScaler()"


def added(text: str, reason: str = "") -> str:
    """A text whose findings are silenced, without its first line, which imports torch."""
    done = silence(f"import torch\n{text}".encode(), "a.py", EVERYTHING, reason)
    assert done.result.findings == ()
    again = silence(done.data, "a.py", EVERYTHING, reason)
    assert (again.data, again.comments, again.findings) == (done.data, 0, Counter())
    return done.data.decode().partition("\n")[2]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{OLD}\n", f"{OLD}  # noqa: AMP102\n"),
        (OLD, f"{OLD}  # noqa: AMP102"),
        (f"{OLD} \n", f"{OLD}  # noqa: AMP102\n"),
        (f"{OLD}     \n", f"{OLD}     # noqa: AMP102\n"),
        (f"{OLD}\t\n", f"{OLD}\t  # noqa: AMP102\n"),
        (f"{OLD}\x0c\n", f"{OLD}\x0c  # noqa: AMP102\n"),
        (f"{OLD}\r\nx = 1\r\n", f"{OLD}  # noqa: AMP102\r\nx = 1\r\n"),
        (f"x = '\\u2028'\r{OLD}\rx = 1\r", f"x = '\\u2028'\r{OLD}  # noqa: AMP102\rx = 1\r"),
        (f"if x:\n\t{OLD}\n", f"if x:\n\t{OLD}  # noqa: AMP102\n"),
        (f"{OLD}  # keep\n", f"{OLD}  # keep  # noqa: AMP102\n"),
        (f"{OLD}  # type: ignore\n", f"{OLD}  # type: ignore  # noqa: AMP102\n"),
        (f"{OLD}; {OLD}\n", f"{OLD}; {OLD}  # noqa: AMP102\n"),
        (f"x = [\n    {OLD},\n]\n", f"x = [\n    {OLD},  # noqa: AMP102\n]\n"),
        (f"x = [\n    {OLD},\n    {OLD},\n]\n", f"x = [\n    {OLD},  # noqa: AMP102\n    {OLD},\n]\n"),
        (f"x = [\n    {OLD},\n    # noqa: AMP102\n]\n", f"x = [\n    {OLD},\n    # noqa: AMP102\n]\n"),
        (f"x = {OLD} + \\\n    1 + \\\n    2\n", f"x = {OLD} + \\\n    1 + \\\n    2  # noqa: AMP102\n"),
        (f"{OLD}, '''\n# no comment\n'''\n", f"{OLD}, '''\n# no comment\n'''  # noqa: AMP102\n"),
        (f"{OLD}, '\\\n'\n", f"{OLD}, '\\\n'  # noqa: AMP102\n"),
        (f"x = ({OLD}, '''\n''', [\n])\n", f"x = ({OLD}, '''\n''', [  # noqa: AMP102\n])\n"),
        (f"x = f'''{{{OLD}}}\n'''\n", f"x = f'''{{{OLD}}}\n'''  # noqa: AMP102\n"),
        (f"x = f'''{{\n{OLD}\n}}\n'''\n", f"x = f'''{{\n{OLD}\n}}\n'''  # noqa: AMP102\n"),
        (f"if {OLD}:\n    pass\n", f"if {OLD}:  # noqa: AMP102\n    pass\n"),
        (f"@{OLD}\ndef f(): pass\n", f"@{OLD}  # noqa: AMP102\ndef f(): pass\n"),
        (f"def f(\n    x={OLD}, \\\n): pass\n", f"def f(\n    x={OLD}, \\\n): pass  # noqa: AMP102\n"),
        (f"{OLD}  # noqa: E501\n", f"{OLD}  # noqa: E501, AMP102\n"),
        (f"{OLD}  # noqa: E501 - long\n", f"{OLD}  # noqa: E501, AMP102 - long\n"),
        (f"{OLD}  # noqa:E501,W291 # why\n", f"{OLD}  # noqa:E501,W291,AMP102 # why\n"),
        (f"{OLD}  # noqa: E501 W291\n", f"{OLD}  # noqa: E501 W291 AMP102\n"),
        (f"{OLD}  # noqa: e501 why\n", f"{OLD}  # noqa: e501, AMP102 why\n"),
        (f"{OLD}  # noqa: E501,\n", f"{OLD}  # noqa: E501, AMP102,\n"),
        (f"{OLD}  # amplint: ignore[E501]\n", f"{OLD}  # amplint: ignore[E501, AMP102, AMP002]\n"),
        (f"{OLD}  # amplint: ignore[]\n", f"{OLD}  # amplint: ignore[]  # noqa: AMP102, AMP002\n"),
        ("x = 1  # noqa: AMP102\n", "x = 1  # noqa: AMP102, AMP002\n"),
        ("# noqa: AMP102\nx = 1\n", "# noqa: AMP102, AMP002\nx = 1\n"),
        ("# amplint: off\nx = 1\n", "# amplint: off  # noqa: AMP002\nx = 1\n"),
        ("x = 1\n# amplint: on", "x = 1\n# amplint: on  # noqa: AMP002"),
        ("x = 1  # amplint: off\n", "x = 1  # amplint: off  # noqa: AMP002\n"),
    ],
)
def test_where_comments_stand(before: str, after: str) -> None:
    assert added(before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (OLD, f"{OLD}  # noqa: AMP102 - see #12"),
        (f"{OLD}  # noqa: E501", f"{OLD}  # noqa: E501, AMP102 - see #12"),
        (f"{OLD}  # noqa: E501  # why", f"{OLD}  # noqa: E501, AMP102 - see #12  # why"),
        (f"{OLD}  # noqa: E501 is long", f"{OLD}  # noqa: E501, AMP102 is long"),
        (f"{OLD}  # amplint: ignore[AMP4]", f"{OLD}  # amplint: ignore[AMP4, AMP102, AMP002] see #12"),
        (f"{OLD}  # amplint: ignore[AMP4] why", f"{OLD}  # amplint: ignore[AMP4, AMP102, AMP002] why"),
    ],
)
def test_a_reason_is_given_where_there_is_none(before: str, after: str) -> None:
    assert added(before, "see #12") == after


@pytest.mark.parametrize("reason", ["see #12", "AMP401", "E501 too", "- x", "é 世", "[AMP102]", "a, b", "off"])
def test_reasons(reason: str) -> None:
    assert refused(reason) is None
    assert added(OLD, reason) == f"{OLD}  # noqa: AMP102 - {reason}"


@pytest.mark.parametrize(
    "reason",
    ["a\nb", "a\rb", "a\x1bb", "a # noqa", "a # type: ignore", "x # amplint: off", "coding: latin-1", "a\udcff"],
)
def test_what_is_no_reason(reason: str) -> None:
    assert refused(reason)


def test_encodings() -> None:
    for encoding, reason in (("latin-1", "é"), ("cp1252", "€"), ("utf-8", "世"), ("shift_jis", "世")):
        before = f"# coding: {encoding}\r\nimport torch\r\nx = 'ｱ'; {OLD}".replace("ｱ", reason)
        done = silence(before.encode(encoding), "a.py", EVERYTHING, reason)
        assert done.data.decode(encoding) == f"{before}  # noqa: AMP102 - {reason}"
    bom = silence(b"\xef\xbb\xbfimport torch\n" + OLD.encode(), "a.py", EVERYTHING, "")
    assert bom.data == b"\xef\xbb\xbfimport torch\n" + OLD.encode() + b"  # noqa: AMP102"
    with pytest.raises(SettingsError, match=r"a\.py: iso8859-1 can't write '世'"):
        silence(f"# coding: latin-1\nimport torch\n{OLD}".encode(), "a.py", EVERYTHING, "世")


def test_what_is_not_checked_is_left_alone() -> None:
    data = f"import torch\n{OLD}\nx = (\n".encode()
    done = silence(data, "a.py", EVERYTHING, "")
    assert [each.code for each in done.result.findings] == ["AMP001"]
    assert done == Silenced(data, 0, Counter(), done.result)


def disturbed(text: str, choose: random.Random) -> bytes:
    """A program that means the same, written as few people would."""
    lines = [line for line in LINE_END.split(text) if "# expect" not in line or choose.random() < 0.8]
    if choose.random() < 0.5:
        lines = [line.replace("    ", "\t") for line in lines]
    ends = choose.choice([["\n"], ["\r\n"], ["\r"], ["\n", "\r\n", "\r"]])
    tails = choose.choice([[""], ["", " ", "\t", "  # why", "  # noqa: E501", "  # amplint: ignore[AMP9]", " \x0c"]])
    room = layout("\n".join(lines)).room
    pieces = []
    for at, line in enumerate(lines):
        plain = at + 1 in room
        end = choose.choice(ends) if at + 1 < len(lines) else ""
        pieces.append(line + (choose.choice(tails) if plain else "") + end)
        if plain and end and choose.random() < 0.05:
            pieces.append(f"\x0c{end}")
    new = "".join(pieces)
    if choose.random() < 0.3 and new.isascii():
        return f"# -*- coding: cp1252 -*-{ends[0]}# é{ends[0]}{new}".encode("cp1252")
    return (b"\xef\xbb\xbf" if choose.random() < 0.2 else b"") + new.encode()


def without_comments(source: Source) -> list[str]:
    """The lines of a text, each with its end and without its comment."""
    columns = {each.row: each.column for each in layout(source.text).comments}
    lines = []
    for row, start in enumerate(source.line_starts, 1):
        end = source.line_starts[row] if row < len(source.line_starts) else len(source.text)
        line = source.line(row)
        lines.append(line[: columns.get(row)].rstrip(" ") + source.text[start + len(line) : end])
    return lines


@settings(max_examples=12)
@given(st.sampled_from(FIXTURES), st.integers(0, 2**32), st.sampled_from(["", "old code", "AMP4, E501: see #12"]))
def test_nothing_but_comments_differs_and_nothing_is_found(path: Path, seed: int, reason: str) -> None:
    data = disturbed(path.read_text("utf-8"), random.Random(seed))
    done = silence(data, "a.py", EVERYTHING, reason)
    assert not [each for each in done.result.findings if each.code != "AMP001"]
    if done.data == data:
        assert done.comments == 0
        return
    before, after = load(data, "a.py"), load(done.data, "a.py")
    assert ast.dump(ast.parse(before.text)) == ast.dump(ast.parse(after.text))
    assert (before.encoding, before.bom) == (after.encoding, after.bom)
    assert without_comments(before) == without_comments(after)
    changed = [row for row in range(1, len(before.line_starts) + 1) if before.line(row) != after.line(row)]
    assert len(changed) == done.comments
    for row in changed:
        assert after.line(row).count("# noqa: AMP") + after.line(row).count("# noqa: E501") <= 1
    assert silence(done.data, "a.py", EVERYTHING, reason).data == done.data


def test_adopted_in_one_go(project: Write, amplint: Run) -> None:
    root = project({"old.py": LEGACY, "a/b.py": LEGACY * 2, "new.py": MODERN})
    assert amplint("--add-noqa", ".") == (0, "Silenced 3 warnings by 3 comments in 2 files.\n", "")
    assert (root / "old.py").read_text() == LEGACY.replace("autocast():", "autocast():  # noqa: AMP101")
    assert amplint(".") == (0, "All checks passed!\n", "")
    assert amplint("--add-noqa", ".") == (0, "All checks passed!\n", "")


def test_the_reason_stands_behind_an_equals_sign(project: Write, amplint: Run) -> None:
    root = project({"old.py": LEGACY})
    assert amplint("--add-noqa", "no reason").err == "amplint: error: no reason: no such file or directory\n"
    assert amplint("--add-noqa= of old ", "old.py").code == 0
    assert "autocast():  # noqa: AMP101 - of old\n" in (root / "old.py").read_text()


def test_it_can_be_shown_first(project: Write, amplint: Run) -> None:
    root = project({"old.py": LEGACY})
    ran = amplint("--add-noqa", "--diff")
    assert (ran.code, ran.err) == (1, "Would silence 1 warning by 1 comment in 1 file.\n")
    assert "+    with torch.cuda.amp.autocast():  # noqa: AMP101\n" in ran.out
    assert (root / "old.py").read_text() == LEGACY
    assert amplint("--add-noqa", "--diff", "--quiet").err == ""


def test_what_is_left_is_reported(project: Write, amplint: Run) -> None:
    project({"old.py": LEGACY, "broken.py": "torch.cuda.amp.autocast(\n"})
    ran = amplint("--add-noqa", "--output-format=concise")
    assert ran.code == 1
    assert "broken.py:1:24: AMP001" in ran.out
    assert ran.out.endswith("Silenced 1 warning by 1 comment in 1 file.\nFound 1 error.\n")


def test_programs_read_what_is_left_and_people_the_rest(project: Write, amplint: Run) -> None:
    project({"old.py": LEGACY})
    assert amplint("--add-noqa", "--output-format=json") == (0, "[]\n", "Silenced 1 warning by 1 comment in 1 file.\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--add-noqa", "--fix"],
            "--add-noqa can't be combined with --fix: fix first, then silence the remaining findings",
        ),
        (
            ["--add-noqa=a # noqa"],
            "--add-noqa: 'a # noqa' can't be the reason in a comment: it would start another comment",
        ),
    ],
)
def test_what_does_not_go(project: Write, amplint: Run, arguments: list[str], message: str) -> None:
    root = project({"old.py": LEGACY})
    assert amplint(*arguments) == (2, "", f"amplint: error: {message}\n")
    assert (root / "old.py").read_text() == LEGACY


def test_a_file_whose_encoding_lacks_the_reason_is_one_line(project: Write, amplint: Run) -> None:
    root = project({"a.py": b"# coding: ascii\n" + LEGACY.encode(), "b.py": LEGACY})
    ran = amplint("--add-noqa=世")
    assert (ran.code, ran.err) == (2, "amplint: error: a.py: ascii can't write '世'\n")
    assert (root / "a.py").read_bytes() == b"# coding: ascii\n" + LEGACY.encode()
    assert "noqa: AMP101 - 世" in (root / "b.py").read_text("utf-8")


def test_standard_input(
    project: Write, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    project({})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LEGACY.encode())))
    assert cli.main(["--add-noqa", "-"]) == 0
    out, err = capfdbinary.readouterr()
    assert out.decode() == LEGACY.replace("autocast():", "autocast():  # noqa: AMP101")
    assert err.decode() == "Silenced 1 warning by 1 comment in 1 file.\n"


def test_many_files_in_processes(project: Write, amplint: Run) -> None:
    project({f"{number}.py": LEGACY for number in range(40)})
    assert amplint("--add-noqa", "-j2").out == "Silenced 40 warnings by 40 comments in 40 files.\n"
    assert amplint("-j2").out == "All checks passed!\n"


def test_notebooks(project: Write, amplint: Run) -> None:
    cells = [["%time x = 1\n", "import torch\n", f"{OLD}"], ["!ls\n", f"{OLD}; x"], ["# amplint: on"]]
    book = {
        "cells": [
            {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": lines}
            for lines in cells
        ],
        "metadata": {"kernelspec": {"language": "python", "name": "python3", "display_name": "é"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    root = project({"a.ipynb": json.dumps(book, indent=1)})
    assert amplint("--add-noqa").out == "Silenced 3 warnings by 3 comments in 1 file.\n"
    written = json.loads((root / "a.ipynb").read_text("utf-8"))
    assert [each["source"] for each in written["cells"]] == [
        ["%time x = 1\n", "import torch\n", f"{OLD}  # noqa: AMP102"],
        ["!ls\n", f"{OLD}; x  # noqa: AMP102"],
        ["# amplint: on  # noqa: AMP002"],
    ]
    assert amplint() == (0, "All checks passed!\n", "")


def test_one_run_silences_all_findings_of_one_cause() -> None:
    steps = "".join(
        f"        a{number} = F.mse_loss(m(x), y)\n        scaler.scale(a{number}).backward()\n        scaler.step(o)\n"
        for number in range(4)
    )
    text = f"import torch.nn.functional as F\ndef f(m, o, scaler, x, y):\n    with torch.autocast('cuda'):\n{steps}"
    assert added(f"{text}        scaler.update()\n").count("AMP302") == 4


def test_what_cannot_be_written_is_still_reported(
    project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, old: bytes, new: bytes) -> None:
        raise PermissionError(13, "Permission denied", path)

    root = project({"old.py": LEGACY})
    monkeypatch.setattr("amplint.files.atomic_write.replace", refuse)
    ran = amplint("--add-noqa", "--output-format=concise")
    assert (ran.code, ran.err) == (2, "amplint: error: old.py: Permission denied\n")
    assert ran.out.startswith("old.py:5:10: AMP101")
    assert "Silenced" not in ran.out
    assert (root / "old.py").read_text() == LEGACY


def test_examples_are_left_as_they_are(project: Write, amplint: Run) -> None:
    text = f"It's an example:\n\n```python\nimport torch\n{OLD}\n```\n"
    program = (
        f'def f():\n    """Doc.\n\n    >>> import torch\n    >>> {OLD}\n    """\n    return {OLD}\n\n\nimport torch\n'
    )
    valid = f"~~~python\nx = {OLD}\n"  # as a program, too
    root = project({"a.md": text, "b.py": program, "c.md": valid})
    ran = amplint("--docs", "--add-noqa", "--output-format=concise")
    assert (ran.code, ran.out.count(": AMP102")) == (1, 3)
    assert "Silenced 1 warning by 1 comment in 1 file.\nFound 3 warnings.\n" in ran.out
    assert (root / "c.md").read_text() == valid
    assert (root / "a.md").read_text() == text
    assert (root / "b.py").read_text() == program.replace(f"return {OLD}", f"return {OLD}  # noqa: AMP102")
