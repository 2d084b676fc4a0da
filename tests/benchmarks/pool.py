"""From how many files on two processes are faster than one: short files, where that takes the most of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from amplint.runner import MANY
from tests.benchmarks.measure import CHECK, Bench, Row, compared
from tests.shapes import files

COUNTS = (MANY // 4, MANY // 2, MANY, 2 * MANY, 4 * MANY)
START = "import amplint.runner as run, sys; from amplint.cli import main; run.MANY = 1; sys.exit(main(sys.argv[1:]))"


def rows(bench: Bench) -> Iterator[Row]:
    """Wall clock of two processes and of one; from MANY files on two have to be faster."""
    command = [bench.amplint / "python", "-c", START, *CHECK]
    for count in COUNTS:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files(count).items():
                Path(folder, name).write_text(text)
            cases = {jobs: [*command, "--jobs", jobs, folder] for jobs in ("1", "2")}
            costs = bench.processes(cases)
        row = compared(f"two processes, {count} short files", costs["2"].wall, "one (wall clock)", costs["1"].wall, 1)
        yield row if count >= MANY else row._replace(bar=f"not used below {MANY}", met=None)
