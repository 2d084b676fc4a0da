"""Measure what amplint costs, beside other tools: a table of medians, taken in turns in one run."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from tests.benchmarks.measure import Bench, Row, table
from tests.field.fetch import default_cache

NAMES = ("tree", "cache", "amp_files", "startup", "plugin", "scaling", "edits", "pool", "verify", "layers")


def main() -> None:
    """Run what is named, and print its rows."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=(__doc__ or "").strip())
    parser.add_argument("names", nargs="*", metavar="name", help=f"only these of {', '.join(NAMES)}")
    parser.add_argument("--runs", type=int, default=7, metavar="N", help="of each, in turns [default: 7]")
    cache = default_cache()
    parser.add_argument("--cache", type=Path, default=cache, metavar="DIR", help=f"sources and tools, not in {cache}")
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"{', '.join(sorted(unknown))}: not one of {', '.join(NAMES)}")
    bench = Bench(options.cache.expanduser().resolve(), options.runs)
    rows: list[Row] = []
    for name in options.names or NAMES:
        print(f"{name} ...", file=sys.stderr, flush=True)
        for row in import_module(f"tests.benchmarks.{name}").rows(bench):
            print(*row, sep=" | ", file=sys.stderr, flush=True)
            rows.append(row)
    print(table(rows))


if __name__ == "__main__":
    main()
