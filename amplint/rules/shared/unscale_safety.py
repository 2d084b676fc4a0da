"""What stands against inserting `unscale_` before a clip (AMP401): reasons to withhold the fix, and doubts about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import TYPE_CHECKING

from amplint.model.calls.events import events
from amplint.model.flow.event_states import EventStates
from amplint.model.flow.gradients import GradientKind
from amplint.model.flow.state import State
from amplint.model.inference.values import values_of
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import region_of
from amplint.model.objects.terms import Fact, path, present
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.queries import Nodes, is_false
from amplint.model.usage.mentions_of import near_kept
from amplint.rules.shared.clips import has_scale
from amplint.rules.shared.scale_reports import reads_scale

if TYPE_CHECKING:
    from amplint.model import Module

# A max_norm this large was tuned to scaled gradients.
LARGE_NORM = 1e3
_HALF = {"torch.float16", "torch.half"}


def doubt(module: Module, reached: EventStates, optimizer: str | None) -> str:
    """Why the insertion is not safe; "" where it is."""
    return module.once(_doubt, reached.event.call, optimizer)  # clips that share a step ask for each other's


def _doubt(module: Module, clip: ir.Value, optimizer: str | None) -> str:
    if against := tuned(module, clip):
        return against
    if reads_scale(module, clip):
        return "this function reads the scale, and may already divide by that scale"
    if _may_step_half(module, optimizer) and any(_makes_half(module, call) for call in _near_half(module).calls):
        return "`unscale_()` raises on float16 parameters"
    if _is_caught(module, clip):
        return "after an exception that is caught before `update()`, the next `unscale_()` would then raise"
    return ""


def tuned(module: Module, clip: ir.Value) -> str:
    """Why `unscale_` before a clip may switch that off; "" where it can't."""
    bounds = [arg.value for arg in clip.args] if isinstance(clip, ir.Call) else []
    if any(number > LARGE_NORM for bound in bounds for number in _numbers(module, bound)):
        return "the bound may have been chosen for scaled gradients, and would then no longer clip"
    return ""


def _numbers(module: Module, value: ir.Value, depth: int = 3) -> list[float]:
    """The numbers that a bound can be, as far as the file shows them: literals, defaults, arithmetic on two."""
    found: list[float] = []
    for leaf in values_of(module, value).leaves:
        part = leaf.value
        if isinstance(part, ir.Constant):
            found += [float(part.value)] if isinstance(part.value, (int, float)) else []
        elif isinstance(part, ir.Binary) and part.op in ("Multiply", "Power") and depth:
            pairs = product(_numbers(module, part.left, depth - 1), _numbers(module, part.right, depth - 1))
            if part.op == "Multiply":
                found += [left * right for left, right in pairs]
            else:
                found += [left**right for left, right in pairs if 0 < left < LARGE_NORM and right < LARGE_NORM / 10]
    return found


def _defaults(module: Module, value: ir.Value) -> Iterator[ir.Value]:
    """The default of the parameter that a name is."""
    if isinstance(value, ir.Name):
        for binding in objects(module).bindings(value):
            function = None if isinstance(binding, Assigned) else getattr(binding, "node", None)
            if isinstance(function, ir.Function):
                yield from (each.default for each in function.params if each.name == value.name and each.default)


# --- half parameters ------------------------------------------------------------------------------------------------


def half_parameters(module: Module, roots: frozenset[str]) -> bool:
    """Whether the clipped parameters are half: unscale_ raises on them, where a fused optimizer's step does not."""
    known = objects(module)
    for call in _near_half(module).calls:
        if isinstance(call.func, ir.Attribute) and known.key(call.func.base) in roots and _makes_half(module, call):
            return True
    return any(
        known.key(target) in roots and any(_makes_half(module, call) for call in _chain(statement.value))
        for statement in _near_half(module).statements
        if isinstance(statement, ir.Assign)
        for target in statement.targets
    )


def _near_half(module: Module) -> Nodes:
    return module.whole.near("half", *module.words(*_HALF))


def _chain(value: ir.Value | None) -> Iterator[ir.Call]:
    """The calls of `Model(...).half().cuda()`, from the last."""
    while isinstance(value, ir.Call):
        yield value
        value = value.func.base if isinstance(value.func, ir.Attribute) else None


def _makes_half(module: Module, call: ir.Call) -> bool:
    """`x.half()`, `x.to(torch.float16)`, `Model(dtype=torch.float16)`, `torch.set_default_dtype(torch.float16)`."""
    name = ir.last_name(call.func)
    if name == "half":
        return not call.args
    if "autocast" in name or region_of(module, call) is not None:
        return False
    values = [each for arg in call.args for each in (arg.value, *_defaults(module, arg.value))]
    return any(module.names.of(each) & _HALF for each in values)


