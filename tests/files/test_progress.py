"""The bar of a long run: on a terminal, as wide as that is, gone at the end; and for nobody else."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import LEGACY

Write = Callable[[dict[str, str | bytes]], Path]

# What is looked at in a file that takes long: a rule, or a function.
STEP = r"\d+\.py: (AMP\d{3}|run|the file's own code)"
# What counts as long is short here.
SLOW = """
import sys
from amplint.files import progress
from amplint.cli import main
progress._LONG, progress._PAUSE = {long}, 0.0
sys.exit(main(["--jobs=1", *sys.argv[1:]]))
"""


def on_terminal(arguments: list[str], *, width: int = 80, long: float = 0.01, **environment: str) -> tuple[str, str]:
    """What a run writes to stdout, and what to a terminal that is its stderr."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    env = {key: each for key, each in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}
    # shutil asks the terminal that stdout is, which here is none.
    env |= {"TERM": "xterm", "COLUMNS": str(width), **environment}
    command = [sys.executable, "-c", SLOW.format(long=long), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=env) as process:
        os.close(theirs)
        assert process.stdout
        out = process.stdout.read().decode()
        shown = b""
        try:
            while chunk := os.read(ours, 4096):
                shown += chunk
        except OSError:  # Linux says so at the end of a terminal
            pass
    os.close(ours)
    return out, shown.decode()


@pytest.fixture
def many(project: Write) -> Path:
    return project({f"{number}.py": LEGACY for number in range(20)})


def test_a_bar_that_goes(many: Path) -> None:
    out, shown = on_terminal([])
    looks = shown.split("\r\x1b[K")
    assert looks[0] == looks[-1] == ""
    assert len(looks) > 3
    bars = [look for look in looks if look and not re.fullmatch(STEP, look)]
    assert bars
    for look in bars:
        assert re.fullmatch(r"\[#* *\] \d+/20 files", look)
        assert look.index("]") == 25
    assert "\x1b" not in out


def test_what_takes_long_in_a_file(many: Path) -> None:
    out, shown = on_terminal(["--no-cache", "0.py"], long=0.0)
    looks = shown.split("\r\x1b[K")
    assert looks[0] == looks[-1] == ""
    assert looks[1:-1]
    for look in looks[1:-1]:
        assert re.fullmatch(STEP, look)
    assert "\x1b" not in out


def test_it_is_as_wide_as_the_terminal(many: Path) -> None:
    _, shown = on_terminal([], width=20)
    assert max(map(len, shown.split("\r\x1b[K"))) == 19


@pytest.mark.parametrize(
    ("arguments", "rest"),
    [(["--quiet"], {}), ([], {"TERM": "dumb"}), ([], {"long": 1000}), (["0.py"], {"long": 1000})],
)
def test_who_does_not_see_it(many: Path, arguments: list[str], rest: dict[str, object]) -> None:
    assert on_terminal(arguments, **rest)[1] == ""  # type: ignore[arg-type]


def test_it_is_cleared_before_anything_is_said(many: Path) -> None:
    (many / "10.py").write_bytes(b"# \xff autocast\n")
    (many / "amplint.toml").write_text("no = 1\n")
    _, shown = on_terminal([])
    assert "amplint: error: " in shown
    assert re.search(r"files[^\r]", shown) is None


def test_a_pipe_gets_nothing(many: Path) -> None:
    command = [sys.executable, "-c", SLOW.format(long=0)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.stderr == b""
    assert b"\r" not in done.stdout
