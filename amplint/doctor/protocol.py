"""The use of autocast and the scaler in a run: what was seen to go wrong, at the line where it was.

Only a consequence that was observed is reported, never a pattern: gradients that were scaled when they were clipped, a
step that divided them twice, a region that a scaler should have gone with. What torch does is measured in the
project's AMP facts and stands in its documentation: https://pytorch.org/docs/stable/amp.html.
"""

# ruff: noqa: D102 - what is heard is documented on Listener
from __future__ import annotations

import dataclasses
import functools
import math
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch.amp.grad_scaler import OptState

from amplint.doctor.by_hand import MEANT_FOR_SCALED, ByHand, clipped
from amplint.doctor.capture import tensors_in
from amplint.doctor.collector import Collector
from amplint.doctor.cuts import Cut
from amplint.doctor.findings import Cause, Evidence, Finding, Place
from amplint.doctor.gradients import (
    Models,
    Without,
    is_unreached,
    is_without,
    left_over,
    modules_of,
    of_replaced,
    parameters_of,
    why_cut,
    why_none,
)
from amplint.doctor.graph import graph_leaves, graph_nodes, next_node, number_of
from amplint.doctor.places import spoken, user_place, users_frames
from amplint.doctor.readings import can_wait_for, may_be_bad
from amplint.doctor.scale import ScaleLog
from amplint.doctor.sources import unregistered
from amplint.doctor.units import Unit, Units
from amplint.explain.search import find
from amplint.verify.bench.instrument import Clip, Listener, Region, gradient, open_regions

_FOLLOWED = 200  # nodes of a graph that are looked through for a scaled loss
_HOOK_CALLS = 64  # of hooks that are looked at
_WINDOWS = 4  # backward passes after which it is looked at what is done to gradients by hand
_UNFED = 64  # checkpoints of a step that are remembered
_LARGEST_HALF = 65504.0  # number in float16
_AGAIN = 3  # scalers made at one line for one optimizer, from which on that is a fault
# Messages of torch/amp/grad_scaler.py, with the rule about each, and what is wrong.
_RAISED = (
    (
        "unscale_() has already been called",
        "AMP405",
        "raises: `unscale_()` was called twice for this optimizer since the last `update()`",
    ),
    (
        "unscale_() is being called after step()",
        "AMP406",
        "raises: `unscale_()` after `step()`; `update()` is missing between them",
    ),
    (
        "step() has already been called",
        "AMP404",
        "raises: `step()` was called twice for this optimizer since the last `update()`",
    ),
    (
        "No inf checks were recorded prior to update",
        "AMP410",
        "raises: `update()`, but no step of this scaler was made since the last one",
    ),
    ("but _scale is None", "AMP418", "raises: the scaler has not scaled any loss yet"),
    (
        "Attempting to unscale FP16 gradients",
        "AMP208",
        "raises: the parameters themselves are float16, and their gradients with them",
    ),
    ("Closure use is not currently supported", "AMP415", "raises: a closure was given to `scaler.step()`"),
    ("The source state dict is empty", "AMP423", "raises: the saved scaler was disabled, this one is enabled"),
)


class _Scaled(NamedTuple):
    """A loss that a scaler has scaled."""

    node: Any  # the node of the graph that scales it
    scaler: torch.amp.GradScaler
    scale: float
    place: Place | None
    is_half: bool = False  # a float16 number of its own, by a scale that is infinite in float16


class _Taken(NamedTuple):
    """Gradients that `torch.autograd.grad` has made of a scaled loss."""

    nodes: set[Any]  # of the graph, that have made them
    scaler: torch.amp.GradScaler
    scale: float
    place: Place | None


class _Unfed(NamedTuple):
    """Parameters in a checkpoint whose result needs no gradient."""

    parameters: list[weakref.ref[torch.Tensor]]
    place: Place | None


