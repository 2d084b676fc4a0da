"""How much longer ten times the code takes, in lines, branches, calls, functions and files."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from amplint import check
from amplint.config.settings import Overrides, Resolver
from amplint.runner import Mode, run
from tests.benchmarks.measure import Bench, Row
from tests.shapes import PROJECTS, SHAPES

TIMES, MOST = 10, 11
PLANTED = "AMP401"


def rows(bench: Bench) -> Iterator[Row]:
    """Processor time without what is loaded once, and whether what is planted is found."""
    for name, (make, size) in SHAPES.items():
        yield _row(bench, name, size, lambda count, make=make: lambda: _codes_in(make(count)), lambda _: 1)
    for name, (write, size) in PROJECTS.items():
        with tempfile.TemporaryDirectory() as folder:
            yield _row(
                bench,
                name,
                size,
                lambda count, write=write: _project(Path(folder, f"{count}"), write(count)),
                lambda count: count,
            )


def _row(
    bench: Bench, name: str, size: int, work: Callable[[int], Callable[[], list[str]]], planted: Callable[[int], int]
) -> Row:
    counts = (size, TIMES * size)
    cases = {f"{count}": work(count) for count in counts}
    measured = bench.alternate({count: lambda case=case: _timed(case) for count, case in cases.items()})
    small, large = (median(seconds for seconds, _ in measured[f"{count}"]) for count in counts)
    found = all(codes.count(PLANTED) == planted(int(count)) for count, each in measured.items() for _, codes in each)
    ratio = large / small
    return Row(
        f"{TIMES} x the {name}: {counts[1]}{'' if found else f', {PLANTED} not found'}",
        f"{1000 * large:.0f} ms",
        f"{counts[0]}: {1000 * small:.0f} ms",
        f"{ratio:.1f}",
        f"at most {MOST}, found",
        found and ratio <= MOST,
    )


def _timed(case: Callable[[], list[str]]) -> tuple[float, list[str]]:
    start = time.process_time()
    codes = case()
    return time.process_time() - start, codes


def _codes_in(text: str) -> list[str]:
    return [each.code for each in check(text)]


def _project(folder: Path, files: dict[str, str]) -> Callable[[], list[str]]:
    """What lints a project, in this process."""
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    paths = [str(folder / name) for name in files]

    def lint() -> list[str]:
        outcomes = run(paths, Resolver(Overrides(isolated=True)), Mode.CHECK)
        return [each.code for outcome in outcomes if outcome.result for each in outcome.result.findings]

    return lint
