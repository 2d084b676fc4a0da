"""Which clips meet gradients that are still multiplied by the loss scale (AMP401)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.external_calls import bases_in_sight, function_named
from amplint.model.flow.analysis import Flow
from amplint.model.flow.event_states import EventStates
from amplint.model.flow.gradients import GradientKind
from amplint.model.flow.state import State
from amplint.model.flow.tensors import SCALE_READS
from amplint.model.flow.value_uses import RESCALES
from amplint.model.flow.violations import OF_CALLERS_GRADIENTS, ViolationKind
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import Event
from amplint.model.objects.terms import path, present
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument, given_to
from amplint.model.syntax.nesting import exclusive
from amplint.model.syntax.scopes import owner_class
from amplint.model.torch_facts.names import SCALER
from amplint.model.usage.mentions_of import near_scalers
from amplint.rules.shared.scaler_order import Misuse, asked, backward_between, calls_of, receiver, side_by_side

if TYPE_CHECKING:
    from amplint.model import Module

FINITE = re.compile(r"(?i)isfinite|isinf|isnan|found_inf|nonfinite|non_finite|overflow")
_ARITHMETIC = {*RESCALES, "mul", "div"}


def clips_scaled(module: Module, clip: Misuse) -> bool:
    """Whether a clip that meets scaled gradients, as far as a function shows, is a misuse of them."""
    flow, violation, reached = clip.flow, clip.violation, clip.reached
    if violation.kind in OF_CALLERS_GRADIENTS:
        return any(_scaled_by_another(module, flow, reached, state) for state in clip.states)
    # The optimizer steps without the scaler: on this path it will be switched off.
    origin = (
        flow.node(violation.cause)
        if violation.cause and violation.kind is not ViolationKind.CLIP_OF_SCALED_AGAIN
        else reached.event.call
    )
    tests = [test for step in reached.bypasses for test in asked(flow, step, origin)]
    asks = any(flow.conditions.may_ask_for_amp(test) for test in tests)
    return not asks or bool(reached.stepped) or flow.surely_enabled(violation.scaler, clip.states)


def _scaled_by_another(module: Module, flow: Flow, reached: EventStates, state: State) -> bool:
    """Whether another function of this file scaled, and nothing unscaled since: all that has to be in sight.

    The step behind the clip divides by the scale, so that the gradients are scaled there.
    """
    scalers = {scaler for scaler, _ in reached.stepped}
    if len(scalers) != 1 or "unscale" in module.source.text or "get_scale" in module.source.text:
        return False
    scaler = next(iter(scalers))
    if state.known(present(path(scaler))) is False or flow.disabled(scaler, state):
        return False
    return scaler in module.once(_scaling_in_sight)


def _scaling_in_sight(module: Module) -> set[str]:
    """The scalers that some function of this file scales with, and that stay in this file."""
    known = objects(module)
    scaling = {
        scaler
        for call in module.whole.near("scale").calls
        if isinstance(call.func, ir.Attribute) and call.func.attr == "scale"
        if (scaler := known.is_scaler(call.func.base)) is not None
    }
    found = {scaler for scaler in scaling if known.made.get(scaler) and not escapes(module, scaler)}
    # What is passed on to a function of this file has the parameter's key there.
    for call in near_scalers(module).calls:
        function = function_named(module, ir.last_name(call.func))
        if function is not None:
            params = function.params[1 if function.cls is not None else 0 :]
            for param, value in given_to(params, call.positional, call.keywords).items():
                if known.is_scaler(value) in scaling and not escapes(module, str(known.key(value))):
                    found.add(known.variable(function.scope, param))
    return found


def in_this_file_only(module: Module, scaler: str) -> bool:
    """Whether the file makes the scaler and gives it to nothing but its own functions."""
    return bool(objects(module).made_by(scaler)) and not escapes(module, scaler)


def escapes(module: Module, scaler: str) -> bool:
    """Whether a scaler is given to anything but functions of this file, or kept in a class that others may extend."""
    return {scaler, objects(module).original(scaler)} & module.once(_escaping) != set()


def _escaping(module: Module) -> set[str]:
    known = objects(module)
    found = set()
    for value in near_scalers(module).values:
        scaler = known.is_scaler(value) if isinstance(value, (ir.Name, ir.Attribute)) else None
        if scaler is not None and _is_out_of_sight(module, value):
            found.add(scaler)
    return found


def _is_out_of_sight(module: Module, value: ir.Value) -> bool:
    """Whether a use of a scaler hands it on to where it can't be followed."""
    parent = value.parent
    if isinstance(parent, (ir.Return, ir.Sequence, ir.Mapping, ir.Starred, ir.Suspend)):
        return True
    if isinstance(parent, ir.Call) and parent.func is not value:
        if function_named(module, ir.last_name(parent.func)) is None:
            return True
    cls = owner_class(value) if isinstance(value, ir.Attribute) else None
    return cls is not None and not bases_in_sight(module, cls)


