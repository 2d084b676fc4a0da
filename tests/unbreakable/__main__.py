"""The long versions: `python -m tests.unbreakable [--times 500]`."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.unbreakable import inside, kill
from tests.unbreakable.tree import make


def main() -> None:
    """Run everything and print a line each; an AssertionError is a loss."""
    parser = argparse.ArgumentParser(prog="python -m tests.unbreakable", description=__doc__)
    parser.add_argument("--times", type=int, default=500, metavar="N", help="runs to kill [default: 500]")
    parser.add_argument("--step", type=int, default=1, metavar="N", help="take each N-th fixture only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for part in ("file", "tree"):
            Path(name, part).mkdir()
        at = kill.at_instructions(Path(name, "file"))
        print(f"a write killed before each of its {at.kills} instructions: {at.litter} temporary files left, 0 losses")
        tree = make(Path(name, "tree"))
        runs = kill.at_moments(tree, options.times)
        print(
            f"{runs.kills} runs over {len(tree.before)} files killed: {runs.halfway} halfway through the files, "
            f"{runs.litter} temporary files left, all removed by the next run, 0 losses; {runs.seconds:.0f} s",
            flush=True,
        )
        both = max(options.times // 10, 1)
        seconds = kill.together(tree, both)
        print(f"{both} times two runs over one tree at once: 0 losses; {seconds:.0f} s", flush=True)
    begun = time.monotonic()
    texts = inside.fixtures(options.step)
    counts = inside.check(texts)
    print(
        f"{len(texts)} fixtures in {len(inside.VARIANTS)} encodings and layouts: {counts.files} files fixed in "
        f"{counts.rounds} rounds by {counts.edits} edits, nothing else changed; {time.monotonic() - begun:.0f} s"
    )


if __name__ == "__main__":
    main()
