"""What the doctor costs a step: in turns with the same step without it, next to the noise of two that are alike.

`python -m tests.benchmarks.doctor` prints for each model the median of the pairs' ratios with its quartiles, and the
milliseconds that a step takes longer. `detect_anomaly` is torch's, `DebugUnderflowOverflow` that of transformers, if it
is installed. A step with a scaler is in float16 on a GPU, else in bfloat16. On the CPU the time is the processor's.

With `--device cuda` the same on a GPU, by the clock, with two larger models as well; and what the doctor adds to a step
there: launches of kernels, waits for the device, and memory.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import nn

Step = Callable[[], None]
Condition = Callable[["Trained"], AbstractContextManager[Any]]
_WARM = 4  # steps before those that are measured: the doctor looks at the first ones more closely
_WARM_ON_DEVICE = 33
_QUIET = (33, 61)  # steps that are traced: the doctor looks through the graph of the 32nd and the 64th
_ASKED = {
    "launches": ("cudaLaunchKernel", "cuLaunchKernel"),
    "waits": ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize"),
    "copies": ("cudaMemcpyAsync", "cudaMemcpy "),
}


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(width), nn.BatchNorm2d(width)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(x + self.norms[1](self.second(inner)))


def resnet(width: int = 32, batch: int = 16) -> tuple[nn.Module, torch.Tensor]:
    model = nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        *(Residual(width) for _ in range(6)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(width, 10),
    )
    return model, torch.randn(batch, 3, 32, 32)


def large_resnet() -> tuple[nn.Module, torch.Tensor]:
    return resnet(128, 256)


def transformer(width: int = 256, layers: int = 6, batch: int = 4, length: int = 128) -> tuple[nn.Module, torch.Tensor]:
    layer = nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout=0.1, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, layers), nn.Linear(width, 10))
    return model, torch.randn(batch, length, width)


def large_transformer() -> tuple[nn.Module, torch.Tensor]:
    return transformer(1024, 12, 16, 512)


def tiny() -> tuple[nn.Module, torch.Tensor]:
    parts = [part for _ in range(40) for part in (nn.Linear(16, 16), nn.ReLU())]
    return nn.Sequential(*parts, nn.Linear(16, 10)), torch.randn(8, 16)


_MODELS: dict[str, tuple[Callable[[], tuple[nn.Module, torch.Tensor]], int]] = {  # with steps of a pair on the CPU
    "resnet": (resnet, 2),
    "transformer": (transformer, 1),
    "tiny": (tiny, 20),
    "large_resnet": (large_resnet, 1),
    "large_transformer": (large_transformer, 1),
}


class Trained(NamedTuple):
    """A training step, and its model."""

    step: Step
    model: nn.Module
    device: str


def trained(make: Callable[[], tuple[nn.Module, torch.Tensor]], device: str, *, with_scaler: bool = True) -> Trained:
    """A training step with a scaler, or in bfloat16 without one."""
    torch.manual_seed(0)
    model, inputs = make()
    model, inputs = model.to(device), inputs.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler(device, enabled=with_scaler)
    dtype = torch.float16 if with_scaler and device != "cpu" else torch.bfloat16

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(device, dtype=dtype):
            output = model(inputs)
            output = output.mean(1) if output.dim() == 3 else output
            loss = nn.functional.cross_entropy(output.float(), torch.arange(len(output), device=device) % 10)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return Trained(step, model, device)


def nothing(_: Trained) -> AbstractContextManager[Any]:
    return nullcontext()


def observed(_: Trained) -> AbstractContextManager[Any]:
    from amplint.doctor import observe

    return observe(quiet=True)


def anomaly(_: Trained) -> AbstractContextManager[Any]:
    return torch.autograd.set_detect_anomaly(True)


@contextmanager
def debug_underflow_overflow(of: Trained) -> Iterator[None]:
    """transformers' hooks on all modules, which are removed after the block."""
    modules = list(of.model.modules())
    before = [set(each._forward_hooks) for each in modules]
    importlib.import_module("transformers.debug_utils").DebugUnderflowOverflow(of.model)
    yield
    for module, known in zip(modules, before, strict=True):
        for key in set(module._forward_hooks) - known:
            del module._forward_hooks[key]


