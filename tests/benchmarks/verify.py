"""How long `amplint verify` takes for steps with four conditions each: `python -m tests.benchmarks.verify [N]`.

Each step is in a file of its own and is run as it is and with its fixes: all sixteen combinations, beside the
reference. What it takes to start the worker and to import torch is left out.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

from amplint.settings import Settings
from amplint.verify.shows import SHOWS
from amplint.verify.training import Verifier

STEP = """
import torch
from torch.amp import GradScaler


def train_{number}(model, criterion, loader, args):
    optimizer = torch.optim.{optimizer}(model.parameters(), lr=args.lr)
    scaler = GradScaler("{device}", enabled=args.amp)
    for step, (inputs, targets) in enumerate(loader):
        with torch.autocast("{device}", enabled=args.amp):
            loss = criterion(model(inputs), targets)
        scaler.scale(loss / args.accumulate).backward()
        if (step + 1) % args.accumulate == 0:
            {unscale}
            if args.max_value > 0:
                torch.nn.utils.clip_grad_value_(model.parameters(), args.max_value)
            if args.max_norm > 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_norm)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""


def program(number: int) -> str:
    """One of the programs: every other one clips scaled gradients."""
    unscale = "scaler.unscale_(optimizer)" if number % 2 else "pass"
    return STEP.format(
        number=number,
        optimizer=("SGD", "Adam", "AdamW")[number % 3],
        device=("cuda", "cpu", "xpu")[number // 2 % 3],
        unscale=unscale,
    )


def main(count: int) -> None:
    """Print seconds, runs and verdicts."""
    settings = Settings(frozenset(SHOWS), isolated=True)
    verdicts: Counter[str] = Counter()
    runs, inside = 0, 0.0
    with Verifier() as verifier:
        verifier.verify("warm.py", program(0).encode(), settings)
        start = time.perf_counter()
        for number in range(count):
            for row in verifier.verify(f"train_{number}.py", program(number).encode(), settings):
                verdicts[row.verdict] += 1
                runs += row.runs
                inside += row.seconds
        seconds = time.perf_counter() - start
    said = ", ".join(f"{many} {verdict}" for verdict, many in sorted(verdicts.items()))
    print(f"{count} steps in {seconds:.1f} s: {said}")
    print(f"{runs} runs in {inside:.1f} s of these, {runs / inside:.0f} a second")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
