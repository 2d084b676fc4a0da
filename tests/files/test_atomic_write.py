"""What `--fix` does to the disk: each file is the old or the new one, whole, with all that it had beside its text."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.base.paths import remembered
from amplint.config.settings import Settings
from amplint.files.atomic_write import remove_stale, replace
from amplint.runner import Job, Mode, write
from tests import ROOT
from tests.conftest import LEGACY, MODERN, Ran
from tests.unbreakable import inside, kill
from tests.unbreakable.tree import make

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

NOBODY = 65534
COMMAND = [sys.executable, "-c", "import sys; from amplint.cli import main; sys.exit(main())"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file.py"
    path.write_bytes(b"old")
    return path


def test_contents_and_mode_and_nothing_else(file: Path) -> None:
    file.chmod(0o754)
    assert replace(file, b"old", b"new") is None
    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o7777 == 0o754
    assert list(file.parent.iterdir()) == [file]


def test_links_are_written_through(file: Path, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    link = tmp_path / "directory" / "link.py"
    link.symlink_to("../between.py")
    (tmp_path / "between.py").symlink_to("file.py")
    replace(link, b"old", b"new")
    assert (os.readlink(link), os.readlink(tmp_path / "between.py")) == ("../between.py", "file.py")
    assert (file.is_symlink(), file.read_bytes()) == (False, b"new")
    assert list(link.parent.iterdir()) == [link]


def test_other_names_keep_the_old_text_and_are_mentioned(project: Write, amplint: Run) -> None:
    root = project({"a.py": LEGACY})
    os.link(root / "a.py", root / "kept.txt")
    ran = amplint("--fix", "a.py")
    assert (ran.code, ran.err) == (0, "amplint: warning: a.py: had 1 hard link, which keeps the old text\n")
    assert ((root / "a.py").read_text(), (root / "kept.txt").read_text()) == (MODERN, LEGACY)
    (root / "a.py").write_text(LEGACY)
    os.link(root / "a.py", root / "b.txt")
    os.link(root / "a.py", root / "c.txt")
    assert "a.py: had 2 hard links, which keep the old" in amplint("--fix", "a.py").err
    assert amplint("--fix", "--quiet", "a.py").err == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser gives files away")
def test_the_owner_stays(file: Path) -> None:
    os.chown(file, NOBODY, NOBODY - 1)
    file.chmod(0o4750)
    replace(file, b"old", b"new")
    found = file.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (NOBODY, NOBODY - 1, 0o4750)


def test_where_the_owner_can_t_stay_the_file_runs_as_nobody_else(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    file.chmod(0o6755)
    monkeypatch.setattr(os, "chown", refuse)
    replace(file, b"old", b"new")
    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o7777 == 0o755


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="this system has no extended attributes")
def test_extended_attributes_stay(file: Path) -> None:
    try:
        os.setxattr(file, "user.origin", b"here")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    replace(file, b"old", b"new")
    assert os.getxattr(file, "user.origin") == b"here"


@pytest.mark.parametrize("call", ["fsync", "chmod", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_changes_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: BaseException
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(type(error)):
        replace(file, b"old", b"new")
    assert file.read_bytes() == b"old"
    assert list(file.parent.iterdir()) == [file]


def test_without_room_the_file_stays_and_the_next_one_is_fixed(project: Write) -> None:
    root = project({"a.py": LEGACY + "#" * 9000, "b.py": LEGACY})
    ran = subprocess.run(
        [*COMMAND, "--fix", "--output-format=concise", "."],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000)),
    )
    assert (ran.returncode, ran.stderr) == (2, "amplint: error: a.py: File too large\n")
    assert "a.py:5:10: AMP101" in ran.stdout
    assert (root / "a.py").read_text() == LEGACY + "#" * 9000
    assert (root / "b.py").read_text() == MODERN
    assert sorted(path.name for path in root.iterdir()) == ["a.py", "b.py"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser mounts file systems")
def test_on_a_full_disk(project: Write, amplint: Run) -> None:
    root = project({"disk/x": ""})
    disk = root / "disk"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        (disk / "a.py").write_text(LEGACY + "#" * 9000)
        (disk / "full").write_bytes(bytes(64 << 10)[: shutil.disk_usage(disk).free - 4096])
        ran = amplint("--fix", "disk", "-q", "--output-format=concise")
        assert (ran.code, ran.err) == (2, "amplint: error: disk/a.py: No space left on device\n")
        assert (disk / "a.py").read_text() == LEGACY + "#" * 9000
        assert sorted(path.name for path in disk.iterdir()) == ["a.py", "full"]
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed, whom only the superuser becomes")
@pytest.mark.parametrize("kept", ["a.py", "."])
def test_what_may_not_be_written_is_not(kept: str) -> None:
    needed = " in its directory, where amplint creates a new file to replace the old one"
    with tempfile.TemporaryDirectory() as name:  # pytest's folders are closed to others
        before, root = Path(name, "before"), Path(name, "project")
        for path in (before, root):
            path.mkdir()
            (path / "a.py").write_text(LEGACY)
        for path in (Path(name), root, root / "a.py"):
            os.chown(path, NOBODY, NOBODY)
        (root / kept).chmod(0o555 if kept == "." else 0o444)
        # So may be the libraries' folder: another file is fixed before, which imports them.
        code = f"""
