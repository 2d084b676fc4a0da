"""What a cache's folder holds, who may write it, and what comes of it when it is broken."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.cache import folder, program
from amplint.cache.folder import Folder
from amplint.engine import file
from tests import ROOT
from tests.conftest import LEGACY, MODERN, Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]
SEVERAL: dict[str, str | bytes] = {"pyproject.toml": "", **{f"{number}.py": "x = 1\n" for number in range(20)}}
JSON = ("--output-format", "json")


@pytest.fixture
def linted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are linted, and not known from before."""
    names: list[str] = []
    check = file.check_bytes

    def noted(data: bytes, filename: str, *args: object, **more: object) -> object:
        names.append(filename)
        return check(data, filename, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(file, "check_bytes", noted)
    return names


def _entries(root: Path) -> list[Path]:
    return sorted((root / ".amplint_cache").glob("*/*.json"))


def test_a_second_run_lints_nothing(project: Write, amplint: Run, linted: list[str]) -> None:
    root = project({"pyproject.toml": "", "old.py": LEGACY})
    first = amplint(*JSON)
    assert linted == ["old.py"]
    assert amplint(*JSON) == first
    assert linted == ["old.py"]
    assert (
        (root / ".amplint_cache" / "CACHEDIR.TAG")
        .read_bytes()
        .startswith(b"Signature: 8a477f597d28d172789f06886806bc55")
    )
    assert (root / ".amplint_cache" / ".gitignore").read_text().endswith("*\n")


def test_former_names_in_comments_are_told_of_again(project: Write, amplint: Run, linted: list[str]) -> None:
    project({"pyproject.toml": "", "old.py": f"{LEGACY.rstrip()}  # amplint: ignore[island-without-upcast]\n"})
    first = amplint()
    assert "rule island-without-upcast is now AMP311" in first.err
    assert amplint() == first
    assert linted == ["old.py"]


def test_what_counts_is_what_is_in_a_file(project: Write, amplint: Run, linted: list[str]) -> None:
    root = project({"pyproject.toml": "", "old.py": LEGACY})
    amplint()
    os.utime(root / "old.py", (1, 1))
    amplint()
    assert linted == ["old.py"]
    state = os.stat(root / "old.py")
    (root / "old.py").write_text(LEGACY.replace("model", "mudel"))
    os.utime(root / "old.py", ns=(state.st_atime_ns, state.st_mtime_ns))
    amplint()
    assert linted == ["old.py"] * 2


def test_no_project_has_no_cache(tmp_path: Path, project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody expects a new folder next to a file that lies anywhere."""
    root = project({"old.py": LEGACY})
    amplint()
    assert [each.name for each in root.iterdir()] == ["old.py"]
    amplint("--cache-dir", "kept")
    assert len(list((root / "kept").glob("*/*.json"))) == 1
    monkeypatch.setenv("AMPLINT_CACHE_DIR", str(root / "named"))
    amplint()
    assert len(list((root / "named").glob("*/*.json"))) == 1


def test_where_it_is(project: Write, amplint: Run) -> None:
    root = project({"pyproject.toml": '[tool.amplint]\ncache-dir = "var/kept"\n', "inner/old.py": LEGACY})
    amplint("inner/old.py")
    assert len(list((root / "var/kept").glob("*/*.json"))) == 1
    amplint("--no-cache", "--cache-dir", "other")
    assert not (root / "other").exists()


@pytest.mark.parametrize("broken", [b"", b"nonsense", b"amplint 1 0\n[]", None])
def test_what_is_broken_is_not_read(project: Write, amplint: Run, linted: list[str], broken: bytes | None) -> None:
    root = project({"pyproject.toml": "", "old.py": LEGACY})
    first = amplint(*JSON)
    (entry,) = _entries(root)
    whole = entry.read_bytes()
    entry.write_bytes(whole[: len(whole) // 2] + b"#" + whole[len(whole) // 2 + 1 :] if broken is None else broken)
    assert amplint(*JSON) == first
    assert linted == ["old.py"] * 2
    assert entry.read_bytes() == whole


@pytest.mark.parametrize("value", [[], {}, "text", [1, 2, 3, 4, 5], ["ours", "", [[{}, None, "", ""]], [], []]])
def test_what_is_foreign_is_not_read(project: Write, amplint: Run, value: object) -> None:
    """It has a right digest, and says what nobody has written."""
    root = project({"pyproject.toml": "", "old.py": LEGACY})
    first = amplint(*JSON)
    (entry,) = _entries(root)
    value = [program.identity(), *value[1:]] if isinstance(value, list) and value[:1] == ["ours"] else value
    Folder(str(root / ".amplint_cache")).write(entry.name, json.dumps(value).encode())
    assert amplint(*JSON) == first


def test_another_amplint_knows_nothing(
    project: Write, amplint: Run, linted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project({"pyproject.toml": "", "old.py": LEGACY})
    amplint()
    monkeypatch.setattr("amplint.cache.results.identity", lambda: "another")
    amplint()
    assert linted == ["old.py"] * 2


def test_a_folder_that_cannot_be_written(project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project({**SEVERAL, "old.py": LEGACY})

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(folder.os, "makedirs", refuse)
    first = amplint("--no-cache", *JSON)
    assert amplint(*JSON) == first
    assert not (root / ".amplint_cache").exists()


def test_a_file_in_its_place(project: Write, amplint: Run) -> None:
    root = project({"pyproject.toml": "", "old.py": LEGACY, ".amplint_cache": "mine\n"})
    assert amplint(*JSON) == amplint("--no-cache", *JSON)
    assert (root / ".amplint_cache").read_text() == "mine\n"
    assert amplint("clean").code == 2


def test_fixes_come_from_what_is_known(project: Write, amplint: Run, linted: list[str]) -> None:
    root = project({"pyproject.toml": "", "old.py": LEGACY})
    amplint()
    assert "+    with torch.amp.autocast" in amplint("--diff").out
    assert linted == ["old.py"]
    assert amplint("--fix").out == "Found 1 warning (1 fixed, 0 remaining).\n"
    assert (root / "old.py").read_text() == MODERN
    assert amplint().code == 0


def test_standard_input_is_not_kept(project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project({"pyproject.toml": ""})
    subprocess.run(
        [sys.executable, "-m", "amplint", "--stdin-filename", "old.py"],
        input=LEGACY.encode(),
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert not _entries(root)


def _long_ago(root: Path) -> None:
    for each in root.glob("*.py"):
        os.utime(each, (1, 1))


def test_files_without_amp_are_not_read_again(project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project(SEVERAL)
    read: list[str] = []
    monkeypatch.setattr("amplint.runner.contents", lambda path: read.append(path) or Path(path).read_bytes())
    monkeypatch.setattr("amplint.base.paths._COARSE", 0)
    amplint()
    assert len(read) == 20
    assert amplint().code == 0
    assert len(read) == 20
    (root / "3.py").write_text(LEGACY)
    assert "3.py:5" in amplint("--output-format", "concise").out
    assert read[20:] == ["3.py"] * 2  # by the search of its bytes, and by the linter


def test_what_has_just_changed_is_read_again(project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have changed once more, and look the same."""
    project(SEVERAL)
    read: list[str] = []
    monkeypatch.setattr("amplint.runner.contents", lambda path: read.append(path) or Path(path).read_bytes())
    amplint()
    amplint()
    assert len(read) == 40


def test_clean(project: Write, amplint: Run) -> None:
    root = project({"pyproject.toml": "", "old.py": LEGACY})
    amplint()
    mine = root / ".amplint_cache" / "mine"
    mine.write_text("")
    assert amplint("clean") == Ran(0, "removed .amplint_cache\n", "")
    assert [each.name for each in (root / ".amplint_cache").iterdir()] == ["mine"]
    mine.unlink()
    amplint()
    assert amplint("clean").code == 0
    assert not (root / ".amplint_cache").exists()
    assert amplint("clean") == Ran(0, "amplint: no cache in .amplint_cache\n", "")


def test_clean_removes_nothing_of_others(project: Write, amplint: Run) -> None:
    root = project({"pyproject.toml": "", "precious/data.json": "{}"})
    assert amplint("clean", "--cache-dir", "precious") == Ran(
        2, "", "amplint: error: precious: is not a cache of amplint, and stays\n"
    )
    assert (root / "precious/data.json").exists()


def test_what_is_old_goes(project: Write, amplint: Run) -> None:
    root = project({**SEVERAL, "old.py": LEGACY})
    amplint()
    (entry,) = _entries(root)
    left = entry.with_name("writing-1-2")
    left.write_text("")
    for each in (entry, left):
        os.utime(each, (1, 1))
    new = entry.with_name("writing-1-3")
    new.write_text("")
    Folder(str(root / ".amplint_cache")).tidy()
    assert (entry.exists(), left.exists(), new.exists()) == (False, False, True)


def test_what_is_used_stays(project: Write, amplint: Run) -> None:
    root = project({"pyproject.toml": "", "old.py": LEGACY})
    amplint()
    (entry,) = _entries(root)
    os.utime(entry, (1, 1))
    amplint()
    assert entry.stat().st_mtime > time.time() - 3600


WRITER = """\
import os, sys
from amplint.cache.folder import Folder
folder = Folder(sys.argv[1])
folder.write("entry.json", b"1")
print(flush=True)
while True:
    for size in (1, 100_000, 3_000_000):
        folder.write("entry.json", b"%d" % size * size)
"""
WHOLE = {b"%d" % size * size for size in (1, 100_000, 3_000_000)}


@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")
def test_a_file_is_whole_whoever_is_killed(tmp_path: Path) -> None:
    """Two write the same file, and are killed at any moment."""
    kept = Folder(str(tmp_path / "cache"))
    seen = set()
    for _ in range(6):
        command = [sys.executable, "-c", WRITER, kept.path]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        writers = [subprocess.Popen(command, stdout=subprocess.PIPE, env=env) for _ in range(2)]
        for each in writers:
            assert each.stdout
            each.stdout.readline()
        for _ in range(20):
            seen.add(kept.read("entry.json"))
        for each in writers:
            each.send_signal(signal.SIGKILL)
            each.communicate()
        seen.add(kept.read("entry.json"))
    assert seen <= WHOLE


def test_two_runs_at_once(project: Write) -> None:
    root = project({"pyproject.toml": "", **{f"{number}.py": LEGACY for number in range(8)}})
    command = [sys.executable, "-m", "amplint", *JSON]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    runs = [subprocess.Popen(command, cwd=root, env=env, stdout=subprocess.PIPE) for _ in range(2)]
    first, second = (each.communicate()[0] for each in runs)
    third = subprocess.run(command, cwd=root, env=env, capture_output=True, check=False).stdout
    assert first == second == third
    assert len(_entries(root)) == 8


@pytest.mark.parametrize(
    "flags",
    [
        ["--select", "AMP4"],
        ["--target-torch", "2.0"],
        ["--unfixable", "AMP101"],
        ["--unsafe-fixes"],
        ["--per-file-ignores", "old.py:AMP101"],
        ["--device", "cpu"],
        ["--docs"],
    ],
)
def test_settings_count(project: Write, amplint: Run, flags: list[str]) -> None:
    project({"pyproject.toml": "", "old.py": LEGACY})
    amplint("--isolated")
    with_flags = amplint("--isolated", "--no-cache", *JSON, *flags)
    assert amplint("--isolated", *JSON, *flags) == with_flags
    assert amplint("--isolated", *JSON) == amplint("--isolated", "--no-cache", *JSON)
