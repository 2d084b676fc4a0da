"""How long `amplint verify` takes for steps with four conditions each.

Each step is in a file of its own and is run as it is and with its fixes: all sixteen combinations, beside the
reference. What it takes to start the worker and to import torch is left out.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

from amplint.config.settings import Settings
from amplint.registry import all_rules
from amplint.verify.steps.verify import Verifier
from tests.benchmarks.measure import Bench, Row

STEPS, MOST_SECONDS = 100, 60

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


def rows(_: Bench) -> Iterator[Row]:
    """Wall clock of one pass over all the steps."""
    settings = Settings(frozenset(all_rules()), isolated=True)
    verdicts: Counter[str] = Counter()
    runs = 0
    with Verifier() as verifier:
        verifier.verify("warm.py", program(0).encode(), settings)
        start = time.perf_counter()
        for number in range(STEPS):
            for row in verifier.verify(f"train_{number}.py", program(number).encode(), settings):
                verdicts[row.verdict] += 1
                runs += row.runs
        seconds = time.perf_counter() - start
    said = ", ".join(f"{many} {verdict}" for verdict, many in sorted(verdicts.items()))
    work = f"verify, {STEPS} steps: {said}"
    rate = f"{runs / seconds:.0f} runs a second"
    yield Row(work, f"{seconds:.1f} s", "", rate, f"at most {MOST_SECONDS} s", seconds <= MOST_SECONDS)
