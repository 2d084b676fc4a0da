"""What is known from the run before: a whole tree anew, once more, and with one file changed, next to ruff without its
cache.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from tests.benchmarks.measure import CHECK, RUFF, Bench, Cost, Row, compared, run

# Of what anew without a cache takes, at most.
_ANEW = 1.02


def rows(bench: Bench) -> Iterator[Row]:
    """Processor time of each, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        tree, kept = Path(folder) / "tree", Path(folder) / "kept"
        shutil.copytree(bench.tree, tree)
        time.sleep(3)  # what has just been written may change once more and look the same
        amplint, ruff = bench.amplint / "amplint", bench.environment("ruff", RUFF) / "ruff"
        command = [amplint, *CHECK, "--cache-dir", kept, tree]
        theirs = f"`{RUFF}` without its cache (CPU)"

        def anew() -> Cost:
            shutil.rmtree(kept, ignore_errors=True)
            return run(command)

        def after(name: str) -> Callable[[], Cost]:
            def changed() -> Cost:
                with (tree / name).open("a") as file:
                    file.write("# changed\n")
                return run(command)

            return changed

        amp = str(Path(bench.amp_files[0]).relative_to(bench.tree))
        other = next(each for each in bench.files if each not in bench.amp_files)
        ours: dict[str, Callable[[], Cost]] = {
            "without": lambda: run([amplint, *CHECK, "--no-cache", tree]),
            "anew": anew,
            "again": lambda: run(command),
            "after a change of a file with AMP": after(amp),
            "after a change of a file without AMP": after(str(Path(other).relative_to(bench.tree))),
        }
        found = bench.alternate({**ours, theirs: lambda: run([ruff, "check", "--no-cache", "--isolated", tree])})
        cost = {name: median(each.cpu for each in costs) for name, costs in found.items()}
    yield compared("whole tree, nothing known", cost["anew"], "`--no-cache` (CPU)", cost["without"], _ANEW)
    for name in [*ours][2:]:
        yield compared(f"whole tree, {name}", cost[name], theirs, cost[theirs], 1)
