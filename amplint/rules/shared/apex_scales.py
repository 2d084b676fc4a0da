"""Calls of `apex.amp.initialize`: which scale losses dynamically (AMP413), and which use float16 without (AMP207).

As of apex/amp/frontend.py: O1 is the default level and casts in functions, O2 casts the model, O0 is float32 and O3 all
float16, whose loss scale is 1 by default. O1's and O2's is "dynamic".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.inference.values import values_of
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


def _literals(module: Module, value: ir.Value) -> set[object]:
    """The literals that a value can be; none where it may be anything else."""
    found = values_of(module, value)
    literals = [each.value for each in found.leaves]
    known = found.is_closed and all(isinstance(each, ir.Constant) for each in literals)
    return {each.value for each in literals if isinstance(each, ir.Constant)} if known else set()


def _is_one(literal: object) -> bool:
    return literal in (1, "1", "1.0") and literal is not True
