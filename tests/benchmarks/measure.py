"""What benchmarks share: rows of the table, processes and what they cost, environments and sources to run them on."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeVar

from amplint.config.settings import Overrides, Resolver
from amplint.engine.prefilter import opens
from tests.field.fetch import fetch
from tests.field.lint import REPOSITORY
from tests.field.packages import choose, read_packages

T = TypeVar("T")
RUFF, TORCHFIX, FLAKE8 = "ruff==0.17.5", "torchfix==0.7.0", "flake8==7.5.0"
CHECK = ("--isolated", "--exit-zero", "--quiet")


class Row(NamedTuple):
    """One line of the table. `met` is None where there is nothing to meet."""

    work: str
    amplint: str
    compared: str
    ratio: str
    bar: str
    met: bool | None


class Cost(NamedTuple):
    """What a process and its children took: seconds of processor and of wall clock, and MiB at the most."""

    cpu: float
    wall: float
    memory: float


class Bench:
    """Where benchmarks run: the cache with sources and environments, and how often."""

    def __init__(self, cache: Path, runs: int) -> None:
        self.cache = cache
        self.runs = runs

    @cached_property
    def tree(self) -> Path:
        """The package that is linted as a whole."""
        [package] = choose(read_packages(), ["transformers"], ci=False)
        return fetch(package, self.cache)

    @cached_property
    def files(self) -> list[str]:
        """Its files."""
        return sorted(map(str, self.tree.rglob("*.py")))

    @cached_property
    def amp_files(self) -> list[str]:
        """Those of them that speak of AMP: which amplint looks into."""
        codes = Resolver(Overrides(isolated=True)).for_file(self.files[0]).codes
        return [each for each in self.files if opens(Path(each).read_bytes(), codes)]

    @cached_property
    def amplint(self) -> Path:
        """The folder of commands of an environment in which this amplint is installed, as a user would have it."""
        commands = self.environment("amplint", FLAKE8, f"{REPOSITORY}")
        # It may have changed since, and its version not.
        _pip(commands, "--force-reinstall", "--no-deps", f"{REPOSITORY}")
        return commands

    def environment(self, name: str, *requirements: str) -> Path:
        """The folder of commands of a virtual environment, made unless the cache has it."""
        folder = self.cache / f"benchmark-{name}"
        commands = folder / ("Scripts" if os.name == "nt" else "bin")
        done = folder / "installed"
        if not done.exists() or done.read_text() != "\n".join(requirements):
            print(f"making an environment for {name}", file=sys.stderr, flush=True)
            venv.create(folder, clear=True, with_pip=True)
            _pip(commands, *requirements)
            done.write_text("\n".join(requirements))
        return commands

    def alternate(self, cases: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
        """What each of `cases` gives, in turns, so that what else the machine does falls on all alike."""
        for case in cases.values():
            case()  # files come from the disk's cache afterwards, and modules are compiled
        found: dict[str, list[T]] = {name: [] for name in cases}
        for _ in range(self.runs):
            for name, case in cases.items():
                found[name].append(case())
        return found

    def processes(self, cases: Mapping[str, Sequence[str | Path]], cwd: Path | None = None) -> dict[str, Cost]:
        """The medians of what commands cost that are run in turns."""
        found = self.alternate({name: lambda command=command: run(command, cwd) for name, command in cases.items()})
        return {name: Cost(*map(median, zip(*costs, strict=True))) for name, costs in found.items()}


def run(command: Sequence[str | Path], cwd: Path | None = None) -> Cost:
    """What a command costs, and what it says nobody reads. Memory is never less than this process has."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    started = os.times().elapsed
    process = subprocess.Popen(
        list(map(str, command)), cwd=cwd, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {said.decode(errors='replace')[-500:]}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Cost(used.ru_utime + used.ru_stime, os.times().elapsed - started, used.ru_maxrss * unit / 2**20)


def compared(work: str, ours: float, name: str, theirs: float, most: float, unit: str = "s") -> Row:
    """A row in which amplint may take at most `most` times what something else takes."""
    bar = f"at most 1/{1 / most:.0f}" if most < 0.5 else f"at most {most:g}"
    return Row(
        work, _said(ours, unit), f"{name}: {_said(theirs, unit)}", _times(ours / theirs), bar, ours <= most * theirs
    )


def above(work: str, ours: float, name: str, theirs: float, most: float) -> Row:
    """A row in which amplint may take at most `most` seconds more than something else."""
    more = f"+{1000 * (ours - theirs):.0f} ms"
    return Row(
        work, _said(ours, "ms"), f"{name}: {_said(theirs, 'ms')}", more, f"+{1000 * most:.0f} ms", ours - theirs <= most
    )


def table(rows: Sequence[Row]) -> str:
    """The rows in Markdown."""
    lines = ["| work | amplint | compared with | ratio | bar | met |", "|---|---|---|---|---|---|"]
    said = {True: "yes", False: "no", None: ""}
    return "\n".join([*lines, *(f"| {' | '.join(row[:-1])} | {said[row.met]} |" for row in rows)])


def _said(amount: float, unit: str) -> str:
    return f"{1000 * amount:.0f} ms" if unit == "ms" else f"{amount:.2f} {unit}"


def _times(ratio: float) -> str:
    return f"1/{1 / ratio:.0f}" if ratio < 0.1 else f"{ratio:.2f}"


def _pip(commands: Path, *arguments: str) -> None:
    command = [str(commands / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, capture_output=True)