def _may_step_half(module: Module, optimizer: str | None) -> bool:
    """Whether the optimizer may be one that takes scaled gradients itself (fused); any other raises on half already."""
    known = objects(module)
    made = [
        statement.value
        for statement in (near_kept(module, {optimizer}) if optimizer is not None else module.whole).statements
        if isinstance(statement, ir.Assign) and any(known.key(target) == optimizer for target in statement.targets)
    ]
    return not made or not all(isinstance(value, ir.Call) and _is_unfused(module, value) for value in made)


def _is_unfused(module: Module, call: ir.Call) -> bool:
    names = module.names.of(call.func)
    fused = call.keyword("fused")
    return (
        bool(names)
        and all(name.startswith("torch.optim.") for name in names)
        and (fused is None or is_false(fused))
        and not call.unpacks("**")
    )


# --- paths without an update ----------------------------------------------------------------------------------------


def ends(reached: EventStates, function: ir.Node, step: ir.Value) -> list[State]:
    """The states in which the function can end between clip and update, so that it can be called again.

    A path that ends in `raise` does no harm; where the function has one before the step, only other ways out count.
    """
    if not isinstance(function, ir.Function):
        return reached.ends
    between = [
        each for each in ir.walk_statements(function.body, into=False) if reached.event.call.id < each.id < step.id
    ]
    raises = any(isinstance(each, ir.Raise) for each in between)
    returns = any(
        isinstance(each, ir.Return) or (isinstance(each, ir.Jump) and each.kind == "break") for each in between
    )
    return [] if raises and not returns else reached.ends


def leaves_without_update(reached: EventStates, bad: list[State], function: ir.Node, step: ir.Value) -> bool:
    """Whether the function can end between clip and step: the next call's unscale_ would be the second."""
    if not isinstance(function, ir.Function) or (reached.bypasses and bad[0].gradients.kind is GradientKind.ENTRY):
        return False  # where another function scaled, the paths on which the scaler is off can't be told
    absent = {present(path(scaler)) for scaler, _ in reached.stepped}
    return any(
        not state.touched()
        and not any(state.known(condition) is False for condition in absent)
        and any(agree(state, each.facts) for each in bad)
        for state in ends(reached, function, step)
    )


def agree(state: State, facts: Iterable[Fact]) -> bool:
    """Whether a state can be of a path of which some facts are known: no condition has another outcome."""
    return all(state.known(condition) in (None, holds) for condition, holds in facts)


def _is_caught(module: Module, clip: ir.Value) -> bool:
    """Whether an exception behind the clip can be caught in such a way that the update is left out."""
    child: ir.Node = clip
    up = child.parent
    while up is not None and not isinstance(up, ir.Function):
        if isinstance(up, ir.Try) and up.handlers and ir.statement_of(child).block is up.body:
            swallows = any(not _raises(handler.body) for handler in up.handlers)
            rest = [handler.body for handler in up.handlers] + ([up.final] if up.final else [])
            if swallows and _updates(module, up.body) and not any(_updates(module, block) for block in rest):
                return True
        if isinstance(up, ir.Statement):
            child = up
        up = up.parent
    return False


def _raises(block: ir.Block) -> bool:
    return any(isinstance(each, ir.Raise) for each in block.statements)


def _updates(module: Module, block: ir.Block) -> bool:
    calls = (value for value in ir.values_below(block) if isinstance(value, ir.Call))
    return any(event.kind == "update" for call in calls if (event := events(module).of(call)) is not None)


# --- what the clip returns ------------------------------------------------------------------------------------------


def rescales_result(module: Module, reached: EventStates) -> bool:
    """Whether the norm that the clip returns is divided by the scale: after unscale_ that would be once too often."""
    call = reached.event.call
    statement = ir.statement_of(call)
    function = ir.function_of(call)
    body = function.body if function is not None else module.program.body
    statements = list(ir.walk_statements(body, into=False))
    scales = _assigned(each for each in statements if any(map(has_scale, each.values())))
    results = _assigned([statement])
    for each in statements:
        if each.id < statement.id:
            continue
        for root in (each, *(value for top in each.values() for value in ir.walk_values(top))):
            if isinstance(root, ir.AugAssign):
                sides = [root.target, root.value]
            elif isinstance(root, ir.Binary):
                sides = [root.left, root.right]
            else:
                continue
            if root.op in ("Multiply", "Divide") and any(
                _holds(mine, call, results) and has_scale(other, scales) for mine, other in (sides, sides[::-1])
            ):
                return True
    return False


def _assigned(statements: Iterator[ir.Statement] | list[ir.Statement]) -> set[str]:
    return {
        target.name
        for each in statements
        if isinstance(each, ir.Assign)
        for target in each.targets
        if isinstance(target, ir.Name)
    }


def _holds(value: ir.Value, call: ir.Node, names: set[str]) -> bool:
    return any(each is call or (isinstance(each, ir.Name) and each.name in names) for each in ir.walk_values(value))
