"""A whole tree, most files of which have nothing to do with AMP: beside ruff, and how much memory it takes."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.measure import CHECK, RUFF, Bench, Row, compared, run

MOST_MEMORY = 150


def rows(bench: Bench) -> Iterator[Row]:
    """Processor time, and memory of one process."""
    amplint, ruff = bench.amplint / "amplint", bench.environment("ruff", RUFF) / "ruff"
    theirs = f"`{RUFF}` (CPU)"
    costs = bench.processes(
        {
            "amplint": [amplint, *CHECK, bench.tree],
            theirs: [ruff, "check", "--no-cache", "--isolated", bench.tree],
        }
    )
    work = f"whole transformers tree, {len(bench.files):,} files"
    yield compared(work, costs["amplint"].cpu, theirs, costs[theirs].cpu, 1)
    memory = run([amplint, *CHECK, "--jobs", "1", bench.tree]).memory
    bar = f"at most {MOST_MEMORY} MiB"
    yield Row("the same in one process, memory", f"{memory:.0f} MiB", "", "", bar, memory <= MOST_MEMORY)
