"""Losses in half precision: which of the bench's are what the program's would be, outside of every region."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from amplint.model.half.analysis import half, returned_kind
from amplint.model.half.layers import gives_float32
from amplint.model.inference.constructions import constructions
from amplint.model.inference.soft_targets import has_soft_targets
from amplint.model.inference.tensor_types import FLOAT32, FLOAT64, HALF, UNKNOWN_KIND, Kind
from amplint.model.module import Module
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import given_to
from amplint.model.torch_facts.op_spellings import CLASSES, LOSSES, spelled
from amplint.verify.bench.instrument import open_regions
from amplint.verify.interpreter.allowed_calls import OPS, library
from amplint.verify.interpreter.fragile_ops import called, fragile_op, is_made_of_losses
from amplint.verify.interpreter.run_state import RunRecord
from amplint.verify.interpreter.standins import Closure, Dotted, Site, tensors_in
from amplint.verify.interpreter.world import Stage, upstream
from amplint.verify.program.program import Code

FLOAT16 = frozenset(("float16",))
_HALF = "float16"
USUAL_START = 65536.0  # of a scaler that is given none
_MOST = 65519.0  # what is more is inf in float16
_SPACE = "torch.nn."


@dataclass(eq=False)
class HalfLosses:
    """Follows what models give in float16 into losses, and into scalers.

    A model of the bench is a layer, as the last one of most models is: one whose code says that it gives float32 is
    none. What a criterion makes of float16 is known of torch's own, and where the program's can be followed.
    """

    _stage: Stage
    _record: RunRecord
    _outputs: set[Any] = field(default_factory=set)  # what has made a model's float16 output in the graph
    _losses: dict[Any, tuple[bool, Site]] = field(default_factory=dict)  # the same of float16 losses: whether surely

    def region(self, site: Site, runs: Closure | None) -> Any:
        """The region that a model's own `forward` computes its result in, to be entered."""
        kind = _returned(site, runs, {})
        if kind.names == FLOAT16 and kind.region:
            return torch.autocast(self._stage.device, dtype=torch.float16)
        return nullcontext()

    def output(self, site: Site, runs: Closure | None, made: torch.Tensor) -> None:
        """A model has been run."""
        self._record.unseen_model |= _function(site, runs) is None
        if made.dtype is not torch.float16 or made.grad_fn is None:
            return
        given_up = _returned(site, runs, {}).what in (FLOAT32, FLOAT64)
        if not given_up and not gives_float32(site.code.module, site.call.func):
            self._outputs.add(made.grad_fn)

    def loss(self, site: Site, runs: Closure | None, inputs: list[Any], made: torch.Tensor) -> None:
        """A criterion has been run."""
        halves = [each for each in tensors_in(inputs) if self._is_output(each)]
        keeps = self._keeps_half(site, runs, inputs, len(halves)) if halves else None
        is_half = bool(halves) and made.dtype is torch.float16 and not open_regions()
        if is_half and keeps is not False:
            self._losses[made.grad_fn] = keeps is True, site
        if region := _half_region():
            self._not_run(site, runs, inputs, f"is in a {region} region, and is not run")
        elif not is_half and keeps is not False and any(True for _ in upstream(made, self._outputs)):
            of = " of float16 outputs" if halves else ""  # else they were cast
            self._not_run(site, runs, inputs, f"computes the loss{of} and is not run")

    def part(self, site: Site, runs: Closure | None, inputs: list[Any]) -> None:
        """A function of the program has been run that is no model: what it computes can be a part of the loss."""
        found, region = _function(site, runs), _half_region()
        if region and found is not None and found[1].name not in ("forward", "__call__"):
            self._not_run(site, runs, inputs, f"computes a part of the loss in a {region} region and is not run")

    def _not_run(self, site: Site, runs: Closure | None, inputs: list[Any], how: str) -> None:
        """Remember what computes a loss for which the bench has another one; of torch's own autocast keeps the range.

        And which of its ops float16 may break, where that is in sight: none where all that it is given was cast.
        """
        if _is_loss_of_torch(site) or _is_op(site):
            return
        found = _function(site, runs)
        if found is not None and is_made_of_losses(*found):
            return
        op = fragile_op(*found) if found is not None and _may_be_half(inputs) else ""
        self._record.not_run.setdefault(site.where, (site.text, f"{how}; float16 may break its {op}" if op else how))

    def scaled(self, scaler: torch.amp.GradScaler, start: float | None, losses: list[Any], site: Site) -> None:
        """A scaler that starts at a scale (None: it can't be seen) scales losses."""
        for each in losses:
            if not scaler.is_enabled() or start is None or start <= _MOST or each.dtype is not torch.float16:
                continue
            found = [self._losses[node] for node in upstream(each, self._losses)]
            if any(surely for surely, _ in found):
                self._record.half_losses.setdefault(site.where, start)
            else:
                self._record.unsure_losses |= {criterion.where: criterion.text for _, criterion in found}

    def _is_output(self, tensor: torch.Tensor) -> bool:
        return tensor.dtype is torch.float16 and any(True for _ in upstream(tensor, self._outputs))

    def _keeps_half(self, site: Site, runs: Closure | None, inputs: list[Any], halves: int) -> bool | None:
        """Whether a criterion gives float16 for a model's float16 outputs; None: that can't be seen."""
        spelling = _spelling(site)
        if spelling == "cross_entropy":
            return not has_soft_targets(site.code.module) or _is_half_by_text(site) or None
        if spelling is not None:
            # Others have targets that are float32, and so is the result, unless these are outputs as well.
            return halves == len(site.call.positional) > 1
        kind = _returned(site, runs, self._given(site, runs, inputs))
        return True if kind.what == HALF or kind.likely_half else False if kind.what in (FLOAT32, FLOAT64) else None

    def _given(self, site: Site, runs: Closure | None, inputs: list[Any]) -> dict[str, Kind]:
        """The arguments of the program's own criterion, by its parameters' names: half where a model gave them."""
        found, args = _function(site, runs), site.call.args
        if found is None or site.call.unpacks() or len(inputs) < len(args):
            return {}
        function = found[1]
        kinds = [Kind(HALF, FLOAT16) if self._has_output(each) else UNKNOWN_KIND for each in inputs[-len(args) :]]
        given = [(arg.value, kind) for arg, kind in zip(args, kinds, strict=True) if arg.keyword is None]
        named = {arg.keyword: (arg.value, kind) for arg, kind in zip(args, kinds, strict=True) if arg.keyword}
        params = function.params[1:] if function.cls is not None else function.params
        return {name: kind for name, (_, kind) in given_to(params, given, named).items()}

    def _has_output(self, value: Any) -> bool:
        return any(map(self._is_output, tensors_in([value])))


