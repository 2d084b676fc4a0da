"""--watch as a process of its own, on files that are written as people and editors write them."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from amplint.base.paths import look_again
from amplint.cli.watch import Hands, Watch
from amplint.config.settings import Overrides, Resolver
from amplint.engine.result import Outcome
from amplint.model.project.dependencies import Dependencies, modules
from tests.conftest import LEGACY, MODERN, Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

TRAIN = """\
import torch
from helpers import clip


def train(model, optimizer, batches):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in batches:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = (model(x) - y).square().mean()
        scaler.scale(loss).backward()
        clip(model, scaler, optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
RIGHT = """\
import torch


def clip(model, scaler, optimizer):
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
"""
WRONG = RIGHT.replace("    scaler.unscale_(optimizer)\n", "")
_LAST = re.compile(r"(\d+ fixed, )?(no|\d+) findings?\b|watching \d")
_STAMP = re.compile(r"^\[\d\d:\d\d:\d\d\] ")


class Watching:
    """A process that watches, and the lines that it prints."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "amplint", "--watch", "--output-format=concise", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))

    def round(self) -> list[str]:
        """The lines of the next round, without their time stamps, up to its last."""
        found: list[str] = []
        while not found or not (_STAMP.match(found[-1]) and _LAST.match(_STAMP.sub("", found[-1]))):
            found.append(self.lines.get(timeout=600))
        return [_STAMP.sub("", line) for line in found]

    def quiet(self, seconds: float = 1.5) -> bool:
        """Whether nothing more comes."""
        time.sleep(seconds)
        return self.lines.empty()

    def end(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGINT)
        assert self.process.stderr
        said = self.process.stderr.read()
        return self.process.wait(600), said


@pytest.fixture
def watching() -> Iterator[Callable[..., Watching]]:
    started: list[Watching] = []

    def start(*arguments: str) -> Watching:
        started.append(Watching(*arguments))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()


def codes(lines: list[str]) -> list[str]:
    """`path CODE` for each finding."""
    return [
        f"{found.group(1)} {found.group(2)}" for line in lines if (found := re.match(r"(.*?):\d+:\d+: (AMP\d+)", line))
    ]


def test_a_file_that_changes(project: Write, watching: Callable[..., Watching]) -> None:
    root = project({"old.py": LEGACY, "new.py": MODERN})
    process = watching()
    first = process.round()
    assert codes(first) == ["old.py AMP101"]
    assert first[1:] == ["Found 1 warning.", "[*] 1 fixable with `--fix`.", "watching 2 files; Ctrl-C ends it"]
    (root / "new.py").write_text(LEGACY)
    changed = process.round()
    assert (changed[0], codes(changed), changed[-1]) == ("new.py", ["new.py AMP101"], "1 finding (2 in all 2 files)")
    (root / "old.py").write_text(MODERN)
    assert process.round() == ["old.py", "no findings (1 in all 2 files)"]
    # Saved as it was: said again, as somebody may wait for it.
    os.utime(root / "new.py", (1, 1))
    assert process.round()[-1] == "1 finding"
    assert process.quiet()
    assert process.end() == (0, "")


def test_a_file_that_others_import(project: Write, watching: Callable[..., Watching]) -> None:
    root = project({"train.py": TRAIN, "helpers.py": RIGHT, "other.py": MODERN})
    process = watching("train.py")
    assert process.round() == ["All checks passed!", "watching 1 file; Ctrl-C ends it"]
    (root / "helpers.py").write_text(WRONG)
    assert codes(process.round()) == ["train.py AMP401"]
    (root / "other.py").write_text(LEGACY)
    assert process.quiet()
    (root / "helpers.py").unlink()
    assert process.round() == ["helpers.py", "no findings"]
    assert process.end() == (0, "")


def test_what_is_imported_can_come_later(project: Write, watching: Callable[..., Watching]) -> None:
    root = project({"train.py": TRAIN, "alone.py": MODERN})
    process = watching()
    assert process.round()[-1].startswith("watching 2 files")
    (root / "helpers.py").write_text(WRONG)
    found = process.round()
    assert (found[0], codes(found), found[-1]) == ("helpers.py (new)", ["train.py AMP401"], "1 finding")
    (root / "helpers.py").unlink()
    assert process.round() == ["helpers.py (gone)", "no findings"]
    assert process.end() == (0, "")


def test_files_come_go_and_move(project: Write, watching: Callable[..., Watching]) -> None:
    root = project({"a.py": MODERN})
    process = watching(".")
    process.round()
    (root / "deep" / "er").mkdir(parents=True)
    (root / "deep" / "er" / "b.py").write_text(LEGACY)
    found = process.round()
    assert (found[0], codes(found)) == ("deep/er/b.py (new)", ["deep/er/b.py AMP101"])
    (root / "deep" / "er" / "b.py").rename(root / "c.py")
    found = process.round()
    assert (found[0], codes(found)) == ("c.py (new), deep/er/b.py (gone)", ["c.py AMP101"])
    (root / "c.py").unlink()
    assert process.round() == ["c.py (gone)", "no findings"]
    assert process.end() == (0, "")


def test_as_editors_write(project: Write, watching: Callable[..., Watching]) -> None:
    root = project({"a.py": MODERN})
    process = watching("a.py")
    process.round()
    # Replaced.
    (root / "a.py.swp").write_text(LEGACY)
    (root / "a.py.swp").replace(root / "a.py")
    assert process.round()[0] == "a.py"
    # Removed, and written anew.
    (root / "a.py").unlink()
    (root / "a.py").write_text(LEGACY + "\n")
    assert process.round()[0] == "a.py"
    assert process.quiet()
    assert process.end() == (0, "")


def test_what_is_half_written_is_waited_for(project: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project({"a.py": MODERN})
    told: list[str] = []

    def lint(files: Sequence[str], *_: object) -> list[Outcome]:
        told.extend((root / name).read_text() for name in files)
        return [Outcome() for _ in files]

    pieces = ["", "from torch.cuda.amp import autocast\n\nwith autoc", "ast(", "):\n    pass\n"]
    left = iter(pieces)

    def sleep(_seconds: float) -> None:
        """Each time that the watch rests, the editor writes another piece."""
        piece = next(left, None)
        if piece is not None:
            with (root / "a.py").open("a" if piece else "w") as file:
                file.write(piece)
        elif len(told) > 1:
            raise KeyboardInterrupt

    monkeypatch.setattr("amplint.cli.watch.time.sleep", sleep)
    hands = Hands(lambda: Resolver(Overrides()), lint, lambda *_: None, lambda _: 0)
    with pytest.raises(KeyboardInterrupt):
        Watch(["a.py"], hands).run()
    assert told == [MODERN, "".join(pieces)]


def test_a_file_that_is_named_may_be_away_for_long(project: Write, watching: Callable[..., Watching]) -> None:
    root = project({"a.py": LEGACY})
    process = watching("a.py")
    process.round()
    (root / "a.py").unlink()
    assert process.round() == ["a.py (gone)", "no findings"]
    (root / "a.py").write_text(LEGACY)
    assert codes(process.round()) == ["a.py AMP101"]
    assert process.end() == (0, "")


def test_settings(project: Write, watching: Callable[..., Watching]) -> None:
    root = project({"sub/a.py": LEGACY, "b.py": LEGACY})
    process = watching()
    process.round()
    (root / "sub" / "amplint.toml").write_text('ignore = ["AMP1"]\n')
    assert process.round() == ["sub/amplint.toml", "no findings (1 in all 2 files)"]
    (root / "sub" / "amplint.toml").write_text("ignroe = 1\n")
    process.round()
    (root / "sub" / "amplint.toml").unlink()
    assert codes(process.round()) == ["sub/a.py AMP101"]
    (root / "pyproject.toml").write_text('[project]\ndependencies = ["torch<2.4"]\n')
    assert process.round() == ["pyproject.toml", "no findings"]
    code, said = process.end()
    assert code == 0
    assert said.count("\n") == 1
    assert said.startswith("amplint: error: sub/amplint.toml:1: unknown key 'ignroe'")


def test_settings_that_are_named(project: Write, watching: Callable[..., Watching]) -> None:
    root = project(
        {
            "conf/any.toml": 'src = ["../lib"]\n',
            "scripts/train.py": TRAIN,
            "lib/helpers.py": RIGHT,
            "old.py": LEGACY,
        }
    )
    process = watching("--config=conf/any.toml")
    process.round()
    (root / "lib" / "helpers.py").write_text(WRONG)
    first, found, *_ = process.round()
    assert first == "lib/helpers.py"
    assert found.startswith("scripts/train.py:11:9: AMP401 error: this runs line 5 of ../lib/helpers.py")
    (root / "conf" / "any.toml").write_text("ignore = ['AMP101', 'AMP4']\n")
    assert process.round() == ["conf/any.toml", "no findings"]
    (root / "conf" / "any.toml").write_text("ignroe = 1\n")
    assert process.round() == ["conf/any.toml", "no findings"]
    assert process.end()[1] == "amplint: error: conf/any.toml:1: unknown key 'ignroe'; did you mean 'ignore'?\n"


def test_settings_that_are_extended(project: Write, watching: Callable[..., Watching]) -> None:
    root = project({"old.py": LEGACY, "amplint.toml": "extend = 'conf/base.toml'\n", "conf/base.toml": ""})
    process = watching()
    assert codes(process.round()) == ["old.py AMP101"]
    (root / "conf" / "base.toml").write_text("ignore = ['AMP101']\n")
    assert process.round() == ["conf/base.toml", "no findings"]
    (root / "conf" / "base.toml").write_text("ignroe = 1\n")
    process.round()
    (root / "conf" / "base.toml").write_text("")
    assert codes(process.round()) == ["old.py AMP101"]
    process.end()


def test_documents(project: Write, watching: Callable[..., Watching]) -> None:
    page = "# Page\n\n```python\n{}```\n"
    root = project({"page.md": page.format(MODERN)})
    process = watching("--docs")
    assert process.round()[-1] == "watching 1 file; Ctrl-C ends it"
    (root / "page.md").write_text(page.format(LEGACY))
    assert codes(process.round()) == ["page.md AMP101"]
    assert process.end() == (0, "")


def test_fixing(project: Write, watching: Callable[..., Watching]) -> None:
    root = project({"a.py": MODERN})
    process = watching("--fix")
    process.round()
    (root / "a.py").write_text(LEGACY)
    assert process.round() == ["a.py", "1 fixed, no findings"]
    assert (root / "a.py").read_text() == MODERN
    assert process.quiet()  # what it has written itself is no change
    (root / "a.py").write_text(LEGACY)
    assert process.round() == ["a.py", "1 fixed, no findings"]
    assert process.end() == (0, "")


def test_a_name_is_no_command_for_the_terminal(project: Write, watching: Callable[..., Watching]) -> None:
    root = project({"a.py": MODERN})
    process = watching()
    process.round()
    (root / "b\x1b[31m\n.py").write_text(LEGACY)
    assert process.round()[0] == "b\\x1b[31m\\n.py (new)"
    assert process.end() == (0, "")


@pytest.mark.parametrize(
    "more", [["--diff"], ["--statistics"], ["-o", "x"], ["-"], ["--output-format=json"], ["--fix", "--verify"]]
)
def test_what_it_does_not_go_with(project: Write, amplint: Run, more: list[str]) -> None:
    project({"a.py": MODERN})
    ran = amplint("--watch", *more)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith("amplint: error: --watch ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import a", ["a"]),
        ("import a.b.c as d, e", ["a", "a.b", "a.b.c", "e"]),
        ("    import a; import b", ["a", "b"]),
        ("if x: import a", ["a"]),
        ("from a import b", ["a", "a.b"]),
        ("from . import b as c, d", [".", ".b", ".d"]),
        ("from .. a . b import(c)", ["..a.b", "..a.b.c"]),
        ("from a import (  # why\n    b,  # x\n    c as e,\n)", ["a", "a.b", "a.c"]),
        ("from a import b, \\\n    c", ["a", "a.b", "a.c"]),
        ("from a import *", ["a"]),
        ("from\ta\timport\tb", ["a", "a.b"]),
        ("from .é import ü", [".é", ".é.ü"]),
        ("importance = 1\nfromage = 2\nx.import_(y)", []),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_imports(text: str, expected: list[str], newline: str) -> None:
    assert list(modules(f"x = 1\n{text}\ny = 2\n".replace("\n", newline))) == expected


def test_dependencies(project: Write) -> None:
    root = project(
        {
            "pyproject.toml": "",
            "main.py": "from pkg import a\nimport os, torch\n",
            "pkg/__init__.py": "",
            "pkg/a.py": "from .b import x\n",
            "pkg/b.py": "import main\n",
            "pkg/c.py": "",
        }
    )
    known = Dependencies()
    path = str(root / "main.py")
    expected = {path, *(f"{root}/pkg/{name}.py" for name in ("__init__", "a", "b"))}
    assert known.of(path) == expected
    (root / "pkg" / "b.py").write_text("from . import c\n# longer than before\n")
    look_again()
    assert known.of(path) == expected | {f"{root}/pkg/c.py"}
