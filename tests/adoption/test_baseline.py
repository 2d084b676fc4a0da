"""`--baseline`: what is held back, what is new, what is stale, and the file itself."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplint import cli
from amplint.engine.file import fix_bytes
from tests.conftest import LEGACY, MODERN, UNSAFE, Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

FILE = "--baseline=amp.json"
CONCISE = "--output-format=concise"
SECOND = LEGACY.removeprefix("import torch\n").replace("run", "again").replace("model", "other")
BROKEN = "torch.cuda.amp.autocast(\n"


NEEDS_FILE = (
    "--write-baseline needs --baseline FILE or `baseline` in the configuration, and works only on files and without "
    "--diff"
)


def entries(root: Path) -> list[list[str]]:
    """The paths and codes of a baseline."""
    return [[each["path"], each["code"]] for each in json.loads((root / "amp.json").read_text())["findings"]]


def test_only_what_is_new_is_reported(project: Write, amplint: Run) -> None:
    root = project({"old.py": LEGACY, "a/b.py": LEGACY, "new.py": MODERN})
    assert amplint(FILE, "--write-baseline") == (0, "amp.json lists 2 findings in 2 files (2 new, 0 gone).\n", "")
    assert amplint(FILE) == (0, "All checks passed!\n2 findings not reported: listed in amp.json.\n", "")
    assert amplint(FILE, "new.py") == (0, "All checks passed!\n", "")
    (root / "new.py").write_text(LEGACY)
    ran = amplint(FILE, CONCISE)
    assert ran.code == 1
    assert ran.out.startswith("new.py:5:10: AMP101")
    assert ran.out.endswith("[*] 1 fixable with `--fix`.\n2 findings not reported: listed in amp.json.\n")
    assert "Found 1 warning.\n" in ran.out


def test_lines_may_move_and_be_indented(project: Write, amplint: Run) -> None:
    root = project({"old.py": LEGACY})
    amplint(FILE, "--write-baseline")
    moved = LEGACY.replace("\n\n\ndef", "\n\nx = 1\n\n\ndef").replace("    ", "\t").replace("\n", "\r\n")
    (root / "old.py").write_text(f"import os\r\n{moved}", newline="")
    assert amplint(FILE).out.endswith("1 finding not reported: listed in amp.json.\n")
    # A line that was changed is looked at again.
    (root / "old.py").write_text(LEGACY.replace("autocast()", "autocast(True)"))
    ran = amplint(FILE, CONCISE)
    assert ran.code == 1
    assert ran.out.endswith("amp.json lists 1 entry that no longer occurs; run with --write-baseline to remove it.\n")


def test_of_findings_that_look_alike_as_many_are_held_back_as_there_were(project: Write, amplint: Run) -> None:
    again = SECOND.replace("other", "model")
    root = project({"old.py": LEGACY + again})
    amplint(FILE, "--write-baseline")
    assert len(entries(root)) == 2
    (root / "old.py").write_text(LEGACY + again + again)
    assert amplint(FILE, CONCISE).out.startswith("old.py:15:10: AMP101")
    (root / "old.py").write_text(LEGACY)
    assert "amp.json lists 1 entry that no longer occurs" in amplint(FILE).out


def test_from_any_directory(project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project({"src/a/old.py": LEGACY, "ci/here": "", "src/b.py": MODERN})
    assert amplint("--baseline=ci/amp.json", "--write-baseline", "src").code == 0
    assert '"path": "../src/a/old.py"' in (root / "ci/amp.json").read_text()
    for place, baseline, path in (
        ("src", "../ci/amp.json", "."),
        ("src/a", "../../ci/amp.json", "old.py"),
        ("ci", "amp.json", "../src/a/old.py"),
        (".", root / "ci/amp.json", root / "src"),
    ):
        monkeypatch.chdir(root / place)
        assert amplint("--baseline", baseline, path).out.startswith(
            "All checks passed!\n1 finding not reported: listed in "
        )


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_through_links(project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project({"real/old.py": LEGACY})
    (root / "link").symlink_to("real")
    amplint("--baseline=real/amp.json", "--write-baseline", "real")
    monkeypatch.chdir(root / "link")
    assert amplint(FILE, root / "link" / "old.py").out.startswith("All checks passed!\n1 finding not reported")
    monkeypatch.chdir(root)
    assert amplint("--baseline=link/amp.json", "real").out.startswith("All checks passed!\n1 finding not reported")


def test_the_file_is_sorted_stable_and_readable(project: Write, amplint: Run) -> None:
    root = project({"z.py": LEGACY, "ü/ 世.py": LEGACY + "torch.cuda.amp.GradScaler()\n", "a.py": LEGACY})
    amplint(FILE, "--write-baseline", "z.py", "ü", "a.py")
    text = (root / "amp.json").read_text()
    assert entries(root) == [["a.py", "AMP101"], ["z.py", "AMP101"], ["ü/ 世.py", "AMP101"], ["ü/ 世.py", "AMP102"]]
    lines = text.splitlines()
    assert lines[:3] == ["{", '  "amplint-baseline": 1,', '  "findings": [']
    assert lines[3].startswith('    {"path": "a.py", "code": "AMP101", "fingerprint": "')
    assert lines[7:] == ["  ]", "}"]
    assert text.endswith("}\n")
    amplint(FILE, "--write-baseline", "-j1")
    assert (root / "amp.json").read_text() == text
    # One more is one line more.
    (root / "b.py").write_text(LEGACY)
    assert amplint(FILE, "--write-baseline").out == "amp.json lists 5 findings in 4 files (1 new, 0 gone).\n"
    assert [line for line in (root / "amp.json").read_text().splitlines() if line not in lines] == [
        line for line in (root / "amp.json").read_text().splitlines() if '"b.py"' in line
    ]


def test_nothing_found_is_a_baseline_too(project: Write, amplint: Run) -> None:
    root = project({"new.py": MODERN})
    assert amplint(FILE, "--write-baseline").out == "amp.json lists 0 findings in 0 files (0 new, 0 gone).\n"
    assert (root / "amp.json").read_text() == '{\n  "amplint-baseline": 1,\n  "findings": []\n}\n'
    assert amplint(FILE) == (0, "All checks passed!\n", "")


def test_what_was_not_linted_is_no_stale_entry_and_stays(project: Write, amplint: Run) -> None:
    root = project({"a.py": LEGACY, "b.py": LEGACY, "c.py": LEGACY})
    amplint(FILE, "--write-baseline")
    (root / "a.py").write_text(MODERN)
    assert amplint(FILE, "b.py").out == "All checks passed!\n1 finding not reported: listed in amp.json.\n"
    assert "1 entry that no longer occurs" in amplint(FILE, "a.py").out
    (root / "c.py").unlink()
    # One that is gone can't be linted any more.
    assert "2 entries that no longer occur" in amplint(FILE).out
    assert "1 entry that no longer occurs" in amplint(FILE, "b.py").out
    said = "amplint: c.py: AMP101, listed in amp.json, no longer occurs\n"
    assert amplint(FILE, "--verbose", "b.py").err.startswith(said)
    assert amplint(FILE, "--write-baseline", "a.py").out == "amp.json lists 1 finding in 1 file (0 new, 2 gone).\n"
    assert entries(root) == [["b.py", "AMP101"]]


def test_rules_that_did_not_run_leave_their_entries_alone(project: Write, amplint: Run) -> None:
    root = project({"a.py": LEGACY})
    amplint(FILE, "--write-baseline")
    assert amplint(FILE, "--select=AMP4") == (0, "All checks passed!\n", "")
    assert amplint(FILE, "--select=AMP4", "--write-baseline").out.endswith("(0 new, 0 gone).\n")
    assert entries(root) == [["a.py", "AMP101"]]


def test_a_file_that_was_not_checked_is_never_held_back(project: Write, amplint: Run) -> None:
    root = project({"a.py": LEGACY})
    amplint(FILE, "--write-baseline")
    (root / "a.py").write_text(BROKEN)
    ran = amplint(FILE, "--write-baseline", CONCISE)
    assert ran.code == 1
    assert "AMP001" in ran.out
    assert ran.out.endswith("Found 1 error.\namp.json lists 1 finding in 1 file (0 new, 0 gone).\n")
    assert entries(root) == [["a.py", "AMP101"]]
    ran = amplint(FILE, CONCISE)
    assert ran.code == 1
    assert "no longer" not in ran.out


def test_a_file_that_can_not_be_read_keeps_its_entries(
    project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project({"a.py": LEGACY, "b.py": LEGACY})
    amplint(FILE, "--write-baseline")

    def contents(path: str, most: int = 0) -> bytes:
        if path == "a.py":
            raise PermissionError(13, "Permission denied")
        return Path(path).read_bytes()

    monkeypatch.setattr("amplint.runner.contents", contents)
    ran = amplint(FILE, "--write-baseline")
    assert (ran.code, ran.err) == (2, "amplint: error: a.py: Permission denied\n")
    assert entries(root) == [["a.py", "AMP101"], ["b.py", "AMP101"]]


def test_verbose_names_the_stale_entries(project: Write, amplint: Run) -> None:
    root = project({"a.py": LEGACY, "setup.cfg": ""})
    amplint(FILE, "--write-baseline")
    (root / "a.py").write_text(MODERN)
    assert amplint(FILE, "--verbose").err == "amplint: a.py: AMP101, listed in amp.json, no longer occurs\n"


def test_fix_leaves_alone_what_is_held_back(project: Write, amplint: Run) -> None:
    root = project({"a.py": LEGACY, "b.py": UNSAFE})
    amplint(FILE, "--write-baseline")
    assert (
        amplint(FILE, "--fix", "--unsafe-fixes").out
        == "All checks passed!\n2 findings not reported: listed in amp.json.\n"
    )
    assert amplint(FILE, "--diff", "--unsafe-fixes") == (0, "", "")
    (root / "a.py").write_text(LEGACY + SECOND)
    ran = amplint(FILE, "--diff")
    assert (ran.code, ran.err) == (1, "Would fix 1 warning.\n")
    assert amplint(FILE, "--fix").out == (
        "Found 1 warning (1 fixed, 0 remaining).\n2 findings not reported: listed in amp.json.\n"
    )
    assert (root / "a.py").read_text() == LEGACY + SECOND.replace("cuda.amp.autocast()", 'amp.autocast("cuda")')
    assert (root / "b.py").read_text() == UNSAFE


def test_a_fix_that_would_fix_what_is_held_back_as_well(project: Write, amplint: Run) -> None:
    old = LEGACY.replace("torch.cuda.amp.", "").replace("import torch\n", "from torch.cuda.amp import autocast\n")
    root = project({"a.py": old})
    amplint(FILE, "--write-baseline")
    old = old.replace("import autocast", "import GradScaler, autocast")
    new = f"{old}\n\ndef again(model, x):\n    with autocast():\n        return model(x)\n\n\nscaler = GradScaler()\n"
    (root / "a.py").write_text(new)
    ran = amplint(FILE)
    assert ran.out.count("help: no fix: the fix would also fix a finding of the baseline") == 2
    assert "Found 2 warnings.\n1 finding not reported: listed in amp.json.\n" in ran.out
    assert amplint(FILE, "--diff").out == ""
    assert amplint(FILE, "--fix", "--unsafe-fixes") == ran
    assert (root / "a.py").read_text() == new
    assert amplint("--fix").code == 0
    assert "cuda.amp" not in (root / "a.py").read_text()


def test_what_is_fixed_is_not_written_down(project: Write, amplint: Run) -> None:
    root = project({"a.py": LEGACY, "b.py": UNSAFE})
    ran = amplint(FILE, "--fix", "--write-baseline")
    assert ran.out == ("Found 1 warning (1 fixed, 0 remaining).\namp.json lists 1 finding in 1 file (1 new, 0 gone).\n")
    assert (root / "a.py").read_text() == MODERN
    assert entries(root) == [["b.py", "AMP201"]]


def test_verified_fixes_leave_it_alone_too(project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Confirmed:
        """Confirms every fix that is wanted."""

        def __init__(self, _: object, path: str, data: bytes, settings: Any, wanted: Any) -> None:
            self.fixed = fix_bytes(data, path, settings, wanted=wanted)

        def why(self, _: object) -> None:
            return None

    root = project({"a.py": LEGACY})
    amplint(FILE, "--write-baseline")
    (root / "a.py").write_text(LEGACY + SECOND)
    monkeypatch.setattr("amplint.cli.verify.Confirmation", Confirmed)
    assert amplint(FILE, "--fix", "--verify").out == (
        "Found 1 warning (1 fixed, 0 remaining).\n1 finding not reported: listed in amp.json.\n"
    )
    assert (root / "a.py").read_text() == LEGACY + SECOND.replace("cuda.amp.autocast()", 'amp.autocast("cuda")')


@pytest.mark.parametrize("output_format", ["json", "json-lines", "github", "pylint"])
def test_programs_read_only_what_is_new(project: Write, amplint: Run, output_format: str) -> None:
    root = project({"a.py": LEGACY})
    amplint(FILE, "--write-baseline")
    ran = amplint(FILE, f"--output-format={output_format}")
    assert (ran.code, ran.err) == (0, "1 finding not reported: listed in amp.json.\n")
    assert "AMP101" not in ran.out
    assert amplint(FILE, f"--output-format={output_format}", "--quiet").err == ""
    (root / "a.py").write_text(LEGACY + SECOND)
    assert amplint(FILE, f"--output-format={output_format}").out.count("is deprecated since") == 1
    assert "1\tAMP101" in amplint(FILE, "--statistics").out


def test_many_files_in_processes(project: Write, amplint: Run) -> None:
    root = project({f"{number:02}.py": LEGACY for number in range(40)})
    assert amplint(FILE, "--write-baseline", "-j2").out.startswith("amp.json lists 40 findings in 40 files")
    (root / "07.py").write_text(LEGACY + SECOND)
    for jobs in ("-j1", "-j2"):
        ran = amplint(FILE, jobs, CONCISE)
        assert ran.out.startswith("07.py:10:10: AMP101")
        assert "Found 1 warning.\n" in ran.out
    assert "1 fixed" in amplint(FILE, "--fix", "-j2").out
    assert (root / "08.py").read_text() == LEGACY


def test_standard_input(
    project: Write, amplint: Run, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    project({"a/old.py": LEGACY})
    amplint(FILE, "--write-baseline")

    def given(text: str, *arguments: str) -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        capfdbinary.readouterr()
        code = cli.main([FILE, *arguments, "-"])
        out, err = capfdbinary.readouterr()
        return Ran(code, out.decode(), err.decode())

    name = "--stdin-filename=a/old.py"
    assert given(LEGACY, name) == (0, "All checks passed!\n1 finding not reported: listed in amp.json.\n", "")
    assert given(LEGACY).code == 1
    assert given(LEGACY + SECOND, name, CONCISE).out.startswith("a/old.py:10:10: AMP101")
    fixed = given(LEGACY + SECOND, name, "--fix")
    assert fixed.out == LEGACY + SECOND.replace("cuda.amp.autocast()", 'amp.autocast("cuda")')
    assert fixed.err == "Found 1 warning (1 fixed, 0 remaining).\n1 finding not reported: listed in amp.json.\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a baseline of amplint: Expecting value: line 1 column 1 (char 0)"),
        ("<<<<<<< HEAD\n{}", "not a baseline of amplint: Expecting value: line 1 column 1 (char 0)"),
        ("[" * 100_000, "not a baseline of amplint: maximum recursion depth exceeded"),
        (b"\xff\xfe\xfd", "not a baseline of amplint: "),
        ("[]", "not a baseline of amplint"),
        ("{}", "not a baseline of amplint"),
        ('{"suppressions": {}}', "not a baseline of amplint"),
        ('{"amplint-baseline": 2, "findings": []}', "a baseline of another version of amplint"),
        ('{"amplint-baseline": 1}', "entry 1 of the baseline is broken"),
        ('{"amplint-baseline": 1, "findings": [{"path": "a", "code": 1}]}', "entry 1 of the baseline is broken"),
        (
            '{"amplint-baseline": 1, "findings": [{"path": "a", "code": "b", "fingerprint": "c"}, 7]}',
            "entry 2 of the baseline is broken",
        ),
    ],
)
def test_what_is_no_baseline_is_one_line_and_not_overwritten(
    project: Write, amplint: Run, text: str | bytes, message: str
) -> None:
    root = project({"a.py": LEGACY, "amp.json": text})
    before = (root / "amp.json").read_bytes()
    for more in ([], ["--write-baseline"]):
        ran = amplint(FILE, *more)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith(f"amplint: error: amp.json: {message}")
        assert ran.err.count("\n") == 1
    assert (root / "amp.json").read_bytes() == before


def test_where_there_is_none(project: Write, amplint: Run) -> None:
    project({"a.py": LEGACY, "folder/b.py": LEGACY})
    assert amplint(FILE) == (2, "", "amplint: error: amp.json: no such file; --write-baseline creates it\n")
    assert amplint("--baseline=folder").err == "amplint: error: folder: Is a directory\n"
    ran = amplint("--baseline=no/amp.json", "--write-baseline")
    assert (ran.code, ran.out, ran.err) == (2, "", "amplint: error: no/amp.json: No such file or directory\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--write-baseline"], NEEDS_FILE),
        ([FILE, "--no-baseline"], "--no-baseline can't be combined with --baseline or --write-baseline"),
        (["--baseline="], "--baseline needs the name of a file"),
        (
            [FILE, "--write-baseline", "--diff"],
            NEEDS_FILE,
        ),
        (
            [FILE, "--write-baseline", "-"],
            NEEDS_FILE,
        ),
        (
            [FILE, "--add-noqa"],
            "--add-noqa can't be combined with a baseline, whose findings it would silence, too; --no-baseline "
            "ignores the configured one",
        ),
    ],
)
def test_what_does_not_go(project: Write, amplint: Run, arguments: list[str], message: str) -> None:
    root = project({"a.py": LEGACY})
    ran = amplint(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"amplint: error: {message}")
    assert not (root / "amp.json").exists()


def test_entries_are_no_words_to_the_terminal(project: Write, amplint: Run) -> None:
    name = "a\x1b[31m.py"
    root = project({name: LEGACY})
    amplint(FILE, "--write-baseline")
    (root / name).write_text(MODERN)
    assert "\x1b" not in amplint(FILE, "--verbose").err


def test_not_while_watching(project: Write, amplint: Run) -> None:
    project({"a.py": LEGACY})
    ran = amplint(FILE, "--write-baseline", "--watch")
    assert (ran.code, ran.out) == (2, "")
    assert "--watch can't be combined with" in ran.err


class TestConfigured:
    """`baseline` in the configuration: for the command, the editor and flake8."""

    def test_it_is_taken_by_all_commands(self, project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        root = project({"pyproject.toml": '[tool.amplint]\nbaseline = "amp.json"\n', "sub/old.py": LEGACY})
        assert amplint().err == "amplint: error: amp.json: no such file; --write-baseline creates it\n"
        assert amplint("--write-baseline").out == "amp.json lists 1 finding in 1 file (1 new, 0 gone).\n"
        assert amplint() == (0, "All checks passed!\n1 finding not reported: listed in amp.json.\n", "")
        assert amplint("--no-baseline").code == amplint("--isolated").code == 1
        assert amplint("--fix").code == 0
        assert (root / "sub/old.py").read_text() == LEGACY
        assert "can't be combined with a baseline" in amplint("--add-noqa").err
        assert amplint("--add-noqa", "--no-baseline", "--diff").code == 1
        monkeypatch.chdir(root / "sub")
        assert amplint(CONCISE).code == 0

    def test_an_option_names_another_one(self, project: Write, amplint: Run) -> None:
        project({"amplint.toml": 'baseline = "none.json"\n', "old.py": LEGACY})
        assert amplint(FILE, "--write-baseline").code == 0
        assert amplint(FILE).code == 0
        assert amplint().code == 2