class Protocol(Listener):
    """Hears a run, and adds to the `collector` what is wrong with its use of the scaler."""

    def __init__(self, collector: Collector, models: Models) -> None:
        self._collector = collector
        self._models = models
        self._units = Units()
        self._logs: dict[int, ScaleLog] = {}
        self._all_logs: list[ScaleLog] = []
        self._asked_but_off: dict[int, Place | None] = {}  # scalers that are off though asked to be on
        self._made_for: dict[int, dict[Place | None, list[int]]] = {}  # by optimizer and place: scalers stepped with
        self._scaled: list[_Scaled] = []
        self._backward: tuple[torch.amp.GradScaler | None, float, Place | None] = (None, 1.0, None)
        self._made_at: dict[int, Place | None] = {}  # optimizers
        self._new: list[weakref.ref[Any]] = []  # of these, those that have no unit yet
        self._backwards: Counter[int] = Counter()
        self._current: tuple[Any, Any] = (None, None)  # optimizer and scaler of the request that runs
        self._mixed: dict[int, tuple[Unit, Finding]] = {}  # by unit: scaled gradients came to unscaled ones
        self._left: int | None = None  # the number of the first autograd node after the last region
        self._half: _Scaled | None = None  # a float16 loss that has gone backward last
        self._taken: list[_Taken] = []
        self._of_scaled: ScaleLog | None = None
        self._windows: list[ByHand] = []  # what was done to scaled gradients by hand in the first steps
        self._hook_calls = 0
        self._is_by_hand = False  # the program divides gradients by the scale itself
        self._window: ByHand | None = None  # the one that is entered
        self._useless: list[Unit] = []  # whose gradients are about to be clipped as a step has used them
        self._all_backwards = 0
        self._largest: float | None = None  # element of the scaled gradients that are about to be clipped
        self._without: Counter[int] = Counter()  # by optimizer: steps without gradients
        self._with: dict[int, bool] = {}  # optimizers that have stepped with gradients
        self._frozen: dict[int, Finding] = {}  # by optimizer: nothing that it steps is trained, so far
        self._unfed: list[_Unfed] = []
        self.unreached: Without | None = None  # an optimizer without gradients, and nothing says why
        self._off: dict[int, Place | None] = {}  # scalers that the program switches off
        self.scaled_by_off: Place | None = None  # where the one of them was made that has scaled a loss last
        self.float16: Place | None = None  # a float16 region that was entered
        self.requests = 0
        self.skipped = 0
        self.in_a_row = 0  # steps that scalers skipped last

    # --- what others ask

    @property
    def logs(self) -> list[ScaleLog]:
        """The scalers that have stepped."""
        return [log for log in self._all_logs if log.steps]

    @property
    def all_logs(self) -> list[ScaleLog]:
        """All scalers that are enabled."""
        return self._all_logs

    @property
    def units(self) -> Units:
        """The gradients of all optimizers."""
        return self._units

    @property
    def current_scaler(self) -> torch.amp.GradScaler | None:
        """The scaler of the step request that runs, or that ran last; None where the optimizer steps by itself."""
        scaler: torch.amp.GradScaler | None = self._current[1]
        return scaler

    def gradients_taken(self, outputs: Any, result: Any) -> None:
        """`torch.autograd.grad` has returned: are the gradients scaled, and part of a further loss?"""
        roots = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        for root in roots:
            if isinstance(root, torch.Tensor):
                scaled = self._scaled_of(root)
                if scaled is not None:
                    if scaled.is_half and any(each is not None and may_be_bad(each, waits=True) for each in result):
                        self._half = scaled
                        self._half_is_bad("")
                    nodes = {each.grad_fn for each in result if each is not None and each.grad_fn is not None}
                    self._taken = [*self._taken[-8:], _Taken(nodes, scaled.scaler, scaled.scale, user_place())]

    @property
    def scale_in_loss(self) -> ScaleLog | None:
        """The scaler whose scale multiplies gradients that the loss which goes backward is made of, if any does."""
        return self._of_scaled

    def _check_taken(self, roots: Sequence[torch.Tensor]) -> None:
        """Gradients of a scaled loss that a further loss uses, and that nothing has divided by the scale."""
        taken, self._taken = self._taken, []
        for node in graph_nodes(roots):
            for other, _ in node.next_functions:
                for each in taken:
                    if other in each.nodes:
                        self._of_scaled = self._log(each.scaler)
                    if other in each.nodes and each.scale != 1 and not _divides(node, each.scale):
                        self._protocol(
                            "AMP414",
                            f"gradients of a loss that is scaled by {each.scale:,.0f} go into a penalty without being "
                            "divided by the scale",
                            each.place,
                            advice="divide them first: `[g / scaler.get_scale() for g in gradients]`",
                        )
                        return

    def checkpointed(self, function: Any, result: Any) -> None:
        """A checkpoint has returned: may the function have parameters that can't get a gradient through it?"""
        if not torch.is_grad_enabled() or any(each.requires_grad for each in tensors_in(result)):
            return
        trained = [each for module in modules_of(function) for each in module.parameters() if each.requires_grad]
        if trained and len(self._unfed) < _UNFED:
            self._unfed.append(_Unfed([weakref.ref(each) for each in trained], user_place()))

    def _check_unfed(self) -> None:
        """Parameters in checkpoints that have no gradient when an optimizer steps."""
        unfed, self._unfed = self._unfed, []
        for each in unfed:
            parameters = [parameter for reference in each.parameters if (parameter := reference()) is not None]
            if parameters and all(gradient(parameter) is None for parameter in parameters):
                self._collector.add(
                    Finding(
                        Cause.NO_GRADIENTS,
                        Evidence.SEEN,
                        f"{len(parameters)} parameters inside the checkpoint get no gradient: with "
                        "`use_reentrant=True` one of its inputs has to require one",
                        each.place,
                        advice="pass `use_reentrant=False`",
                    )
                )

    def look_for_unregistered(self, roots: Sequence[torch.Tensor]) -> None:
        """Modules in a plain list: they are used and get gradients, and no optimizer has their parameters."""
        found = unregistered(self._models.alive())
        if found is None or not self._units.optimizers():
            return
        name, modules, place = found
        lost = [each for module in modules for each in module.parameters() if self._units.of_parameter(each) is None]
        leaves = {id(each) for each in graph_leaves(roots)} if lost else set()
        if any(id(each) in leaves for each in lost):
            self._collector.add(
                Finding(
                    Cause.NO_GRADIENTS,
                    Evidence.SEEN,
                    f"{len(lost)} parameters of the modules in `{name}` get gradients and no optimizer steps them: a "
                    "plain list or dict doesn't register modules",
                    place or user_place(),
                    advice="use `nn.ModuleList` or `nn.ModuleDict`",
                )
            )

    def look_for_replaced(self, roots: Sequence[torch.Tensor]) -> None:
        """Parameters that have taken the place of those that an optimizer steps: these get no gradients any more."""
        optimizers = self._units.optimizers()
        if not optimizers:
            return
        leaves = {id(each): each for each in graph_leaves(roots)}
        lost = [each for key, each in leaves.items() if self._units.of_parameter(each) is None]
        for model in self._models.alive() if lost else ():
            own = {id(each): name for name, each in model.named_parameters()}
            new = [own[id(each)] for each in lost if id(each) in own]
            for optimizer, _ in optimizers if new else ():
                stepped = list(parameters_of(optimizer))
                is_of_model = any(id(each) in leaves and id(each) in own for each in stepped)
                idle = [each for each in stepped if id(each) not in leaves]
                left = left_over(idle, self._models.alive(), users_frames()) if is_of_model else []
                if left:
                    self._collector.add(of_replaced(left, new, self._made_at.get(id(optimizer)) or user_place()))
                    return

    def _scaled_of(self, root: torch.Tensor) -> _Scaled | None:
        """The scaled loss that a loss which is differentiated is, or goes back to; None for none."""
        by_node = {scaled.node: scaled for scaled in self._scaled}
        scaled = by_node.get(root.grad_fn)
        for node in graph_nodes([root], _FOLLOWED) if by_node and scaled is None else ():
            scaled = next((by_node[other] for other, _ in node.next_functions if other in by_node), None)
            if scaled is not None:
                break
        return scaled

    def is_scaled(self, root: torch.Tensor) -> bool:
        """Whether a loss that is differentiated goes back to one that a scaler has scaled."""
        return self._scaled_of(root) is not None

    def _protocol(
        self,
        code: str,
        message: str,
        place: Place | None,
        *details: str,
        advice: str = "",
        raised: Exception | None = None,
    ) -> None:
        alike = _alike(code, raised) if raised is not None else ()
        finding = Finding(
            Cause.PROTOCOL, Evidence.SEEN, message, place, code, details=details, advice=advice, alike=alike
        )
        self._collector.add(finding, raises=raised is not None)

    def _log(self, scaler: torch.amp.GradScaler) -> ScaleLog:
        log = self._logs.get(id(scaler))
        if log is None or log.scaler() is not scaler:
            log = self._logs[id(scaler)] = ScaleLog(scaler, user_place())
            self._all_logs.append(log)
        return log

    # --- scalers and regions

    def scaler_made(self, scaler: torch.amp.GradScaler, asked: bool) -> None:
        place = user_place()
        for known in (self._asked_but_off, self._off):
            known.pop(id(scaler), None)  # of a scaler that is gone, whose address this one has
        if scaler.is_enabled():
            log = self._logs[id(scaler)] = ScaleLog(scaler, place)
            self._all_logs.append(log)
        elif asked:
            self._asked_but_off[id(scaler)] = place
        else:
            self._off[id(scaler)] = place

    def state_loaded(self, scaler: torch.amp.GradScaler) -> None:
        """A saved state was loaded into a scaler."""
        if scaler.is_enabled():
            self._log(scaler).loaded(user_place())

    def scaler_raised(self, scaler: torch.amp.GradScaler, error: Exception) -> None:
        text, place = str(error), user_place()
        if "No inf checks were recorded for this optimizer" in text:
            optimizer = self._current[0]
            if optimizer is not None:
                self._no_gradients(optimizer, place)
            return
        for part, code, message in _RAISED:
            if part in text:
                optimizer, stepping = self._current
                if code == "AMP418" and stepping is scaler and (unit := self._units.of(optimizer)).has_plain:
                    self._protocol(
                        "AMP403",
                        f"{message}, and the loss of this backward pass was not scaled",
                        unit.plain_at or place,
                        *_at("`step()`", place),
                        advice="`scaler.scale(loss).backward()`",
                        raised=error,
                    )
                elif code == "AMP405":
                    self._unscaled_again(scaler, message, place, error)
                else:
                    self._protocol(code, message, place, raised=error)
                return

    def _unscaled_again(self, scaler: Any, message: str, place: Place | None, error: Exception) -> None:
        """The second `unscale_()` raises: of another backward pass in between nothing else has to be said."""
        between = [unit for unit, _ in self._mixed.values() if unit.unscaler is scaler]
        self._mixed = {key: case for key, case in self._mixed.items() if case[0] not in between}
        if not between:
            self._protocol("AMP405", message, place, raised=error)
            return
        self._protocol(
            "AMP405",
            f"{message}; a backward pass ran in between, and no step",
            place,
            *_at("called before", between[0].unscaled_at),
            advice="call `step()` and `update()` after each `unscale_()`, or `update()` alone where the step is "
            "skipped, as by `continue`; with accumulation call `unscale_()` after the last backward pass only",
            raised=error,
        )

    def _half_is_bad(self, what: str) -> None:
        """What a scale does to a float16 loss that is computed outside of regions has been seen."""
        half, self._half = self._half, None
        if half is not None:
            finding = Finding(
                Cause.PROTOCOL,
                Evidence.SEEN,
                f"the loss is computed in float16, outside autocast: the scale of {half.scale:,.0f} is beyond the "
                f"largest float16 ({_LARGEST_HALF:,.0f}), so its gradient is inf{what}",
                half.place,
                "AMP303",
                advice="compute the loss inside the autocast region, or from `outputs.float()`",
            )
            self._collector.add_unless(finding, self._log(half.scaler).has_settled)

    def _is_outside(self, loss: torch.Tensor) -> bool:
        """Whether the operation that has made a loss ran after the last region was left."""
        number = number_of(loss.grad_fn)
        return number is not None and self._left is not None and number >= self._left and not open_regions()

    def region_left(self) -> None:
        self._left = next_node()

    def scaled(self, scaler: torch.amp.GradScaler, loss: Any, result: Any) -> None:
        if not scaler.is_enabled():
            self.scaled_by_off = self._off.get(id(scaler))
            return
        log = self._log(scaler)
        self._resolve(log)
        scale = log.now()
        losses, results = (each if isinstance(each, (list, tuple)) else [each] for each in (loss, result))
        for before, each in zip(losses, results, strict=False):
            if isinstance(each, torch.Tensor) and each.grad_fn is not None:
                is_half = scale > _LARGEST_HALF and before.dtype is torch.float16 and self._is_outside(before)
                self._scaled.append(_Scaled(each.grad_fn, scaler, scale, user_place(), is_half))
        del self._scaled[:-64]

    # --- backward passes

    def backward_started(self, roots: Sequence[torch.Tensor]) -> None:
        place, self._of_scaled = user_place(), None
        if self._taken:
            self._check_taken(roots)
        self._backward, self._half = (None, 1.0, place), None
        for root in roots:
            scaled = self._scaled_of(root)
            if scaled is not None:
                self._backward = (scaled.scaler, scaled.scale, place)
                self._half = scaled if scaled.is_half else self._half
        self._register()
        for unit in self._units.all():
            unit.settle()  # what has changed since then is not of this backward pass

    def watched_hook(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """A hook that does what another does; in the first steps it is looked at what it does to scaled gradients."""

        @functools.wraps(hook)
        def call(*args: Any, **kwargs: Any) -> Any:
            scaler, scale, _ = self._backward
            if scaler is None or self._hook_calls >= _HOOK_CALLS or not may_have_modes():
                return hook(*args, **kwargs)
            self._hook_calls += 1
            window = ByHand(scale, self._all_parameters)
            window.enter()
            try:
                return hook(*args, **kwargs)
            finally:
                if window.leave():
                    self._changed(window)

        return call

    def _all_parameters(self) -> list[torch.Tensor]:
        return [each for unit in self._units.all() for each in unit.alive()]

    def backward_done(self) -> None:
        scaler, scale, place = self._backward
        self._scaled = (
            [each for each in self._scaled if each.scaler is not scaler] if scaler is not None else self._scaled
        )
        self._all_backwards += 1
        for optimizer, _ in self._units.optimizers():
            self._backwards[id(optimizer)] += 1
        for unit in self._units.all():
            if unit.is_reached():
                self._reached(unit, scaler, scale, place)
        if scaler is not None and len(self._windows) < _WINDOWS:
            if self._window is None and may_have_modes():
                self._window = ByHand(scale)
                self._window.enter()
            if self._window is not None:
                self._window.look_at([each for unit in self._units.all() if unit.is_scaled for each in unit.alive()])

    def _mark_by_hand(self) -> None:
        for unit in self._units.all():
            unit.is_by_hand, unit.is_scaled = unit.is_scaled or unit.is_by_hand, False

    def _leave(self) -> None:
        """The stretch in which scaled gradients may be changed by hand is over."""
        window = self._window
        if window is None:
            if self._is_by_hand:  # as in the steps that were looked at
                self._mark_by_hand()
            return
        if not window.leave():
            self._windows = [window] * _WINDOWS  # the program has entered modes of its own since: no more of this
            return
        self._window = None
        if len(self._windows) >= _WINDOWS:
            return
        self._windows.append(window)
        self._is_by_hand = window.is_unscaled()
        if self._is_by_hand:
            self._mark_by_hand()
        self._changed(window)

    def _changed(self, window: ByHand) -> None:
        """Report what was done to scaled gradients before they were unscaled."""
        if window.scale == 1:
            return
        scale = f"{window.scale:,.0f}"
        if (change := window.clamped()) is not None:
            self._protocol(
                "AMP409",
                f"gradients are clamped to {change.number:g} while they are multiplied by the scale {scale}: "
                f"the largest is {change.largest:.4g}, without the scale {change.largest / window.scale:.4g}",
                change.place,
                advice="call `scaler.unscale_(optimizer)` before the clamp",
            )
        elif (change := window.clipped_row()) is not None:
            self._protocol(
                "AMP409",
                f"rows of gradients are clipped while they are scaled by {scale}: one of norm {change.norm:.3g} to "
                f"{change.number:.3g}, without the scale it has {change.norm / window.scale:.3g}",
                change.place,
                advice="call `scaler.unscale_(optimizer)` before the clip",
            )
        elif (change := window.decayed()) is not None:
            self._protocol(
                "AMP409",
                f"the weight decay is {scale} times too small: it is added to gradients that are scaled by that",
                change.place,
                advice="call `scaler.unscale_(optimizer)` before the weight decay",
            )
        elif (change := clipped(self._windows)) is not None and change.number < window.scale / MEANT_FOR_SCALED:
            self._protocol(
                "AMP409",
                f"gradients are clipped by hand to the norm {change.number:.3g} while they are scaled by {scale}",
                change.place,
                advice="call `scaler.unscale_(optimizer)` before the clip",
            )

    def _reached(self, unit: Unit, scaler: torch.amp.GradScaler | None, scale: float, place: Place | None) -> None:
        unit.backwards += 1
        unit.keep()
        kept = unit.has_gradients and not unit.is_used
        if kept and scaler is not None and unit.is_unscaled and scale != 1:
            finding = Finding(
                Cause.PROTOCOL,
                Evidence.SEEN,
                f"gradients scaled by {scale:,.0f} are added to gradients that `unscale_()` has divided already",
                place,
                "AMP411",
                step=self._collector.step,
                details=tuple(_at("unscaled", unit.unscaled_at)),
                advice="call `unscale_()` once, after the last backward pass of the step",
            )
            self._mixed.setdefault(id(unit), (unit, finding))
        elif kept and scaler is not None and unit.is_scaled and unit.scale != scale:
            self._protocol(
                "AMP411",
                f"gradients scaled by {scale:,.0f} are added to gradients scaled by {unit.scale:,.0f}: "
                "the scale changed while they were accumulated",
                place,
                advice="call `update()` once for each step, after the last micro batch",
            )
        if scaler is None:
            unit.has_plain = True
            unit.plain_at = place
        else:
            unit.is_scaled, unit.scaler, unit.scale = True, scaler, scale
            unit.is_unscaled = False
        if not kept:
            unit.is_unscaled, unit.unscaler = False, None
        unit.has_gradients, unit.is_used, unit.cleared = True, False, None

    def _tell_mixed(self) -> None:
        """Scaled gradients were added to unscaled ones, and no second `unscale_()` has raised since."""
        mixed, self._mixed = self._mixed, {}
        for _, finding in mixed.values():
            self._collector.add(finding)

    def gradients_dropped(self, parameters: Sequence[torch.Tensor], value: torch.Tensor | None = None) -> None:
        place = user_place()
        self._register()
        for unit in self._units.of_parameters(parameters):
            self._tell_clipped(unit)
            unit.clear(place)

    def _register(self) -> None:
        """Have units of the optimizers that were made: when that is heard they have no parameters yet."""
        for reference in self._new:
            if (optimizer := reference()) is not None and hasattr(optimizer, "param_groups"):
                self._units.of(optimizer)
        self._new.clear()

    # --- unscale, clip, step, update

    def unscaled(self, optimizer: Any, scaler: torch.amp.GradScaler) -> None:
        if not scaler.is_enabled():
            return
        self._leave()
        self._tell_mixed()
        unit, place, log = self._units.of(optimizer), user_place(), self._log(scaler)
        if unit.is_unscaled and unit.has_gradients and log.now() != 1:
            self._protocol(
                "AMP405",
                "the gradients are divided by the scale a second time: another `unscale_()` has divided them already",
                place,
                *_at("divided first", unit.unscaled_at),
            )
        elif unit.has_gradients:
            self._divides(unit, scaler, place, "unscale_()")
        unit.is_unscaled, unit.unscaler, unit.unscaled_at, unit.updates = True, scaler, place, log.updates
        unit.is_scaled = False

    def _divides(self, unit: Unit, scaler: torch.amp.GradScaler, place: Place | None, what: str) -> None:
        """A scaler divides gradients by its scale: are they multiplied by it?"""
        log = self._log(scaler)
        now = log.now()
        if now == 1 and (unit.scale == 1 or not unit.is_scaled):
            return  # whatever is divided stays what it is
        if unit.is_by_hand:
            self._divided_by_hand(unit, place, what)
        elif unit.has_plain and not unit.is_scaled:
            if getattr(scaler, "_scale", None) is None:
                return  # it will raise
            self._protocol(
                "AMP403",
                f"`{what}` divides gradients by {now:,.0f} that no `scale()` has multiplied: the loss of this backward "
                "pass was not scaled",
                unit.plain_at or place,
                *_at(f"`{what}`", place),
                advice="`scaler.scale(loss).backward()`",
            )
        elif unit.has_plain:
            self._protocol(
                "AMP403",
                f"a loss that was not scaled adds its gradients to scaled ones: `{what}` divides both by {now:,.0f}",
                unit.plain_at or place,
                *_at(f"`{what}`", place),
                advice="scale every loss of the step: `scaler.scale(loss).backward()`",
            )
        elif unit.is_scaled and unit.scaler is not scaler:
            self._protocol(
                "AMP421",
                f"`{what}` of another scaler divides gradients by {now:,.0f} that were scaled by {unit.scale:,.0f}",
                place,
                advice="scale, unscale and step with the same scaler",
            )
        elif unit.is_scaled and not math.isclose(unit.scale, now) and math.isfinite(unit.scale):
            self._protocol(
                "AMP410",
                f"the gradients were scaled by {unit.scale:,.0f} and `{what}` divides them by {now:,.0f}: "
                "`update()` changed the scale in between",
                log.updated_at or place,
                *_at(f"`{what}`", place),
                advice="call `update()` once, after the steps of all optimizers",
            )

    def clipping(self, clip: Clip) -> None:
        self._largest = None
        units = self._units.of_parameters(clip.parameters)
        self._useless = [unit for unit in units if unit.has_gradients and unit.is_as_used(self._all_backwards)]
        if clip.order == math.inf and any(unit.is_scaled for unit in units):
            self._largest = _largest(clip.parameters)

    def clipped(self, clip: Clip, norm: Any) -> None:
        place = user_place()
        if clip.bound == 0:
            self._collector.add(
                Finding(
                    Cause.NO_GRADIENTS,
                    Evidence.SEEN,
                    "the bound of the clip is 0: all gradients become 0, and the weights don't change",
                    place,
                    advice="pass a bound above 0, or skip the clip where none is wanted",
                )
            )
        for unit in self._units.of_parameters(clip.parameters):
            if unit in self._useless:
                self._clipped_late(unit, clip, _value(norm), place)
            elif unit.is_scaled and unit.has_gradients:
                self._clipped_scaled(unit, clip, _value(norm) if self._largest is None else self._largest, place)

    def _clipped_late(self, unit: Unit, clip: Clip, seen: float | None, place: Place | None) -> None:
        """Gradients were clipped after the step: useless if nothing uses them any more before they are cleared."""
        if math.isinf(clip.bound) or (seen is not None and seen <= clip.bound):
            return  # nothing was clipped, or the norm alone is asked for
        unit.clipped = Finding(
            Cause.PROTOCOL,
            Evidence.SEEN,
            "gradients are clipped after the step has used them: clipping has no effect",
            place,
            "AMP419",
            step=self._collector.step,
            advice="clip before the step",
        )

    def _tell_clipped(self, unit: Unit) -> None:
        """The gradients that were clipped after the step are gone."""
        if unit.clipped is not None:
            self._collector.add(unit.clipped)
            unit.clipped = None

    def _clipped_scaled(self, unit: Unit, clip: Clip, seen: float | None, place: Place | None) -> None:
        """Scaled gradients were clipped. `seen` is their norm, or their largest element; None where it isn't known."""
        if clip.bound >= unit.scale / MEANT_FOR_SCALED or unit.scale == 1:
            return
        numbers = ""
        if seen is not None:
            own = seen / unit.scale
            if not math.isfinite(seen) or seen <= clip.bound:
                return  # the step is skipped, or nothing was clipped
            what = "norm" if clip.order != math.inf or self._largest is None else "largest element"
            numbers = f": the {what} it sees is {seen:.4g}, the gradients' own is {own:.4g} (bound {clip.bound:g})"
        self._protocol(
            "AMP401",
            f"gradients are clipped while they are multiplied by the scale {unit.scale:,.0f}{numbers}",
            place,
            advice="call `scaler.unscale_(optimizer)` before clipping",
        )

    def optimizer_made(self, optimizer: torch.optim.Optimizer) -> None:
        if (frozen := self._frozen.pop(id(optimizer), None)) is not None:
            self._collector.add(frozen)
        for known in (self._backwards, self._without, self._with, self._made_for):
            known.pop(id(optimizer), None)  # of an optimizer that is gone, whose address this one has
        self._made_at[id(optimizer)] = user_place()
        self._new.append(weakref.ref(optimizer))

    def step_requested(self, optimizer: Any, scaler: torch.amp.GradScaler | None) -> None:
        place = user_place()
        self.requests += 1
        self._leave()
        self._tell_mixed()
        self._current = (optimizer, scaler)
        unit = self._units.of(optimizer)
        unit.keep()
        if scaler is not None and scaler.is_enabled():
            self._resolve(self._log(scaler))
            self._log(scaler).before_step()
            self._made_again(optimizer, scaler)
            self._step_of_scaler(unit, scaler, place)
        elif scaler is None:
            self._direct_step(unit, place)
        elif self.float16 is not None and id(scaler) in self._asked_but_off:
            self._scaler_off(self._asked_but_off.pop(id(scaler)), optimizer)

    def _scaler_off(self, place: Place | None, optimizer: Any) -> None:
        where = spoken(self.float16)
        self._collector.add(
            Finding(
                Cause.SCALER_OFF,
                Evidence.SEEN,
                "the GradScaler is disabled: it was created for a device that is not available, but "
                "regions run in float16",
                place,
                "AMP201",
                details=(*([f"a float16 region was entered at {where}"] if where else []), *_zeros(optimizer)),
                advice="create the scaler for the device that the model trains on, such as "
                '`torch.amp.GradScaler("cpu")`',
            )
        )

    def _step_of_scaler(self, unit: Unit, scaler: torch.amp.GradScaler, place: Place | None) -> None:
        log = self._log(scaler)
        if not unit.has_gradients or unit.is_used:
            return
        if unit.is_unscaled and log.now() == 1:
            return  # to divide them once more changes nothing
        if unit.is_unscaled and unit.unscaler is scaler and log.updates > unit.updates:
            self._protocol(
                "AMP410",
                "`update()` between `unscale_()` and `step()`: the step divides the gradients by the scale again",
                log.updated_at or place,
                *_at("unscaled", unit.unscaled_at),
                *_at("stepped", place),
                advice="call `update()` after the step",
            )
        elif unit.is_unscaled and unit.unscaler is not scaler:
            self._protocol(
                "AMP421",
                "the step of this scaler divides gradients that another scaler has unscaled already",
                place,
                *_at("unscaled", unit.unscaled_at),
                advice="unscale and step with the same scaler",
            )
        elif unit.is_unscaled and unit.unscaler is scaler and not _has_unscaled(scaler, self._current[0]):
            self._protocol(
                "AMP421",
                "`step()` divides the gradients by the scale again: `unscale_()` was called with another optimizer "
                "object, and a scaler remembers the object",
                place,
                *_at("unscaled", unit.unscaled_at),
                advice="call `unscale_()` and `step()` with the same optimizer object",
            )
        elif not unit.is_unscaled:
            self._divides(unit, scaler, place, "step()")

    def _divided_by_hand(self, unit: Unit, place: Place | None, what: str) -> None:
        self._protocol(
            "AMP421",
            f"the gradients were divided by the scale by hand, and `{what}` divides them a second time",
            place,
            advice="leave the division to `scaler.unscale_(optimizer)`",
        )

    def _direct_step(self, unit: Unit, place: Place | None) -> None:
        is_new = unit.has_gradients and not unit.is_used
        if unit.is_scaled and unit.scale != 1 and is_new and unit.scaler is not None:
            self._protocol(
                "AMP402",
                f"`optimizer.step()` uses gradients that are multiplied by the scale {unit.scale:,.0f}",
                place,
                advice="`scaler.step(optimizer)`, then `scaler.update()`",
            )

    def gradients_applied(self, optimizer: Any) -> None:
        scaler = self._current[1]
        if scaler is not None and scaler.is_enabled():
            self._log(scaler).before_use(getattr(optimizer, "found_inf", None))
        if self._unfed:
            self._check_unfed()
        if is_without(optimizer):
            self._without[id(optimizer)] += 1
            if self._without[id(optimizer)] == _AGAIN:
                self._no_gradients(optimizer, user_place())
        else:
            self._with[id(optimizer)] = True
            self._frozen.pop(id(optimizer), None)  # it was a schedule: layers are unfrozen in the course of training

    def _no_gradients(self, optimizer: Any, place: Place | None) -> None:
        case = Without(
            list(parameters_of(optimizer)),
            self._units.of(optimizer),
            self._models.alive(),
            self._made_at.get(id(optimizer)),
            place,
            self._backwards[id(optimizer)],
            self.requests,
            had_some=id(optimizer) in self._with,
        )
        if is_unreached(case) and self.unreached is None:
            self.unreached = case  # the next backward pass shows where the graph is cut
        elif self._without[id(optimizer)] and not any(each.requires_grad for each in case.parameters):
            finding = why_none(case)  # it may be unfrozen later
            self._frozen[id(optimizer)] = dataclasses.replace(finding, step=self._collector.step)
        else:
            self._collector.add(why_none(case))

    def cut_found(self, cut: Cut | None) -> None:
        """It was looked for where the graph is cut between the loss and the parameters of `unreached`."""
        case, self.unreached = self.unreached, None
        if case is not None:
            self._collector.add(why_none(case) if cut is None else why_cut(case, cut.what, cut.place))

    def step_done(self, optimizer: Any, *, taken: bool) -> None:
        scaler = self._current[1]
        unit, place = self._units.of(optimizer), user_place()
        if scaler is not None and scaler.is_enabled():
            self._log(scaler).stepped(taken=taken, place=place)
            self.skipped += not taken
            self.in_a_row = 0 if taken else self.in_a_row + 1
            if not taken:
                self._half_is_bad(", and the step was skipped")
            if unit.cleared is not None and not unit.has_gradients and not is_without(optimizer):
                self._cleared(unit)
        self._collector.step = self.requests + 1
        unit.use(self._all_backwards)
        unit.is_scaled = unit.is_unscaled = unit.has_plain = unit.is_by_hand = False
        self._backwards[id(optimizer)] = 0

    def _cleared(self, unit: Unit) -> None:
        self._collector.add(
            Finding(
                Cause.NO_GRADIENTS,
                Evidence.SEEN,
                "the step uses gradients that are all zero: they were cleared after the backward pass",
                unit.cleared,
                "AMP407",
                advice="clear the gradients after the step, or before the backward pass",
            )
        )

    def _resolve(self, log: ScaleLog) -> None:
        """Take in what a device has told meanwhile, such as which steps fused optimizers have skipped."""
        if skipped := log.resolve():
            self._half_is_bad(", and the step was skipped")
            self.skipped += skipped
            self.in_a_row = log.in_a_row

    def updated(self, scaler: torch.amp.GradScaler, new_scale: float | torch.Tensor | None) -> None:
        if scaler.is_enabled():
            self._log(scaler).updated(user_place(), new_scale)

    def _made_again(self, optimizer: Any, scaler: torch.amp.GradScaler) -> None:
        """Scalers that are made again at one line for one optimizer: what the scale has learned is lost."""
        place = self._log(scaler).place
        made = self._made_for.setdefault(id(optimizer), {}).setdefault(place, [])
        serial = self._all_logs.index(self._log(scaler))
        if serial not in made:
            made.append(serial)
            if len(made) == _AGAIN:
                self._protocol(
                    "AMP408",
                    f"a new scaler is created again and again (3 times within {self.requests} steps): each "
                    f"one starts at {self._log(scaler).first:,.0f} and loses what the last one has learned",
                    place,
                    advice="create the scaler once, before the loop",
                )

    # --- at the end

    def region_entered(self, region: Region) -> None:
        if region.dtype == "float16" and self.float16 is None:
            self.float16 = user_place()

    def finish(self) -> None:
        """Add what only the whole run shows."""
        self._leave()
        self._tell_mixed()
        self.cut_found(None)
        for finding in self._frozen.values():
            self._collector.add(finding)
        for unit in self._units.all():
            if not unit.is_kept:  # else the last clip is like those before
                self._tell_clipped(unit)
        for log in self._all_logs:
            self._resolve(log)
            for finding in log.findings():
                self._collector.add(finding, is_root=log.impossible is not None)
            if log.steps > 2 and not log.updates:
                self._protocol(
                    "AMP404",
                    f"`update()` was never called in {log.steps} steps: the scale never adapts",
                    log.stepped_at,
                )


def _alike(code: str, error: Exception) -> tuple[str, ...]:
    """The other rules that find a cause of an exception."""
    return tuple(other for hit in find(str(error)).hits for other in hit.message.codes if other != code)


def _divides(node: Any, scale: float) -> bool:
    """Whether a node multiplies by 1 / scale, or divides by the scale."""
    other = getattr(node, "_saved_other", None)
    if not isinstance(other, torch.Tensor) or other.numel() != 1 or not can_wait_for(other):
        return other is not None and not isinstance(other, torch.Tensor)
    value = float(other)
    if node.name().startswith("Mul"):
        value = 1 / value if value else 0.0
    return node.name().startswith(("Mul", "Div")) and math.isclose(value, scale, rel_tol=0.01)


def may_have_modes() -> bool:
    """Whether a mode for a few operations disturbs nobody: no mode of the program's, and nothing compiled for none."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    is_compiled = dynamo is not None and bool(dynamo.counters.get("stats"))
    has_modes = torch._C._len_torch_function_stack() > 0
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not has_modes:  # one that handles this very call is not on the stack meanwhile
        has_modes = frame.f_code.co_name == "__torch_function__"
        frame = frame.f_back
    return not (has_modes or is_compiled or torch.distributed.is_initialized())


def _has_unscaled(scaler: torch.amp.GradScaler, optimizer: Any) -> bool:
    """Whether a scaler remembers that it has unscaled the gradients of this optimizer object."""
    state = scaler._per_optimizer_states.get(id(optimizer))
    return state is not None and state["stage"] is not OptState.READY


def _at(what: str, place: Place | None) -> list[str]:
    return [f"{what} at {spoken(place)}"] if place is not None else []


def _zeros(optimizer: Any) -> list[str]:
    """How many elements of the gradients of an optimizer are 0, in words, if that can be read and is much."""
    gradients = [found for each in parameters_of(optimizer) if (found := gradient(each)) is not None]
    if not gradients or not all(map(can_wait_for, gradients)):
        return []
    share = sum(int((each == 0).sum()) for each in gradients) / max(1, sum(each.numel() for each in gradients))
    return [f"{share:.0%} of the elements of the gradients are 0 in this step"] if share >= 0.01 else []


def _largest(parameters: Sequence[torch.Tensor]) -> float | None:
    """The largest element of gradients, which waits for their device."""
    gradients = [found for each in parameters if (found := gradient(each)) is not None]
    if not gradients or not all(map(can_wait_for, gradients)):
        return None
    return max(float(each.abs().max()) for each in gradients if each.numel())


def _value(norm: Any) -> float | None:
    """A norm as a number, which waits for its device."""
    if isinstance(norm, torch.Tensor):
        return float(norm.item()) if can_wait_for(norm) else None
    return float(norm) if isinstance(norm, (int, float)) else None
