"""Doing what accelerate's Accelerator does, with a scaler, regions and optimizers of torch's own.

As of accelerate 1.15: `backward` divides by the number of micro steps and scales; clips and `unscale_gradients` unscale
every prepared optimizer; a prepared optimizer steps and updates through the scaler, and under `accumulate` both that
and `zero_grad` wait for the last micro step (accelerate/accelerator.py, accelerate/optimizer.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from amplint.model.syntax import ir
from amplint.model.usage.accelerators import PERIOD
from amplint.verify.interpreter.amp_calls import AmpEvents, GradientCalls, OptimizerCalls
from amplint.verify.interpreter.evaluate import Evaluator
from amplint.verify.interpreter.roles import Roles
from amplint.verify.interpreter.run_state import RunState
from amplint.verify.interpreter.standins import MISSING, CannotFollow, Frame, Site, Unknown
from amplint.verify.interpreter.unscaled_losses import UnscaledLosses

_DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
_ATTRIBUTES = {
    "sync_gradients": "syncs",
    "scaler": "scaler",
    "optimizer_step_was_skipped": "skipped",
    "mixed_precision": "precision",
}
_SAME = ("unwrap_model", "gather", "gather_for_metrics", "reduce", "pad_across_processes")


@dataclass(eq=False)
class Accelerator:
    """An Accelerator of a run. `syncs`: this micro step is the last one of a step."""

    precision: str
    period: Any  # micro steps of a step; None: out of sight
    scaler: torch.amp.GradScaler
    optimizers: list[torch.optim.Optimizer] = field(default_factory=list)  # those prepared
    count: int = 0
    syncs: bool = True
    skipped: bool = False

    def attribute(self, name: str) -> Any:
        """`accelerator.name`."""
        if name == PERIOD and self.period is not None:
            return self.period
        return getattr(self, _ATTRIBUTES[name]) if name in _ATTRIBUTES else Unknown(f"accelerator.{name}")


@dataclass(eq=False)
class Accelerators:
    """Makes and calls Accelerators, and steps the optimizers that they have prepared."""

    _state: RunState
    _evaluator: Evaluator
    _roles: Roles
    _events: AmpEvents
    _optimizers: OptimizerCalls
    _gradients: GradientCalls
    _unscaled: UnscaledLosses
    _accelerator: Accelerator | None = None
    _owners: dict[int, Accelerator] = field(default_factory=dict)  # of prepared optimizers, by their ids

    def made(self, given: dict[str, Any] | None = None) -> Accelerator:
        """A new Accelerator by its constructor's arguments; without them the last one, or one from out of sight."""
        if given is not None or self._accelerator is None:
            known = given or {}
            said = known.get("mixed_precision")
            precision = said if isinstance(said, str) else "fp16"
            if precision is not said:
                named = said.text if isinstance(said, Unknown) else "accelerator.mixed_precision"
                self._state.record.assumed[named] = repr(precision)
            scaler = self._state.stage.scaler(enabled=precision == "fp16")
            self._accelerator = Accelerator(precision, known.get(PERIOD, None if given is None else 1), scaler)
        return self._accelerator

    def as_accelerator(self, value: Any, written: ir.Value, frame: Frame) -> Accelerator | None:
        """The Accelerator that a value is, where it is one or the program calls it so."""
        if isinstance(value, Accelerator):
            return value
        if isinstance(value, Unknown) and frame.code.events.is_accelerator(written):
            return self.made()
        return None

    def attribute(self, value: ir.Attribute, frame: Frame) -> Any:
        """The value of `accelerator.name`; `MISSING`: it is no Accelerator."""
        if frame.code.events.is_accelerator(value.base):
            found = self.as_accelerator(self._evaluator.evaluate(value.base, frame), value.base, frame)
            if found is not None:
                return found.attribute(value.attr)
        return MISSING

    def method(self, found: Accelerator, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """A method of an Accelerator."""
        event = site.event.kind if site.event is not None else ""
        if event == "backward":
            return self._backward(found, args[0] if args else kwargs.get("loss"), site)
        if event in ("unscale_", "clip"):
            self._unscale(found, site)
            return self._gradients.clip(name, args, kwargs, site) if event == "clip" else None
        if name == "accumulate":
            return self._accumulate(found)
        if name == "autocast":
            if found.precision not in _DTYPES:
                return contextlib.nullcontext()
            dtype = _DTYPES[found.precision]
            return self._events.run(site, lambda: torch.autocast(self._state.stage.device, dtype=dtype), of_amp=True)
        if name.startswith("prepare"):
            for each in _optimizers_in(args):
                self._prepare(found, each)
        if (name.startswith("prepare") or name in _SAME) and args:
            return args[0] if len(args) == 1 else tuple(args)
        return Unknown(site.text, inputs=tuple(args))

    def _backward(self, found: Accelerator, given: Any, site: Site) -> Any:
        loss = self._roles.as_loss(given, site)
        scaled = loss / found.period if isinstance(found.period, int) and found.period > 1 else loss
        made = self._events.run(site, lambda: found.scaler.scale(scaled))
        if found.scaler.is_enabled():
            self._state.record.by_accelerate = True
            self._unscaled.scaled(made)
        return self._gradients.backward([made], site)

    def _accumulate(self, found: Accelerator) -> contextlib.nullcontext[None]:
        """A micro step begins."""
        if not isinstance(found.period, int):
            found.period = self._state.facts.number(Unknown(f"accelerator.{PERIOD}"), matters=True)
            self._state.stage.knowledge.learn_period(found.period)
        found.count += 1
        found.syncs = found.count % max(1, found.period) == 0
        return contextlib.nullcontext()

    def _unscale(self, found: Accelerator, site: Site) -> None:
        """Unscale all optimizers: those that were met, and those that the functions step that lead to this line."""
        around = [(ir.function_of(site.call), site.frame), *((each.function, each) for each in self._state.running)]
        for function, frame in around:
            for value in frame.code.events.steppers(function):
                if _is_bound(value, frame):
                    optimizer = self._roles.tool(value, self._evaluator.evaluate(value, frame), frame)
                    if isinstance(optimizer, torch.optim.Optimizer):
                        self._owner(optimizer, site)
        for optimizer in found.optimizers:
            self._events.run(site, lambda: found.scaler.unscale_(optimizer))  # noqa: B023 - called at once

    def _prepare(self, found: Accelerator, optimizer: torch.optim.Optimizer) -> None:
        self._owners[id(optimizer)] = found
        if optimizer not in found.optimizers:
            found.optimizers.append(optimizer)
        if found.scaler.is_enabled():
            self._state.stage.protected.add(id(optimizer))

    def _owner(self, optimizer: torch.optim.Optimizer, site: Site) -> Accelerator | None:
        """Who has prepared an optimizer: what is made by code that isn't run, is so where the file prepares anything.

        Raises:
            CannotFollow: it comes from elsewhere, and not all backwards are an Accelerator's.
        """
        if id(optimizer) not in self._owners and self._accelerator is not None:
            events = site.code.events
            own = id(optimizer) in self._state.stage.own
            if own and events.mixes:
                raise CannotFollow(f"{site.where}: amplint can't see whether the optimizer was prepared")
            if own or (events.prepares and id(optimizer) not in self._state.stage.made_here):
                self._prepare(self._accelerator, optimizer)
        return self._owners.get(id(optimizer))

    def of_optimizer(
        self, optimizer: torch.optim.Optimizer, name: str, args: list[Any], kwargs: dict[str, Any], site: Site
    ) -> Any:
        """A method of an optimizer; one that was prepared waits for the last micro step."""
        found = self._owner(optimizer, site) if name in ("step", "zero_grad") else None
        if found is None:
            return self._optimizers.method(optimizer, name, args, kwargs, site)
        if not found.syncs:
            return self._events.run(site, lambda: None)
        if name == "zero_grad":
            return self._optimizers.method(optimizer, name, args, kwargs, site)
        return self._optimizers.stepped(site, optimizer, lambda: self._step(found, optimizer))

    @staticmethod
    def _step(found: Accelerator, optimizer: torch.optim.Optimizer) -> None:
        before = found.scaler.get_scale()
        found.scaler.step(optimizer)
        found.scaler.update()
        found.skipped = found.scaler.get_scale() < before


def _optimizers_in(values: Iterable[Any]) -> Iterator[torch.optim.Optimizer]:
    """The optimizers among values, in lists too."""
    for each in values:
        if isinstance(each, (list, tuple)):
            yield from _optimizers_in(each)
        elif isinstance(each, torch.optim.Optimizer):
            yield each


def _is_bound(value: ir.Value, frame: Frame) -> bool:
    """Whether an optimizer can be asked for before the line that steps it: its variable has a value."""
    while isinstance(value, (ir.Attribute, ir.Subscript)):
        value = value.base
    home = value.scope.home(value.name) if isinstance(value, ir.Name) else None
    found = frame.find(home) if home is not None else None
    return found is not None and isinstance(value, ir.Name) and (found.lazy or value.name in found.variables)
