"""Clips in only one of two branches whose steps come later, or that scale, clip and step in one call (AMP420)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_sites import callers
from amplint.model.calls.events import events
from amplint.model.inference.formulas import contradict, negated
from amplint.model.inference.value_sets import decided
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import Event
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import following, ifs_round, upwards
from amplint.rules.shared.parallel_branches import clips_elements

if TYPE_CHECKING:
    from amplint.model import Module

# How such a call is told the bound of the norm.
_BOUNDS = ("clip_grad", "max_norm", "clip_norm", "max_grad_norm", "grad_clip", "clip_grad_norm")


class ClippedApart(NamedTuple):
    """The argument by which a branch clips, and the step of the other branch, which does not clip."""

    bound: ir.Value
    step: ir.Call


class ClippedBefore(NamedTuple):
    """A clip in one branch of an `if`, and the step after the `if` of who takes the other.

    `scaled`: the clip is in the branch with the scaler.
    """

    clip: ir.Value
    scaled: bool
    step: ir.Value


def clipped_before_steps(module: Module) -> Iterator[ClippedBefore]:
    """The clips that only the branch with the scaler runs, or only the one without, if the step follows for both.

    A branch has the scaler if it unscales the gradients or scales the loss, and the other does neither; if there is no
    other branch, or the scaler steps for both, the test has to say that the scaler is on. Nothing else in the function,
    or in one that calls it, is called like a clip or a hook.
    """
    for statement in module.whole.near("unscale_", "scale").statements:
        if isinstance(statement, ir.If) and (found := _in_one_branch(module, statement)) is not None:
            yield found


def _in_one_branch(module: Module, statement: ir.If) -> ClippedBefore | None:
    blocks = [each for each in (statement.then, statement.orelse) if each is not None]
    inside = [list(events(module).below(each)) for each in blocks]
    kinds = [{each.kind for each in found} for found in inside]
    if any(each & {"step", "optimizer_step", "opaque"} for each in kinds):
        return None
    clips = [next((each.call for each in found if _clips(each)), None) for found in inside]
    scaled = [bool(each & {"unscale_", "scale"}) for each in kinds]
    clipping = [at for at, clip in enumerate(clips) if clip is not None]
    if len(clipping) != 1 or sum(scaled) != 1:
        return None
    own = clipping[0]
    clip = clips[own]
    step = _step_after(module, statement, "optimizer_step" if scaled[own] else "step")
    if step is None or clip is None or _clips_elsewhere(module, clip, but=blocks[own]):
        return None
    unscaled = next((each for each in inside[own] if each.kind == "unscale_"), None)
    has_scaler_in_both = scaled[own] and step.kind == "step"
    if (len(blocks) == 1 or has_scaler_in_both) and not _asks_for_scaler(module, statement, unscaled):
        return None
    return ClippedBefore(clip, scaled[own], step.call)


def _clips(event: Event) -> bool:
    return event.kind == "clip" and event.how != "measure"


def _step_after(module: Module, statement: ir.If, kind: str) -> Event | None:
    """The first step of an optimizer after an `if`, in the same suite or one in it; one of a `kind` if there is one."""
    after = following(statement)
    found = events(module).below(ir.Block(statement.block.owner, statement.block.role, after)) if after else ()
    steps = [each for each in found if each.kind in ("step", "optimizer_step")]
    return next(iter(sorted(steps, key=lambda each: each.kind != kind)), None)


def _asks_for_scaler(module: Module, statement: ir.If, unscaled: Event | None) -> bool:
    """Whether an `if` runs only where the scaler is there and on, and it need not be."""
    call = unscaled.call if unscaled is not None else None
    if not isinstance(call, ir.Call) or not isinstance(call.func, ir.Attribute):
        return False
    test, on = decided(module).of(statement.test), decided(module).scaler_on(call.func.base)
    return contradict(test, negated(on)) and not contradict(negated(on))


def clipped_apart(module: Module) -> Iterator[ClippedApart]:
    """The calls of such objects that clip, where the other branch steps the same optimizer, and nothing clips there."""
    for call in module.whole.near(*_BOUNDS).calls:
        bound = next((arg.value for arg in call.args if arg.keyword in _BOUNDS and not ir.is_none(arg.value)), None)
        around = ifs_round(call)
        if bound is None or not around or "scaler" not in ir.last_name(call.func).lower():
            continue
        step = _step_of(module, call, _other_block(around[0], call))
        if step is not None and not _clips_elsewhere(module, call):
            yield ClippedApart(bound, step)


def _other_block(statement: ir.If, node: ir.Node) -> ir.Block | None:
    """The suite of an if with two that a node is not in."""
    inside = {id(each.block) for each in upwards(ir.statement_of(node))}
    both = [each for each in (statement.then, statement.orelse) if each is not None]
    others = [each for each in both if id(each) not in inside]
    return others[0] if len(both) == 2 and len(others) == 1 else None


def _step_of(module: Module, call: ir.Call, block: ir.Block | None) -> ir.Call | None:
    """The step, after a backward pass, of the optimizer that a call gets."""
    found = list(events(module).below(block)) if block is not None else []
    kinds = {each.kind for each in found}
    if "backward" not in kinds or kinds & {"clip", "scale", "step", "opaque"}:
        return None
    given = {objects(module).key(arg.value) for arg in call.args} - {None}
    steps = (each.call for each in found if each.kind == "optimizer_step" and each.optimizer in given)
    return next((each for each in steps if isinstance(each, ir.Call)), None)


def _clips_elsewhere(module: Module, clip: ir.Value, but: ir.Block | None = None) -> bool:
    """Whether something in the function of a clip, or in one that calls it, is called like a clip or a hook; what is
    inside one branch may be left out.
    """
    function = ir.function_of(clip)
    containers = {function, *map(ir.function_of, callers(module, function))}
    left = {id(each) for each in ir.values_below(but)} if but is not None else set()
    return any(
        word in ir.last_name(each.func).lower()
        for container in containers
        for each in module.whole.within(container).calls
        if id(each) not in left and not clips_elements(each)
        for word in ("clip", "hook")
    )