def only_measures(reached: EventStates) -> bool:
    """A bound of infinity clips nothing."""
    return reached.event.how == "measure"


def unscale_for(module: Module, step: ir.Node) -> str:
    """The `unscale_` that belongs to a step of the scaler, with the names that stand there."""
    assert isinstance(step, ir.Call)
    assert isinstance(step.func, ir.Attribute)
    optimizer = argument(step, f"{SCALER}.step", "optimizer") or step.args[0].value
    return f"{module.text(step.func.base)}.unscale_({module.text(optimizer)})"


class Advice(NamedTuple):
    """What a message says to do about gradients that are still scaled, with the names of the function of the clip.

    `moves`: where the `unscale_` stands that comes too late. `waits`: on some path more backward passes come before the
    update, so that `unscale_`, which is for once in each update, would raise there or further down.
    """

    unscale: str
    scaler: str
    moves: ir.Node | None
    waits: bool

    def first(self, module: Module, what: str) -> str:
        """What to do where `unscale_` can come right before `what`."""
        if self.moves is not None:
            return f"move `{self.unscale}` from {module.line(self.moves)} to before this line"
        return f"call `{self.unscale}` before {what}"


def advice(module: Module, clip: Misuse) -> Advice:
    """What to do about a clip or a read of scaled gradients."""
    flow, reached, wanted = clip.flow, clip.reached, clip.violation.optimizer
    here = ir.function_of(reached.event.call)
    steps = [step for step in reached.steps if ir.function_of(step) is here]  # elsewhere the names may be others
    if steps:
        its = [step for step in steps if wanted and flow.event_states[step.id].event.optimizer == wanted]
        step = (its or steps)[-1]
        scaler, call = module.text(receiver(flow.event_states[step.id].event)), unscale_for(module, step)
        optimizers = {flow.event_states[each.id].event.optimizer for each in steps}
        if reached.event.kind == "clip" and len(optimizers) > 1 and wanted not in reached.clipped:
            call = f"{scaler}.unscale_(...)"  # which of them owns what is clipped is not in sight
    else:
        events = [each for each in flow.events if ir.function_of(each.call) is here]
        scalers = (
            receiver(each) for each in events if each.scaler is not None and each.scaler == clip.violation.scaler
        )
        scaler = next(map(module.text, scalers), "scaler")
        call = f"{scaler}.unscale_({_optimizer_text(module, events, wanted)})"
    return Advice(call, scaler, _late(module, clip, call), _waits(clip))


def _waits(clip: Misuse) -> bool:
    """Whether a path leads to the next scaled backward, and none goes past a step that stands beside the clip."""
    if not clip.reached.backward_first:
        return False
    pairs = [pair for step in clip.reached.steps for pair in side_by_side(clip.flow, clip.reached.event.call, step)]
    return not any(ir.statement_of(one).block is ir.statement_of(other).block for one, other in pairs)


def _late(module: Module, clip: Misuse, unscale: str) -> ir.Node | None:
    """The `unscale_` that comes behind a clip in its own function, and belongs to the same backward."""
    call = clip.reached.event.call
    behind = (
        each.call
        for each in calls_of(clip.flow, clip.violation.scaler, "unscale_")
        if each.call.id > call.id and ir.function_of(each.call) is ir.function_of(call)
        if module.text(each.call) == unscale and not exclusive(each.call, call)
    )
    late = next(behind, None)
    return late if late is not None and not backward_between(module, clip.flow, call, late) else None


def _optimizer_text(module: Module, events: list[Event], wanted: str) -> str:
    """What a function calls an optimizer; any that it has to do with where it isn't known which is meant."""
    found: dict[str, str] = {}
    for each in events:
        if each.optimizer is None or not isinstance(each.call, ir.Call):
            continue
        if each.scaler is not None and each.subject is not None:
            found[module.text(each.subject)] = each.optimizer
        elif each.kind == "optimizer_step":
            found[module.text(receiver(each))] = each.optimizer
    its = [text for text, key in found.items() if key == wanted]
    return next(iter(its), next(iter(found), "optimizer") if len(found) == 1 else "optimizer")


