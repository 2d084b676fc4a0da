"""Gradients that Weights & Biases logs during a scaled backward pass (AMP409).

`wandb.watch` registers a hook on each parameter that logs a histogram of its gradient in the backward pass, before
anything can unscale it. As of wandb 0.22 (wandb/sdk/wandb_watch.py, wandb/integration/torch/wandb_torch.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.syntax import ir
from amplint.model.usage.accelerators import accelerators
from amplint.rules.shared.scaler_usage import overflows, scales_in_sight, trains_off

if TYPE_CHECKING:
    from amplint.model import Module

_LOG = 2  # the position of `log`
_OF_GRADIENTS = ("gradients", "all")
_RUNS = ("wandb", "run")


def watched_gradients(module: Module) -> Iterator[ir.Call]:
    """The calls by which wandb logs gradients, where a scaler or accelerate scales a loss of a float16 region."""
    calls = [each for each in module.own.near("watch").calls if _logs_gradients(module, each)]
    if calls and (_scales(module) or any(each.how.by_default for each in accelerators(module).scaled_backwards())):
        yield from calls


def _scales(module: Module) -> bool:
    return overflows(module) and not trains_off(module) and scales_in_sight(module)


def _logs_gradients(module: Module, call: ir.Call) -> bool:
    """Whether a call is `wandb.watch(model)`, which logs gradients unless `log` says otherwise."""
    names = module.names.of(call.func)
    base = ir.called_on(call, "watch")
    if names != {"wandb.watch"} and (base is None or ir.last_name(base) not in _RUNS):
        return False
    given = call.keyword("log") or (call.positional[_LOG] if len(call.positional) > _LOG else None)
    if given is None:
        return not call.unpacks()
    return isinstance(given, ir.Constant) and given.value in _OF_GRADIENTS