def seconds(of: Trained, times: int) -> float:
    """What a step takes: of the processor, or by the clock on a device, which is waited for."""
    if of.device == "cpu":
        start = time.process_time()
        for _ in range(times):
            of.step()
        return (time.process_time() - start) / times
    torch.accelerator.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        of.step()
    torch.accelerator.synchronize()
    return (time.perf_counter() - start) / times


def compare(of: Trained, condition: Condition, *, pairs: int, times: int) -> list[tuple[float, float]]:
    """For each pair: seconds of a step without the condition and with it, in turns."""
    found = []
    for number in range(pairs):
        both = {}
        for with_it in (number % 2 == 0, number % 2 == 1):
            with ExitStack() as stack:
                stack.enter_context(condition(of) if with_it else nullcontext())
                for _ in range(_WARM if of.device == "cpu" else _WARM_ON_DEVICE):
                    of.step()
                both[with_it] = seconds(of, times)
        found.append((both[False], both[True]))
    return found


def traced(of: Trained, condition: Condition) -> Counter[str]:
    """What the driver is asked for in an average step: launches of kernels, waits, copies; and MiB at most."""
    counts: Counter[str] = Counter()
    with condition(of):
        for _ in range(_QUIET[0]):
            of.step()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profile:
            for _ in range(*_QUIET):
                of.step()
    for event in profile.events() or ():
        for kind, starts in _ASKED.items():
            counts[kind] += event.name.startswith(starts)
    of_step = Counter({kind: round(number / (_QUIET[1] - _QUIET[0])) for kind, number in counts.items()})
    of_step["MiB"] = torch.cuda.max_memory_allocated() >> 20
    return of_step


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.doctor", description=(__doc__ or "").strip())
    parser.add_argument("names", nargs="*", metavar="model", help=f"only these of {', '.join(_MODELS)}")
    parser.add_argument("--device", default="cpu", help="where the models are [default: %(default)s]")
    parser.add_argument("--pairs", type=int, default=40, metavar="N", help="of each [default: %(default)s]")
    options = parser.parse_args()
    torch.set_num_threads(1)
    is_cpu = options.device == "cpu"
    few = max(2, options.pairs // 8)  # of what costs much
    conditions: list[tuple[str, Condition, int]] = [
        ("nothing (noise)", nothing, options.pairs),
        ("amplint run", observed, options.pairs),
        ("detect_anomaly", anomaly, few),
    ]
    if importlib.util.find_spec("transformers"):
        conditions.append(("DebugUnderflowOverflow", debug_underflow_overflow, few))
    names = options.names or [name for name in _MODELS if not (is_cpu and name.startswith("large"))]
    print(f"{'model':17} {'condition':34} {'ms a step':>10} {'ratio':>7} {'quartiles':>15} {'+ms':>8}")
    for make, times in ((_MODELS[name][0], _MODELS[name][1] if is_cpu else 20) for name in names):
        for with_scaler in (True, False):
            of = trained(make, options.device, with_scaler=with_scaler)
            seconds(of, 3 if is_cpu else 50)
            for name, condition, pairs in conditions:
                found = compare(of, condition, pairs=pairs, times=times)
                ratios = sorted(with_it / without for without, with_it in found)
                quartiles = statistics.quantiles(ratios, n=4)
                longer = statistics.median(with_it - without for without, with_it in found)
                named = f"{name}{'' if with_scaler else ', no scaler'}"
                base = statistics.median(without for without, _ in found)
                print(
                    f"{make.__name__:17} {named:34} {base * 1e3:10.2f} {quartiles[1]:7.3f} "
                    f"{quartiles[0]:7.3f}-{quartiles[2]:.3f} {longer * 1e3:8.3f}",
                    flush=True,
                )
            if not is_cpu:
                for name, condition in (("alone", nothing), ("amplint run", observed)):
                    print(f"{make.__name__:17} a step of {name}: {dict(traced(of, condition))}", flush=True)


if __name__ == "__main__":
    main()
