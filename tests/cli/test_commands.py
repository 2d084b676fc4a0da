from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.cli import check as check_command
from amplint.cli import main
from amplint.engine.file import check_bytes
from amplint.files.discovery import Found
from tests.conftest import LEGACY, MODERN, UNSAFE, Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

FOUND = "AMP101 [*] warning: `torch.cuda.amp.autocast`"


def test_exit_codes(project: Write, amplint: Run) -> None:
    project({"old.py": LEGACY, "new.py": MODERN})
    assert amplint("new.py") == (0, "All checks passed!\n", "")
    assert amplint("old.py").code == 1
    assert amplint("old.py", "--exit-zero").code == 0
    assert amplint("nowhere.py").code == 2
    assert amplint("nowhere.py", "--exit-zero").code == 2


def test_check_is_the_default_and_so_is_the_current_directory(project: Write, amplint: Run) -> None:
    project({"a/old.py": LEGACY, "new.py": MODERN})
    ran = amplint("--output-format", "concise")
    assert ran.out.startswith(f"a/old.py:5:10: {FOUND}")
    assert ran == amplint("check", "--output-format", "concise") == amplint("check", ".", "--output-format=concise")


def test_options_may_stand_anywhere(project: Write, amplint: Run) -> None:
    project({"a.py": LEGACY, "b.py": LEGACY})
    assert amplint("a.py", "--quiet", "b.py", "--output-format", "concise").out.count("\n") == 2


def test_findings_come_in_one_order(project: Write, amplint: Run) -> None:
    two = LEGACY + LEGACY.replace("run", "again")
    project({"b.py": LEGACY, "a/z.py": two, "a.py": LEGACY})
    lines = amplint("b.py", "a.py", "a", "-q", "--output-format", "concise").out.splitlines()
    assert [line.split(" ")[0] for line in lines] == ["a.py:5:10:", "a/z.py:5:10:", "a/z.py:11:10:", "b.py:5:10:"]


def test_last_lines(project: Write, amplint: Run) -> None:
    project({"old.py": LEGACY, "unsafe.py": UNSAFE})
    assert amplint("old.py").out.endswith("\nFound 1 warning.\n[*] 1 fixable with `--fix`.\n")
    assert amplint("unsafe.py").out.endswith("\nFound 1 error.\n1 fixable with `--fix --unsafe-fixes`.\n")
    assert amplint(".").out.endswith(
        "\nFound 1 error, 1 warning.\n[*] 1 fixable with `--fix`, 1 more with `--unsafe-fixes`.\n"
    )
    assert amplint(".", "--unsafe-fixes").out.endswith("\nFound 1 error, 1 warning.\n[*] 2 fixable with `--fix`.\n")
    assert "Found" not in amplint(".", "--quiet").out
    assert amplint("old.py", "--output-format=json").out.endswith("]\n")


def test_unsafe_fixes_alone_mark_but_do_not_write(project: Write, amplint: Run) -> None:
    root = project({"unsafe.py": UNSAFE})
    concise = "--output-format=concise"
    assert "AMP201 [*]" not in amplint("unsafe.py", concise).out
    assert "AMP201 [*]" in amplint("unsafe.py", concise, "--unsafe-fixes").out
    assert (root / "unsafe.py").read_text() == UNSAFE


def test_fix(project: Write, amplint: Run) -> None:
    root = project({"old.py": LEGACY, "unsafe.py": UNSAFE})
    ran = amplint("--fix")
    assert ran.code == 1
    assert ran.out.endswith(
        "\nFound 1 error, 1 warning (1 fixed, 1 remaining).\n1 fixable with `--fix --unsafe-fixes`.\n"
    )
    assert (root / "old.py").read_text() == MODERN
    assert (root / "unsafe.py").read_text() == UNSAFE
    assert amplint("--fix", "--unsafe-fixes") == (0, "Found 1 error (1 fixed, 0 remaining).\n", "")
    assert "GradScaler(device.type)" in (root / "unsafe.py").read_text()
    assert amplint("--fix", "--unsafe-fixes") == (0, "All checks passed!\n", "")


def test_a_clean_file_is_not_written(project: Write, amplint: Run) -> None:
    root = project({"new.py": MODERN})
    os.utime(root / "new.py", (1, 1))
    (root / "new.py").chmod(0o444)
    assert amplint("--fix").code == 0
    assert (root / "new.py").stat().st_mtime == 1


