"""What the plugin adds to flake8, on a tenth of a tree."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.benchmarks.measure import FLAKE8, Bench, Row, compared

SEED = 0


def rows(bench: Bench) -> Iterator[Row]:
    """Processor time of flake8 with amplint installed, and without."""
    chosen = sorted(random.Random(SEED).sample(bench.files, len(bench.files) // 10))
    options = ["--isolated", "--exit-zero", "--jobs", "1"]
    name = f"`{FLAKE8}` alone (CPU)"
    costs = bench.processes(
        {
            "plugin": [bench.amplint / "flake8", *options, *chosen],
            name: [bench.environment("flake8", FLAKE8) / "flake8", *options, *chosen],
        }
    )
    yield compared(f"flake8 with the plugin, {len(chosen)} files", costs["plugin"].cpu, name, costs[name].cpu, 1.1)
