"""The command as users start it: a process of its own, with pipes, signals and encodings."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import LEGACY, UNSAFE

Write = Callable[[dict[str, str | bytes]], Path]
COMMAND = (sys.executable, "-m", "amplint")


def test_module(project: Write) -> None:
    project({"old.py": LEGACY})
    done = subprocess.run([*COMMAND, "old.py"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert "AMP101" in done.stdout


def test_console_script(project: Write) -> None:
    project({"old.py": LEGACY})
    script = Path(sys.executable).with_name("amplint")
    done = subprocess.run([script, "old.py"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert "AMP101" in done.stdout


def test_whoever_reads_the_output_may_leave(project: Write) -> None:
    project({f"{number}.py": LEGACY * 40 for number in range(20)})
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is always full")
def test_output_that_cannot_be_written(project: Write) -> None:
    project({"old.py": LEGACY})
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(COMMAND, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "amplint: error: [Errno 28] No space left on device\n"


def test_interrupt(project: Write) -> None:
    project({"old.py": LEGACY})
    with subprocess.Popen(
        [*COMMAND, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin
        # More than a pipe holds: once it is written, amplint reads, and waits for an end that doesn't come.
        process.stdin.write(b"#" * 1_000_000)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out, err) == (130, b"", b"amplint: interrupted\n")


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "cp1252"])
def test_any_output_encoding(project: Write, encoding: str) -> None:
    project({"ü世.py": LEGACY.replace("with", "x = '世é'; torch.cuda.amp.autocast()\n    with")})
    done = subprocess.run(COMMAND, capture_output=True, check=False, env={**os.environ, "PYTHONIOENCODING": encoding})
    assert (done.returncode, done.stderr) == (1, b"")
    assert b"AMP101" in done.stdout


def test_same_output_for_every_hash_seed(project: Write) -> None:
    project({"a.py": LEGACY, "b.py": UNSAFE, "c.py": "import x.y\nfrom torch.cuda.amp import *\nautocast()\n"})
    outputs = {
        subprocess.run(
            [*COMMAND, "--output-format=json"],
            capture_output=True,
            check=False,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(outputs) == 1


def _at_work(first: int) -> list[str]:
    """The processes that another one has started and that have used the processor for a while."""
    children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    used = {each: Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[11] for each in children}
    return [each for each in children if int(used[each]) > os.sysconf("SC_CLK_TCK") // 2]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux lists a process's children")
def test_interrupt_of_several_processes(project: Write) -> None:
    # Enough to keep both busy for longer than it takes to see them at work.
    project({f"{number}.py": LEGACY * 100 for number in range(1000)})
    command = [*COMMAND, "--jobs=2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as process:
        while process.poll() is None and len(_at_work(process.pid)) < 2:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=600)
    assert process.returncode == 130
    assert re.fullmatch(rb"amplint: error: interrupted: \d+ of 1000 files were not linted\n", err)
    assert b"Traceback" not in out