def test_what_cannot_be_written_is_still_reported(
    project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, old: bytes, new: bytes) -> None:
        raise PermissionError(13, "Permission denied", path)

    root = project({"old.py": LEGACY})
    monkeypatch.setattr("amplint.files.atomic_write.replace", refuse)
    ran = amplint("--fix", "--output-format=concise")
    assert ran.code == 2
    assert ran.err == "amplint: error: old.py: Permission denied\n"
    assert ran.out.startswith(f"old.py:5:10: {FOUND}")
    assert "fixed" not in ran.out
    assert (root / "old.py").read_text() == LEGACY


@pytest.mark.parametrize(
    ("ours", "ruffs", "code"),
    [(LEGACY, "import os\n", 1), (UNSAFE, "x = undefined\n", 0), (MODERN, "x = 1\n", 0)],
    ids=["a fix", "findings without a fix", "no findings"],
)
def test_diff_exits_as_ruffs_does(project: Write, amplint: Run, ours: str, ruffs: str, code: int) -> None:
    project({"train.py": ours, "other.py": ruffs})
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--diff", "other.py"]
    assert subprocess.run(ruff, capture_output=True, check=False).returncode == code
    assert amplint("--diff", "train.py").code == code


def test_diff_applies(project: Write, amplint: Run) -> None:
    root = project({"a b/old.py": LEGACY, "old.py": LEGACY.replace("\n", "\r\n"), "u.py": UNSAFE, "new.py": MODERN})
    ran = amplint("--diff")
    assert ran.code == 1
    assert ran.err == "Would fix 2 warnings (1 additional fix available with `--unsafe-fixes`).\n"
    assert (root / "old.py").read_bytes() == LEGACY.replace("\n", "\r\n").encode()
    for command in (
        ["git", "apply", "--unsafe-paths"],
        ["patch", "-p1", "-R", "--binary"],
        ["patch", "-p1", "--binary"],
    ):
        subprocess.run(command, input=ran.out.encode(), check=True, capture_output=True)
    assert (root / "old.py").read_bytes() == MODERN.replace("\n", "\r\n").encode()
    assert (root / "a b" / "old.py").read_text() == MODERN
    ran = amplint("--diff")
    assert ran == (0, "", "No findings would be fixed (1 fix available with `--unsafe-fixes`).\n")
    assert amplint("--diff", "new.py") == (0, "", "")
    assert amplint("--diff", "--exit-zero", "--unsafe-fixes").code == 0