import os, sys
from amplint.cli import main
main(["--fix", {str(before)!r}])
main([{str(root)!r}])
os.setgid({NOBODY})
os.setuid({NOBODY})
sys.exit(main(["--fix", "-q"]))
"""
        ran = subprocess.run(
            [sys.executable, "-c", code],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.stderr == f"amplint: error: a.py: Permission denied{needed * (kept == '.')}\n"
        assert ran.returncode == 2
        assert (root / "a.py").read_text() == LEGACY
        assert os.listdir(root) == ["a.py"]


def test_after_a_write_the_disk_is_looked_at_again(file: Path) -> None:
    """By all who write, `--fix --verify` too: the next file may take something from this one."""
    look = remembered(lambda path: path.read_bytes())
    before = look(file)
    write(Job(str(file), Settings(frozenset(), isolated=True), Mode.FIX), before, b"x = 1\n")
    assert look(file) == b"x = 1\n" != before


def test_a_file_that_another_has_changed_is_left_to_him(file: Path) -> None:
    with pytest.raises(OSError, match="was changed by another program in the meantime; nothing is written"):
        replace(file, b"older", b"new")
    assert file.read_bytes() == b"old"
    assert list(file.parent.iterdir()) == [file]


def test_one_that_another_amplint_has_fixed_is_fixed(file: Path) -> None:
    known = file.stat().st_ino
    assert replace(file, b"older", b"old") is None
    assert (file.read_bytes(), file.stat().st_ino) == (b"old", known)
    assert list(file.parent.iterdir()) == [file]


def test_a_file_that_is_gone_does_not_come_back(file: Path) -> None:
    file.unlink()
    with pytest.raises(FileNotFoundError):
        replace(file, b"old", b"new")
    assert list(file.parent.iterdir()) == []


def test_a_pipe_in_its_place_is_not_waited_for(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(OSError, match="is no longer a regular file"):
        replace(file, b"old", b"new")


def test_the_command_says_who_changed_what(project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project({"a.py": LEGACY, "b.py": LEGACY})
    edited = "# by hand\n" + LEGACY

    def slowly(path: str, old: bytes, new: bytes) -> str | None:
        if path == "a.py":
            (root / path).write_text(edited)
        return replace(path, old, new)

    monkeypatch.setattr("amplint.files.atomic_write.replace", slowly)
    ran = amplint("--fix", "-q", "--output-format=concise")
    assert ran.code == 2
    assert ran.err == "amplint: error: a.py: was changed by another program in the meantime; nothing is written\n"
    assert ((root / "a.py").read_text(), (root / "b.py").read_text()) == (edited, MODERN)


class TestLinksOutOfWhatWasNamed:
    @pytest.fixture
    def inside(self, project: Write) -> Path:
        root = project({"inside/b.py": MODERN, "outside/a.py": LEGACY})
        (root / "inside/link.py").symlink_to("../outside/a.py")
        return root

    def test_are_reported_and_not_written(self, inside: Path, amplint: Run) -> None:
        ran = amplint("--fix", "inside", "-q", "--output-format=concise")
        assert ran.code == 2
        where = f"{inside}/outside/a.py, outside the given paths; name that file to fix it"
        assert ran.err == f"amplint: error: inside/link.py: is a link to {where}\n"
        assert ran.out.startswith("inside/link.py:5:10: AMP101")
        assert (inside / "outside/a.py").read_text() == LEGACY
        assert amplint("inside").err == ""

    @pytest.mark.parametrize(
        "named", [["inside", "outside"], ["inside", "inside/link.py"], ["inside", "outside/a.py"], ["."]]
    )
    def test_are_written_where_either_end_is_named(self, inside: Path, amplint: Run, named: list[str]) -> None:
        assert amplint("--fix", *named).code == 0
        assert (inside / "outside/a.py").read_text() == MODERN
        assert (inside / "inside/link.py").is_symlink()

    def test_a_file_below_a_directory_that_is_a_link_is_inside(self, inside: Path, amplint: Run) -> None:
        (inside / "other").symlink_to("outside")
        assert amplint("--fix", "other").code == 0
        assert (inside / "outside/a.py").read_text() == MODERN


class TestWhatAKilledRunLeft:
    NAME = ".amplint-0a_b1c2d.tmp"

    def test_is_removed_by_the_next_fix(self, project: Write, amplint: Run) -> None:
        root = project({"a/a.py": MODERN, f"a/{self.NAME}": "half", f"b/{self.NAME}": "half", "b/b.py": LEGACY})
        (root / "link.py").symlink_to("b/b.py")
        assert amplint("a").code == 0
        assert (root / "a" / self.NAME).exists(), "a run without --fix writes nothing"
        assert amplint("--fix", "a").code == 0
        assert [path.name for path in (root / "a").iterdir()] == ["a.py"]
        assert amplint("--fix", "link.py").code == 0
        assert [path.name for path in (root / "b").iterdir()] == ["b.py"]

    def test_stays_while_another_run_uses_it(self, tmp_path: Path) -> None:
        path = tmp_path / self.NAME
        with path.open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            remove_stale(str(tmp_path), [self.NAME])
            assert path.exists()
        remove_stale(str(tmp_path), [self.NAME])
        assert not path.exists()

    def test_is_in_use_until_it_has_its_place(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = []

        def rename(temporary: str, target: str) -> None:
            remove_stale(str(file.parent), os.listdir(file.parent))
            seen.append(os.path.exists(temporary))
            os.rename(temporary, target)

        monkeypatch.setattr(os, "replace", rename)
        replace(file, b"old", b"new")
        assert seen == [True]
        assert file.read_bytes() == b"new"

    def test_one_that_was_taken_for_stale_is_made_anew(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        made = tempfile.mkstemp
        taken = []

        def unlucky(*arguments: str) -> tuple[int, str]:
            handle, path = made(*arguments)
            if not taken:
                taken.append(path)
                remove_stale(str(file.parent), os.listdir(file.parent))
            return handle, path

        monkeypatch.setattr(tempfile, "mkstemp", unlucky)
        replace(file, b"old", b"new")
        assert len(taken) == 1
        assert file.read_bytes() == b"new"
        assert list(file.parent.iterdir()) == [file]

    def test_what_only_looks_like_it_stays(self, tmp_path: Path) -> None:
        names = [
            ".amplint-notes.tmp",
            ".amplint-0a_b1c2d.tmp.py",
            "x.amplint-0a_b1c2d.tmp",
            ".amplint-",
            ".amplint-cache",
        ]
        (tmp_path / "target").write_text("kept")
        for name in names:
            (tmp_path / name).write_text("kept")
        (tmp_path / ".amplint-linklink.tmp").symlink_to("target")
        (tmp_path / ".amplint-folder_1.tmp").mkdir()
        before = sorted(os.listdir(tmp_path))
        os.mkfifo(tmp_path / ".amplint-fifofifo.tmp")
        remove_stale(str(tmp_path), os.listdir(tmp_path))
        assert sorted(set(os.listdir(tmp_path)) - {".amplint-fifofifo.tmp"}) == before
        assert (tmp_path / "target").read_text() == "kept"


class TestNothingIsLost:
    """Short versions of `python -m tests.unbreakable`."""

    def test_whatever_instruction_a_write_is_killed_at(self, tmp_path: Path) -> None:
        kills = kill.at_instructions(tmp_path, step=3)
        assert kills.kills > 50
        assert 0 < kills.litter < kills.kills

    def test_when_the_command_is_killed(self, tmp_path: Path) -> None:
        assert kill.at_moments(make(tmp_path), 4).halfway > 0

    def test_when_two_run_at_once(self, tmp_path: Path) -> None:
        kill.together(make(tmp_path), 2)

    def test_outside_of_the_edits(self) -> None:
        counts = inside.check(inside.fixtures(120))
        assert counts.files > 2
        assert counts.edits > counts.files
