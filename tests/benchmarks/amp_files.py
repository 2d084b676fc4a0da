"""Only the files that speak of AMP: beside libcst's parser alone, and beside TorchFix."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.measure import CHECK, TORCHFIX, Bench, Row, compared, run

PARSE = "import sys, libcst\nfor name in sys.argv[1:]:\n    libcst.parse_module(open(name, 'rb').read())"
THEIRS = "`libcst.parse_module` (CPU)"


def rows(bench: Bench) -> Iterator[Row]:
    """Processor time of each; of TorchFix, which takes minutes, of one run."""
    torchfix = bench.environment("torchfix", TORCHFIX) / "torchfix"
    costs = bench.processes(
        {
            "amplint": [bench.amplint / "amplint", *CHECK, *bench.amp_files],
            THEIRS: [bench.amplint / "python", "-c", PARSE, *bench.amp_files],
        }
    )
    work = f"its {len(bench.amp_files)} files that speak of AMP"
    yield compared(work, costs["amplint"].cpu, THEIRS, costs[THEIRS].cpu, 1)
    slow = run([torchfix, *bench.amp_files])
    yield compared(work, costs["amplint"].cpu, f"`{TORCHFIX}` (CPU, one run)", slow.cpu, 1 / 40)
