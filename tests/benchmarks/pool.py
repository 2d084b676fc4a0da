"""From how many files on two processes are faster than one."""

from __future__ import annotations

import random
from collections.abc import Iterator

from amplint.run import MANY
from tests.benchmarks.measure import CHECK, Bench, Row, compared

SEED = 0
COUNTS = (MANY // 4, MANY // 2, MANY, 2 * MANY, 4 * MANY)
START = "import amplint.run as run, sys; from amplint.cli import main; run.MANY = 1; sys.exit(main(sys.argv[1:]))"


def rows(bench: Bench) -> Iterator[Row]:
    """Wall clock of two processes and of one, on files that are parsed; at MANY and above two have to be faster."""
    for count in COUNTS:
        files = sorted(random.Random(SEED).sample(bench.amp_files, count))
        command = [bench.amplint / "python", "-c", START, *CHECK]
        cases = {jobs: [*command, "--jobs", jobs, *files] for jobs in ("1", "2")}
        costs = bench.processes(cases)
        row = compared(f"two processes, {count} files", costs["2"].wall, "one (wall clock)", costs["1"].wall, 1)
        yield row if count >= MANY else row._replace(bar=f"not used below {MANY}", met=None)
