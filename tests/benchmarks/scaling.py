"""How long a function takes that is ten times as long: `python -m tests.benchmarks.scaling`."""

from __future__ import annotations

import time

from amplint import check
from tests.shapes import SHAPES


def main() -> None:
    """Print the seconds of processor time for each shape, and for ten times of it."""
    check("import torch\nscaler = torch.amp.GradScaler('cuda')\n")  # what is loaded once
    for name, (make, size) in SHAPES.items():
        seconds = []
        for each in (size, 10 * size):
            start = time.process_time()
            check(make(each))
            seconds.append(time.process_time() - start)
        first, second = seconds
        print(f"{name:9} {size:3}: {first:.3f} s   {10 * size:3}: {second:.3f} s   x {second / first:.1f}")


if __name__ == "__main__":
    main()
