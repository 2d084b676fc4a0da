"""Reports that go to a file: whole or not at all, and what the terminal still says."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.config.formats import FORMATS
from amplint.files.atomic_write import put
from tests.conftest import LEGACY, MODERN, Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

SUMMARY = "Found 1 warning.\n[*] 1 fixable with `--fix`.\n"


@pytest.mark.parametrize("name", FORMATS)
def test_the_file_holds_what_would_be_printed(project: Write, amplint: Run, name: str) -> None:
    root = project({"old.py": LEGACY})
    printed = amplint("--output-format", name, "-q").out
    ran = amplint("--output-format", name, "-o", "report.txt")
    assert ran == (1, SUMMARY, "")
    assert (root / "report.txt").read_text() == printed
    assert amplint("--output-format", name, "--output-file=report.txt", "-q") == (1, "", "")
    assert sorted(each.name for each in root.iterdir()) == ["old.py", "report.txt"]


def test_a_clean_run_empties_it(project: Write, amplint: Run) -> None:
    root = project({"new.py": MODERN, "report.txt": "old"})
    assert amplint("-o", "report.txt") == (0, "All checks passed!\n", "")
    assert (root / "report.txt").read_bytes() == b""


def test_statistics(project: Write, amplint: Run) -> None:
    root = project({"old.py": LEGACY})
    assert amplint("-o", "s.json", "--statistics", "--output-format=json") == (1, SUMMARY, "")
    assert json.loads((root / "s.json").read_text())[0]["count"] == 1


def test_statistics_in_lines(project: Write, amplint: Run) -> None:
    project({"old.py": LEGACY})
    assert json.loads(amplint("--statistics", "--output-format=json-lines").out)["code"] == "AMP101"
    assert amplint("--statistics", "--output-format=grouped").out == amplint("--statistics").out


def test_what_is_fixed_on_standard_input_still_goes_to_stdout(
    project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project({})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LEGACY.encode())))
    ran = amplint("-", "--fix", "-o", "left.json", "--output-format=json")
    assert ran == (0, MODERN, "Found 1 warning (1 fixed, 0 remaining).\n")
    assert (root / "left.json").read_text() == "[]\n"


def test_no_colour_in_a_file(project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project({"old.py": LEGACY})
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\033[" in amplint().out
    amplint("-o", "report.txt")
    assert "\033" not in (root / "report.txt").read_text()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033" not in amplint().out


@pytest.mark.parametrize("path", ["", "folder", "nowhere/report.txt", "old.py/report.txt"])
def test_what_can_be_no_file(project: Write, amplint: Run, path: str) -> None:
    project({"old.py": LEGACY, "folder/x.txt": ""})
    ran = amplint("-o", path, "old.py")
    assert ran == (2, "", f"amplint: error: --output-file: {path!r} is not a file in an existing directory\n")


def test_it_does_not_go_with_diff(project: Write, amplint: Run) -> None:
    project({"old.py": LEGACY})
    assert amplint("-o", "x", "--diff") == (2, "", "amplint: error: --output-file can't be combined with --diff\n")


@pytest.mark.parametrize("exists", [True, False])
def test_what_cannot_be_written_is_one_line(
    project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    root = project({"old.py": LEGACY, **({"report.txt": "as it was"} if exists else {})})
    monkeypatch.setattr(os, "fsync", refuse)
    ran = amplint("-o", "report.txt")
    assert ran == (2, SUMMARY, "amplint: error: report.txt: No space left on device\n")
    assert [each.name for each in root.iterdir() if each.name.startswith(".")] == []
    assert (root / "report.txt").exists() == exists
    assert not exists or (root / "report.txt").read_text() == "as it was"


def test_modes(tmp_path: Path) -> None:
    for mask, mode in ((0o022, 0o644), (0o077, 0o600)):
        before = os.umask(mask)
        try:
            put(str(tmp_path / f"{mask}"), b"x")
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / f"{mask}").stat().st_mode) == mode
    (tmp_path / "old").write_bytes(b"longer than what comes")
    (tmp_path / "old").chmod(0o640)
    (tmp_path / "link").symlink_to("old")
    put(str(tmp_path / "link"), b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "old").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "old").stat().st_mode) == 0o640


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="a device of Unix")
def test_devices_and_pipes(project: Write) -> None:
    project({"old.py": LEGACY})
    command = [sys.executable, "-m", "amplint", "-q", "--output-format=concise", "-o"]
    done = subprocess.run([*command, "/dev/stdout"], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("old.py:5:10: AMP101")
    done = subprocess.run([*command, "/dev/full"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "amplint: error: /dev/full: No space left on device\n")