def is_compensated(module: Module, reached: EventStates) -> bool:
    """`max_norm * scaler.get_scale()`, or gradients that the function has divided by the scale itself."""
    call = reached.event.call
    values = [arg.value for arg in call.args[1:]] if isinstance(call, ir.Call) else []
    statement = ir.statement_of(call)
    if isinstance(statement, ir.AugAssign):
        values.append(statement.value)
    if any(_named_scale(each) or _computes_scale(module, each) for each in values):
        return True
    function = ir.function_of(call)
    statements = list(ir.walk_statements(function.body if function is not None else module.program.body))
    scales = _made_of_scale(statements)
    if any(has_scale(each, scales) for each in values):
        return True
    before = [each for each in statements if each.id < call.id and each is not statement]
    return any(_computes_in(each, scales) for each in before if not isinstance(each, (ir.Function, ir.Class)))


def _made_of_scale(statements: list[ir.Statement]) -> set[str]:
    """The variables that hold the scale, or what was computed from it."""
    scales: set[str] = set()
    while True:
        more = {
            target.name
            for each in statements
            if isinstance(each, ir.Assign) and each.value is not None and has_scale(each.value, scales)
            for target in each.targets
            if isinstance(target, ir.Name)
        }
        if more <= scales:
            return scales
        scales |= more


def _computes_scale(module: Module, value: ir.Value) -> bool:
    """Whether a bound is made by a function of this file that reads the scale."""
    calls = module.once(CallGraph)
    for each in ir.walk_values(value):
        callee = calls.find(each) if isinstance(each, ir.Call) else None
        if callee is not None and _reads_scale(callee.function.body):
            return True
    return False


def _reads_scale(body: ir.Block) -> bool:
    return any(isinstance(each, ir.Attribute) and each.attr in SCALE_READS for each in ir.values_below(body))


def _named_scale(value: ir.Value) -> bool:
    for each in ir.walk_values(value):
        name = ir.last_name(each)
        if "scale" in name and "scaler" not in name and name != "unscale_":
            return True
    return False


def has_scale(value: ir.Value, scales: Iterable[str] = ()) -> bool:
    """Whether a value has the scale in it, or one of the variables that hold it."""
    return any(
        (isinstance(each, ir.Attribute) and each.attr in SCALE_READS)
        or (isinstance(each, ir.Name) and each.name in scales)
        for each in ir.walk_values(value)
    )


def _computes_in(statement: ir.Statement, scales: Iterable[str]) -> bool:
    """Whether a statement computes with the scale."""
    values = (value for root in statement.values() for value in ir.walk_values(root))
    return _computes(statement, scales) or any(_computes(each, scales) for each in values)


def _computes(value: ir.Node, scales: Iterable[str]) -> bool:
    """Whether arithmetic with the scale is done here, as opposed to a report or a comparison."""
    if isinstance(value, ir.Binary):
        return value.op in ("Multiply", "Divide") and (has_scale(value.left, scales) or has_scale(value.right, scales))
    if isinstance(value, ir.AugAssign):
        return value.op in ("Multiply", "Divide") and has_scale(value.value, scales)
    if isinstance(value, ir.Call):
        name = ir.last_name(value.func)
        if name in _ARITHMETIC or "foreach" in name or "multi_tensor" in name:
            return any(has_scale(arg.value, scales) for arg in value.args)
    return False


def backward_after(flow: Flow, clip: Event, step: Event) -> ir.Value | None:
    """The backward between a clip and the step that used what it meets, where that is of the iteration before."""
    here = ir.function_of(clip.call)
    return next(
        (
            each.call
            for each in flow.events
            if each.kind == "backward" and clip.call.id < each.call.id < step.call.id
            if ir.function_of(each.call) is here is ir.function_of(step.call) and not exclusive(each.call, step.call)
        ),
        None,
    )


def meets_micro_steps(each: Misuse) -> bool:
    """Whether a clip also meets gradients that micro steps before it have accumulated."""
    optimizer = each.violation.optimizer
    others = (state for state in each.reached.states if state not in each.states)
    return any(state.gradients_of(optimizer).kind is GradientKind.SCALED for state in others)
