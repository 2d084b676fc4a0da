"""What the doctor costs a step: in turns with the same step without it, next to the noise of two that are alike.

`python -m tests.benchmarks.doctor` prints for each model the median of the pairs' ratios with its quartiles, and the
milliseconds that a step takes longer; `detect_anomaly` is torch's.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import torch
from torch import nn

Step = Callable[[], None]
_WARM = 4  # steps before those that are measured: the doctor looks at the first ones more closely


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(width), nn.BatchNorm2d(width)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(x + self.norms[1](self.second(inner)))


def resnet() -> tuple[nn.Module, torch.Tensor]:
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        *(Residual(32) for _ in range(6)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    return model, torch.randn(16, 3, 32, 32)


def transformer() -> tuple[nn.Module, torch.Tensor]:
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.1, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 6), nn.Linear(256, 10))
    return model, torch.randn(4, 128, 256)


def tiny() -> tuple[nn.Module, torch.Tensor]:
    parts = [part for _ in range(40) for part in (nn.Linear(16, 16), nn.ReLU())]
    return nn.Sequential(*parts, nn.Linear(16, 10)), torch.randn(8, 16)


def step_of(make: Callable[[], tuple[nn.Module, torch.Tensor]], *, with_scaler: bool = True) -> Step:
    """A training step in bfloat16, with a scaler or without."""
    torch.manual_seed(0)
    model, inputs = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler("cpu", enabled=with_scaler)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            output = model(inputs)
            output = output.mean(1) if output.dim() == 3 else output
            loss = nn.functional.cross_entropy(output.float(), torch.arange(len(output)) % 10)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


def observed() -> AbstractContextManager[Any]:
    from amplint.doctor import observe

    return observe(quiet=True)


def anomaly() -> AbstractContextManager[Any]:
    return torch.autograd.set_detect_anomaly(True)


def seconds(step: Step, times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        step()
    return (time.process_time() - start) / times


def compare(
    step: Step, condition: Callable[[], AbstractContextManager[Any]], *, pairs: int, times: int
) -> list[tuple[float, float]]:
    """For each pair: seconds of a step without the condition and with it, in turns."""
    found = []
    for number in range(pairs):
        both = {}
        for with_it in (number % 2 == 0, number % 2 == 1):
            with ExitStack() as stack:
                stack.enter_context(condition() if with_it else nullcontext())
                for _ in range(_WARM):
                    step()
                both[with_it] = seconds(step, times)
        found.append((both[False], both[True]))
    return found


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'model':12} {'condition':24} {'ms a step':>10} {'ratio':>7} {'quartiles':>15} {'+ms':>8}")
    for make, times in ((resnet, 2), (transformer, 1), (tiny, 20)):
        for with_scaler in (True, False):
            step = step_of(make, with_scaler=with_scaler)
            seconds(step, 3)
            for name, condition, pairs in (
                ("nothing (noise)", nullcontext, 40),
                ("amplint run", observed, 40),
                ("detect_anomaly", anomaly, 5),
            ):
                found = compare(step, condition, pairs=pairs, times=times)
                ratios = sorted(with_it / without for without, with_it in found)
                quartiles = statistics.quantiles(ratios, n=4)
                longer = statistics.median(with_it - without for without, with_it in found)
                named = f"{name}{'' if with_scaler else ', no scaler'}"
                base = statistics.median(without for without, _ in found)
                print(
                    f"{make.__name__:12} {named:24} {base * 1e3:10.2f} {quartiles[1]:7.3f} "
                    f"{quartiles[0]:7.3f}-{quartiles[2]:.3f} {longer * 1e3:8.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
