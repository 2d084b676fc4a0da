"""`amplint --fix` killed at random moments, and its writing killed at each of its instructions."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from amplint.files import atomic_write
from tests.unbreakable.tree import Tree


class Kills(NamedTuple):
    """How many runs were killed, how many of them with some files fixed and others not, and what they left."""

    kills: int
    halfway: int
    litter: int
    seconds: float


def at_moments(tree: Tree, times: int, seed: int = 0) -> Kills:
    """Kill the command with all its processes, at random moments and while it writes, and check the tree each time.

    Raises:
        AssertionError: a file was lost, or something but the named temporary files was left, or those stay.
    """
    moments = random.Random(seed)
    halfway = left = 0
    begun = time.monotonic()
    longest = _to_the_end(tree)
    kills = number = 0
    while kills < times:
        tree.restore()
        process = tree.start("--jobs", str(1 + number % 2))
        if number % 4 < 2:
            time.sleep(moments.uniform(0.3, 1.1) * longest)
        else:
            _wait_for_a_write(tree, process, moments.randint(1, 20))
        number += 1
        with suppress(ProcessLookupError):  # it was faster
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
        litter = tree.litter()
        left += len(litter)
        halfway += 0 < tree.fixed() < len(tree.before)
        if litter:
            _to_the_end(tree)
    _to_the_end(tree)
    return Kills(kills, halfway, left, time.monotonic() - begun)


def _wait_for_a_write(tree: Tree, process: subprocess.Popen[bytes], number: int) -> None:
    """Wait until a temporary file is there for the `number`-th time, or all has ended."""
    folders = sorted({path.parent for path in tree.before})
    seen: set[str] = set()
    while len(seen) < number and process.poll() is None:
        for folder in folders:
            seen.update(name for name in os.listdir(folder) if name.startswith(".amplint-"))


def _to_the_end(tree: Tree) -> float:
    """Run the command to its end, which fixes all and leaves nothing; the seconds that it took."""
    started = time.monotonic()
    process = tree.start("--jobs", "1")
    _, err = process.communicate()
    assert (process.returncode, err) == (0, b""), err.decode()
    assert tree.fixed() == len(tree.before)
    assert tree.litter() == []
    return time.monotonic() - started


def at_instructions(folder: Path, step: int = 1) -> Kills:
    """Kill a write before each of its instructions (or each `step`-th), in a process of its own each time.

    Raises:
        AssertionError: the file was lost, or something but the named temporary file was left, or that stays.
    """
    path, old, new = folder / "file.py", b"old" * 1000, b"new" * 2000
    tree = Tree(folder, {path: old}, {path: new})
    halfway = left = number = 0
    begun = time.monotonic()
    while True:
        tree.restore()
        child = os.fork()
        if not child:
            _die_at(number * step)
            atomic_write.replace(path, old, new)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        litter = tree.litter()
        left += len(litter)
        halfway += bool(litter)
        tree.fixed()
        atomic_write.remove_stale(str(folder), litter)
        assert tree.litter() == []
        if status == 0:
            assert tree.fixed() == 1
            return Kills(number, halfway, left, time.monotonic() - begun)
        assert os.WTERMSIG(status) == signal.SIGKILL
        number += 1


def _die_at(instruction: int) -> None:
    """Have this process killed before an instruction of the code that writes."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename != atomic_write.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            if count == instruction:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1
        return trace

    sys.settrace(trace)


def together(tree: Tree, times: int) -> float:
    """Run the command twice over one tree at the same time; the seconds that all took.

    Raises:
        AssertionError: one failed, or a file isn't fixed, or something was left.
    """
    begun = time.monotonic()
    for number in range(times):
        tree.restore()
        both = [tree.start("--jobs", jobs) for jobs in ("1", str(1 + number % 2))]
        for process in both:
            _, err = process.communicate()
            assert (process.returncode, err) == (0, b""), err.decode()
        assert tree.fixed() == len(tree.before)
        assert tree.litter() == []
    return time.monotonic() - begun