def _returned(site: Site, runs: Closure | None, given: Mapping[str, Kind]) -> Kind:
    """What the program's function that a call runs gives, as far as its text says."""
    found = _function(site, runs)
    return returned_kind(*found, given) if found is not None else UNKNOWN_KIND


def _is_half_by_text(site: Site) -> bool:
    """Whether the text says of a loss that it is half, or likely is: its targets are integers, whatever others are."""
    met = [each.result for each in half(site.code.module) if each.node is site.call]
    return bool(met) and all(each.what == HALF or each.likely_half for each in met)


def _function(site: Site, runs: Closure | None) -> tuple[Module, ir.Function] | None:
    """The function of the program that a call runs, with its module; None where none is in sight."""
    if runs is not None:
        return runs.frame.code.module, runs.function
    found = called(site.code.module, site.call)
    if found is None and (elsewhere := site.code.linked_call(site.call)) is not None:
        found = called(*elsewhere)
    return found


def _spelling(site: Site) -> str | None:
    """Which of torch's losses a call computes; None: none of them, or it can't be seen."""
    func = site.call.func
    known = library(site.code, func)
    if isinstance(known, Dotted):
        found = {spelled(known.name)}
    elif isinstance(func, (ir.Name, ir.Attribute, ir.Call)):
        found = {_of_class(each) for each in site.code.known(_constructed, func)}
    else:
        return None
    only = found.pop() if len(found) == 1 else None
    return only if only in LOSSES else None


def _is_loss_of_torch(site: Site) -> bool:
    """Whether a call is of one of torch's losses, or of one or another of them."""
    func = site.call.func
    if not isinstance(func, (ir.Name, ir.Attribute, ir.Call)) or library(site.code, func) is not None:
        return False
    made = site.code.known(_constructed, func)
    return bool(made) and all(each.startswith(_SPACE) and each.endswith("Loss") for each in made)


def _of_class(name: str) -> str | None:
    return CLASSES.get(name.rpartition(".")[2]) if name.startswith(_SPACE) else None


def _constructed(code: Code, func: ir.Name | ir.Attribute | ir.Call) -> set[str]:
    """The qualified names of the classes that what is called can be of, in this file or as callers give it."""
    module = code.module
    names = {module.names.only(each.func) or "" for each in constructions(module, func)}
    if names:
        return names
    sources = code.callers.looked_at(code, func)
    return {of.module.names.only(each.func) or "" if isinstance(each, ir.Call) else "" for of, each in sources}


def _may_be_half(inputs: list[Any]) -> bool:
    """Whether a function is given float16 with gradients, or nothing that has some: then it runs the model itself."""
    given = [each for each in tensors_in(inputs) if each.requires_grad]
    return not given or any(each.dtype is torch.float16 for each in given)


def _half_region() -> str:
    """The dtype of a float16 region that is open; "": none is."""
    return _HALF if any(each.dtype == _HALF for each in open_regions()) else ""


def _is_op(site: Site) -> bool:
    """Whether a call is of an op of torch's, a function or a method: what it is given was computed before."""
    func, known = site.call.func, library(site.code, site.call.func)
    if isinstance(known, Dotted):
        return known.name.startswith("torch.")
    return isinstance(func, ir.Attribute) and func.attr in OPS
