"""apex.amp: which calls of `initialize` scale losses dynamically (AMP413), which use float16 without (AMP207), and
which clips get gradients that are not those of the step (AMP401).

As of apex/amp/frontend.py: O1 is the default level and casts in functions, O2 casts the model, O0 is float32 and O3 all
float16, whose loss scale is 1 by default. O1's and O2's is "dynamic". The gradients are unscaled where the `with` of
`scale_loss` ends; in O2 into those of the optimizer's float32 copies (apex/amp/_process_optimizer.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.events import events
from amplint.model.inference.formulas import contradict
from amplint.model.inference.value_sets import decided
from amplint.model.inference.values import values_of
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir

if TYPE_CHECKING:
    from amplint.model import Module

_LEVELS = {"O1", "O2"}
_PLACES = ("models", "optimizers", "enabled", "opt_level")


# What gives and takes the loss scales of apex.
APEX_STATES = ("apex.amp.state_dict", "apex.amp.load_state_dict")


def scaling_calls(module: Module) -> Iterator[ir.Call]:
    """Such calls with a scale that changes, in one of the levels that have one."""
    for call in module.calls_of("apex.amp.initialize"):
        given = _arguments(call)
        levels = _literals(module, given["opt_level"]) if "opt_level" in given else {"O1"}
        scales = _literals(module, given["loss_scale"]) if "loss_scale" in given else {"dynamic"}
        # What an option chooses is one of these levels in a run with AMP.
        if (not levels or levels & _LEVELS) and (not scales or scales & {"dynamic", None}):
            yield call


def _arguments(call: ir.Call) -> dict[str, ir.Value]:
    """The arguments of a call by their names."""
    return {**dict(zip(_PLACES, call.positional, strict=False)), **call.keywords}


def without_a_scale(module: Module) -> Iterator[ir.Value]:
    """The loss scales of 1 that such calls are given, with optimizers."""
    for call in module.calls_of("apex.amp.initialize"):
        given = _arguments(call)
        scale = given.get("loss_scale")
        if scale is None or call.unpacks() or "optimizers" not in given or "cast_model_type" in given:
            continue
        levels = _literals(module, given["opt_level"]) if "opt_level" in given else {"O1"}
        if levels and levels <= _LEVELS and all(map(_is_one, _literals(module, scale) or {None})):
            if "enabled" not in given or _literals(module, given["enabled"]) == {True}:
                yield scale


class ApexClip(NamedTuple):
    """A clip of gradients that apex has not unscaled: inside the `with` of `scale_loss`, or, in O2, of the model's own,
    in place of the float32 copies that `made`, a call of `initialize`, lets the optimizer step.
    """

    clip: ir.Value
    made: ir.Call | None


def scaled_clips(module: Module) -> Iterator[ApexClip]:
    """Such clips."""
    for statement in module.own.near("scale_loss").statements:
        if isinstance(statement, ir.With) and any(map(partial(_scales_loss, module), statement.items)):
            below = sorted(events(module).below(statement.body), key=lambda each: each.call.id)
            backward = next((each.call.id for each in below if each.kind == "backward"), None)
            clips = [each.call for each in below if each.kind == "clip" and each.how != "measure"]
            if backward is not None:
                yield from (ApexClip(each, None) for each in clips if each.id > backward)
    yield from _clips_of_copied(module)


def _scales_loss(module: Module, item: ir.Item) -> bool:
    return isinstance(item.context, ir.Call) and "apex.amp.scale_loss" in module.names.of(item.context.func)


def _clips_of_copied(module: Module) -> Iterator[ApexClip]:
    """The clips of a model's parameters that the optimizer doesn't step, as apex has made float32 copies of them."""
    known, decisions = objects(module), decided(module)
    for made in module.calls_of("apex.amp.initialize"):
        given = _arguments(made)
        model = known.key(given["models"]) if "models" in given else None
        if model is None or "opt_level" not in given or "master_weights" in given or "optimizers" not in given:
            continue
        if _literals(module, given["opt_level"]) != {"O2"}:
            continue
        for call in module.own.near("clip_grad").calls:
            event = events(module).of(call)
            clips = event is not None and event.kind == "clip" and event.how != "measure"
            roots = known.parameters_roots(call.positional[0]) if clips and call.positional else frozenset()
            if model in roots and not contradict(decisions.inside(made), decisions.inside(call)):
                yield ApexClip(call, made)


def _literals(module: Module, value: ir.Value) -> set[object]:
    """The literals that a value can be; none where it may be anything else."""
    found = values_of(module, value)
    literals = [each.value for each in found.leaves]
    known = found.is_closed and all(isinstance(each, ir.Constant) for each in literals)
    return {each.value for each in literals if isinstance(each, ir.Constant)} if known else set()


def _is_one(literal: object) -> bool:
    return literal in (1, "1", "1.0") and literal is not True
