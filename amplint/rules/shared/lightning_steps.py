"""What code does by itself against the precision that Lightning was given: scaling, clips and regions (AMP602)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.inference.dtypes import region_dtypes
from amplint.model.names.reaching_definitions import returned
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import regions
from amplint.model.syntax import ir
from amplint.rules.shared.framework_steps import (
    Step,
    containers,
    is_always_behind,
    loop_round,
)
from amplint.rules.shared.lightning import fabric_of, modules, scaling, setups

if TYPE_CHECKING:
    from amplint.model import Module

_BFLOAT16 = ("bf16", "bf16-mixed")


class Against(NamedTuple):
    """A call that works against Lightning, and what it does."""

    call: ir.Call
    message: str


def against(module: Module) -> Iterator[Against]:
    """Every such call of a file, in no order; one can come twice."""
    yield from _own_scalers(module)
    yield from _clips(module)
    yield from _regions(module)


def _methods(module: Module) -> list[ir.Function]:
    return [each for cls in modules(module) for each in cls.body.statements if isinstance(each, ir.Function)]


# --- a scaler beside the Trainer's ----------------------------------------------------------------------------------


def _own_scalers(module: Module) -> Iterator[Against]:
    """Losses that a module scales with a scaler of its own, where Lightning does the backward or the step."""
    setup = scaling(module, "Trainer")
    if setup is None or "use_pl_optimizer" in module.source.text:
        return  # with torch's own optimizers a module can do all by itself
    for method in _methods(module):
        calls = list(ir.calls_below(method.body))
        for call in calls:
            if _scales(module, call) and (_leaves_to_lightning(calls) or _is_returned(method, call)):
                yield Against(
                    call,
                    f"`{module.text(call.func)}` scales the loss a second time: with the precision of the Trainer on "
                    f"{module.line(setup.call)}, Lightning scales and unscales by itself; remove this scaler",
                )


def _scales(module: Module, call: ir.Call) -> bool:
    """Whether a call scales with a scaler that this file makes, and that is surely on."""
    func = call.func
    if not isinstance(func, ir.Attribute) or func.attr != "scale":
        return False
    known = objects(module)
    scaler = known.is_scaler(func.base)
    made = known.made_by(scaler) if scaler is not None else []
    return bool(made) and all(
        each.enabled is None or (isinstance(each.enabled, ir.Constant) and each.enabled.value is True) for each in made
    )


def _leaves_to_lightning(calls: Iterable[ir.Call]) -> bool:
    """Whether some call is Lightning's backward, or asks for its optimizers, whose steps unscale."""
    return any(
        isinstance(each.func, ir.Attribute) and each.func.attr in ("manual_backward", "optimizers") for each in calls
    )


def _is_returned(method: ir.Function, call: ir.Call) -> bool:
    """Whether a training_step returns what a call makes."""
    made_in = ir.statement_of(call)
    names = (
        {each.name for each in made_in.targets if isinstance(each, ir.Name)} if isinstance(made_in, ir.Assign) else ()
    )
    return method.name == "training_step" and any(
        each is made_in or (isinstance(each.value, ir.Name) and each.value.name in names) for each in returned(method)
    )


# --- clips ----------------------------------------------------------------------------------------------------------


def _clips(module: Module) -> Iterator[Against]:
    """Clips between a backward of Lightning's and the step that unscales."""
    trainer, fabric = scaling(module, "Trainer"), scaling(module, "Fabric")
    if trainer is not None:
        for clip, backward in _after_backward(module, _methods(module), _kind_in_module):
            yield Against(
                clip,
                f"`{module.text(clip.func)}` clips scaled gradients: `{module.text(backward.func)}` scales the loss, "
                f"as the Trainer on {module.line(trainer.call)} uses float16; clip in "
                "`on_before_optimizer_step`, after Lightning unscales",
            )
    if fabric is not None:
        functions = containers(module, lambda call: _kind_of_fabric(module, call) == "clip")
        for clip, backward in _before_backward(module, functions, lambda call: _kind_of_fabric(module, call)):
            own = module.text(backward.func).rpartition(".")[0]
            yield Against(
                clip,
                "this clip does not clip the gradients of this step: "
                f"`{module.text(backward.func)}` on {module.line(backward)} computes them later; call "
                f"`{own}.clip_gradients` between the backward pass and the step",
            )
        for clip, backward in _after_backward(module, functions, lambda call: _kind_of_fabric(module, call)):
            own = module.text(backward.func).rpartition(".")[0]
            yield Against(
                clip,
                f"`{module.text(clip.func)}` clips gradients that are still scaled by "
                f"`{module.text(backward.func)}`; call `{own}.clip_gradients`",
            )


def _after_backward(
    module: Module, containers: Iterable[ir.Function | ir.Program], kind: Callable[[ir.Call], str | None]
) -> Iterator[tuple[ir.Call, ir.Call]]:
    for container in containers:
        step = Step(module, container, kind)
        for met in step.met:
            backward = step.before(met) if met.kind in ("torch", "scaled clip") else None
            if backward is not None and backward.kind == "backward" and not step.in_other_arm(met):
                if is_always_behind(module, met, backward):
                    yield met.call, backward.call


def _before_backward(
    module: Module, containers: Iterable[ir.Function | ir.Program], kind: Callable[[ir.Call], str | None]
) -> Iterator[tuple[ir.Call, ir.Call]]:
    for container in containers:
        step = Step(module, container, kind)
        for met in step.met:
            backward = step.too_early(met) if met.kind in ("torch", "clip") else None
            if backward is not None and loop_round(met, backward) is not None:
                yield met.call, backward.call


def _kind_in_module(call: ir.Call) -> str | None:
    """What a method of a LightningModule's `self` is to gradients; its own clip does not unscale."""
    func = call.func
    if not isinstance(func, ir.Attribute) or not isinstance(func.base, ir.Name) or func.base.name != "self":
        return None
    return {"manual_backward": "backward", "clip_gradients": "scaled clip"}.get(func.attr)


def _kind_of_fabric(module: Module, call: ir.Call) -> str | None:
    func = call.func
    if not isinstance(func, ir.Attribute) or func.attr not in ("backward", "clip_gradients"):
        return None
    setup = fabric_of(module, func.base)
    if setup is None or not setup.scales(module):
        return None
    return "backward" if func.attr == "backward" else "clip"


# --- regions --------------------------------------------------------------------------------------------------------


def _regions(module: Module) -> Iterator[Against]:
    """float16 regions of a training_step where the Trainer has no scaler, as it needs none for bfloat16."""
    trainers = [each for each in setups(module) if each.what == "Trainer"]
    if not trainers or not all(each.precisions(module) <= {*_BFLOAT16} for each in trainers):
        return
    steps = [each for each in _methods(module) if each.name == "training_step"]
    for region in regions(module):
        if ir.function_of(region.call) not in steps or region.enabled is not None:
            continue
        if isinstance(region.call.parent, ir.With) and {each.name for each in region_dtypes(module, region)} == {
            "float16"
        }:
            yield Against(
                region.call,
                f"the Trainer on {module.line(trainers[0].call)} uses bfloat16 without a scaler: "
                "gradients of this float16 region can underflow; remove the region, or pass `precision='16-mixed'`",
            )