class TestStandardInput:
    @pytest.fixture
    def stdin(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
        def feed(data: bytes) -> None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

        return feed

    def test_check(self, project: Write, amplint: Run, stdin: Callable[[bytes], None]) -> None:
        project({})
        stdin(LEGACY.encode())
        ran = amplint("-", "--output-format=concise")
        assert ran.code == 1
        assert ran.out.startswith(f"-:5:10: {FOUND}")

    def test_file_name(self, project: Write, amplint: Run, stdin: Callable[[bytes], None]) -> None:
        root = project({"sub/amplint.toml": 'ignore = ["AMP101"]\n'})
        stdin(LEGACY.encode())
        assert amplint("-", "--stdin-filename", "sub/x.py").code == 0
        stdin(LEGACY.encode())
        ran = amplint("-", "--stdin-filename", "x.py", "--output-format=json")
        assert json.loads(ran.out)[0]["filename"] == str(root / "x.py")

    def test_fix_prints_the_text(self, project: Write, amplint: Run, stdin: Callable[[bytes], None]) -> None:
        project({})
        stdin(LEGACY.encode())
        assert amplint("-", "--fix") == (0, MODERN, "Found 1 warning (1 fixed, 0 remaining).\n")
        stdin((LEGACY + "(").encode())
        ran = amplint("-", "--fix", "--output-format=concise")
        assert (ran.code, ran.out) == (1, LEGACY + "(")
        assert "AMP001" in ran.err
        stdin(MODERN.encode())
        assert amplint("-", "--fix") == (0, MODERN, "All checks passed!\n")

    def test_bytes_come_back_as_they_went_in(
        self, project: Write, amplint: Run, stdin: Callable[[bytes], None], capfdbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        project({})
        stdin(b"# coding: latin-1\r\nx = '\xe9'\r\n")
        assert main(["-", "--fix", "-q"]) == 0
        assert capfdbinary.readouterr().out == b"# coding: latin-1\r\nx = '\xe9'\r\n"

    def test_diff(self, project: Write, amplint: Run, stdin: Callable[[bytes], None]) -> None:
        project({})
        stdin(LEGACY.encode())
        ran = amplint("-", "--diff", "--stdin-filename", "x.py")
        assert ran.code == 1
        assert ran.out.startswith("--- a/x.py\n+++ b/x.py\n@@ ")

    def test_a_name_is_enough(self, project: Write, amplint: Run, stdin: Callable[[bytes], None]) -> None:
        project({"old.py": LEGACY})
        stdin(MODERN.encode())
        assert amplint("--stdin-filename", "x.py") == (0, "All checks passed!\n", "")
        stdin(LEGACY.encode())
        ran = amplint("--stdin-filename=x.py", "--output-format=concise")
        assert ran.out.startswith(f"x.py:5:10: {FOUND}")
        stdin(LEGACY.encode())
        assert amplint("--fix", "--stdin-filename=x.py", "--quiet").out == MODERN
        for more in (["old.py"], ["."], ["-", "old.py"]):
            ran = amplint("--stdin-filename", "x.py", *more)
            assert (ran.code, ran.out) == (2, "")
            assert ran.err.startswith("amplint: error: --stdin-filename can't be combined with paths: ")
        for flag in (["--watch"], ["--fix", "--verify"]):
            assert amplint("--stdin-filename", "x.py", *flag).code == 2

    def test_goes_alone(self, project: Write, amplint: Run) -> None:
        project({"old.py": LEGACY})
        ran = amplint("-", "old.py")
        assert (ran.code, ran.out) == (2, "")
        assert ran.err == "amplint: error: - (standard input) can't be combined with other paths\n"


class TestFailuresAreOneLineAndLeaveTheRestAlone:
    def test_missing_path(self, project: Write, amplint: Run) -> None:
        project({"old.py": LEGACY})
        ran = amplint("nowhere.py", "old.py", "--output-format=concise")
        assert ran.code == 2
        assert ran.err == "amplint: error: nowhere.py: no such file or directory\n"
        assert ran.out.startswith(f"old.py:5:10: {FOUND}")
        assert amplint("nowhere.py").out == ""

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_unreadable_file(self, project: Write, amplint: Run) -> None:
        root = project({"a.py": LEGACY, "old.py": LEGACY})
        (root / "a.py").chmod(0)
        ran = amplint("--output-format=concise")
        assert ran.code == 2
        assert ran.err == "amplint: error: a.py: Permission denied\n"
        assert ran.out.startswith(f"old.py:5:10: {FOUND}")

    def test_file_that_vanishes(self, project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        project({"old.py": LEGACY})
        monkeypatch.setattr(check_command, "discover", lambda *_: Found(["a.py", "old.py"], [], []))
        ran = amplint("--output-format=concise")
        assert ran.code == 2
        assert ran.err == "amplint: error: a.py: No such file or directory\n"
        assert ran.out.startswith(f"old.py:5:10: {FOUND}")

    def test_broken_configuration(self, project: Write, amplint: Run) -> None:
        broken = "[tool.amplint]\nselct = ['AMP1']\n"
        project({"old.py": LEGACY, "sub/pyproject.toml": broken, "sub/a.py": LEGACY, "sub/deep/b.py": LEGACY})
        ran = amplint("--output-format=concise")
        assert ran.code == 2
        assert ran.err == "amplint: error: sub/pyproject.toml:2: unknown key 'selct'; did you mean 'select'?\n"
        assert ran.out.startswith(f"old.py:5:10: {FOUND}")
        assert "sub" not in ran.out
        assert amplint("--isolated", "--output-format=concise").out.count(FOUND) == 3

    def test_directory_without_python(self, project: Write, amplint: Run) -> None:
        project({"a/x.txt": "", "old.py": MODERN})
        assert amplint("a", "old.py") == (0, "All checks passed!\n", "amplint: warning: no Python files in a\n")
        assert amplint("a", "--quiet") == (0, "", "")

    def test_syntax_and_encoding_are_findings(self, project: Write, amplint: Run) -> None:
        project({"a.py": b"# \xff autocast\n", "b.py": "def f(:\n    autocast\n", "old.py": LEGACY})
        ran = amplint("--output-format=concise")
        assert ran.code == 1
        lines = ran.out.splitlines()
        assert lines[0].startswith("a.py:1:1: AMP001 ")
        assert lines[1].startswith("b.py:1:7: AMP001 ")
        assert lines[2].startswith(f"old.py:5:10: {FOUND}")
        assert ran.err == ""

    def test_a_bug_of_ours(self, project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        def check(data: bytes, filename: str, *_: object) -> object:
            if filename == "a.py":
                raise RuntimeError("first line\nsecond")
            return check_bytes(data, filename, *_)  # type: ignore[arg-type]

        monkeypatch.setattr("amplint.engine.file.check_bytes", check)
        project({"a.py": LEGACY, "old.py": LEGACY})
        ran = amplint("--output-format=concise")
        assert ran.code == 2
        assert ran.err.startswith("amplint: error: a.py: internal error: RuntimeError: first line (test_")
        assert ran.err.count("\n") == 1
        assert ran.out.startswith(f"old.py:5:10: {FOUND}")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--select", "AMP4O1"], "unknown rule 'AMP4O1'; the nearest is AMP401"),
            (
                ["--ignore", "AMP1,deprecated-autocasts"],
                "unknown rule 'deprecated-autocasts'; did you mean deprecated-autocast",
            ),
            (
                ["--target-torch", "new"],
                "--target-torch: 'new' is neither a release such as 2.4 nor a specifier such as",
            ),
            (["--fixx"], "unknown option --fixx; did you mean --fix?"),
            (["--unsafe"], "unknown option --unsafe; did you mean --unsafe-fixes?"),
            (["--output-format", "xml"], "argument --output-format: invalid choice: 'xml'"),
            (
                ["--statistics", "--output-format", "github"],
                "--statistics needs --output-format full, concise, grouped, json or json-lines",
            ),
            (["rule", "AMP101", "--all"], "give only one of: rules, --all"),
            (["rule", "AMP4O1"], "unknown rule 'AMP4O1'; the nearest is AMP401"),
            ([""], "an empty path"),
            (["--select", ""], "--select needs at least one rule"),
            (["--select", ","], "--select needs at least one rule"),
            (["--jobs", "none"], "argument -j/--jobs: 'none' is not a number of processes"),
        ],
    )
    def test_mistakes_in_arguments(self, project: Write, amplint: Run, arguments: list[str], message: str) -> None:
        project({"old.py": MODERN})
        ran = amplint(*arguments)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith(f"amplint: error: {message}")
        assert ran.err.count("\n") == 1


def test_selection(project: Write, amplint: Run) -> None:
    project({"old.py": LEGACY})
    for arguments, code in (
        (["--select", "AMP4"], 0),
        (["--select", "AMP4,AMP1"], 1),
        (["--select", "AMP4", "--select", "AMP101"], 1),
        (["--select", "ALL", "--ignore", "AMP101"], 0),
        (["--ignore", "AMP1"], 0),
        (["--ignore", "AMP1", "--extend-select", "AMP101"], 1),
    ):
        assert amplint("old.py", *arguments).code == code, arguments


def test_target(project: Write, amplint: Run) -> None:
    project({"old.py": "from torch.cuda.amp import GradScaler\n\nscaler = GradScaler()\n"})
    assert "AMP102 [*]" in amplint().out
    assert amplint("--target-torch", "2.0").code == 0
    assert amplint("--target-torch", "<2.4").code == 0
    project({"pyproject.toml": "[project]\ndependencies = ['torch>=1.13']\n"})
    assert amplint().code == 0
    assert "AMP102 [*]" in amplint("--isolated").out
    assert ">=1.13.0" in amplint("config").out
    assert "--isolated: 2.4 assumed" in amplint("config", "--isolated").out


def test_version_and_help(project: Write, amplint: Run) -> None:
    project({})
    for flag in ("--version", "-V"):
        assert amplint(flag) == (0, "amplint 0.1.0\n", "")
    assert amplint("--quiet", "--version") == (0, "amplint 0.1.0\n", "")
    ran = amplint("--help")
    assert ran.code == 0
    for word in ("--unsafe-fixes", "--target-torch", "  rule  ", "Exit codes"):
        assert word in ran.out


def test_rule(project: Write, amplint: Run) -> None:
    project({})
    ran = amplint("rule", "AMP101")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(
        "# deprecated-autocast (AMP101)\n\nSeverity: warning. On by default. Fixes: safe, unsafe.\n\n"
    )
    assert "\n## Fix safety\n" in ran.out
    page = json.loads(amplint("rule", "AMP101", "--output-format", "json").out)
    assert (page["code"], page["name"], page["severity"], page["default"]) == (
        "AMP101",
        "deprecated-autocast",
        "warning",
        True,
    )
    assert page["explanation"] in ran.out
    assert page["explanation"].startswith(page["summary"])
    everything = json.loads(amplint("rule", "--all", "--output-format", "json").out)
    codes = [each["code"] for each in everything]
    assert codes == sorted(codes)
    assert page in everything
    assert amplint("rule", "--all").out.count("\n## What it does\n") == len(codes)
