"""NaN and infinity are replaced before the scaler checks for them.

## What it does
Finds code that removes NaN and infinity from the loss before `scaler.scale(loss)`, or from the parameters' gradients
between the scaled backward pass and `scaler.unscale_` or `scaler.step`:

- `torch.nan_to_num`;
- `torch.where` and `masked_fill` with a mask of the non-finite elements, and `p.grad[torch.isnan(p.grad)] = 0`;
- a gradient that is set to None or 0 if it isn't finite;
- a loss that is replaced, if it isn't finite, by a value that has gradients: `if torch.isinf(loss): loss = (logits *
  0).sum()` (a new tensor such as `torch.zeros(())` has none, which AMP407 reports);
- a parameter's hook that does one of these.

The finding is only `likely` if a loss is replaced because it is NaN, and inf is left: there may be other reasons than
an overflow, such as an empty batch.

amplint reports nothing:

- after `scaler.unscale_(optimizer)`, which has already checked;
- about inputs, logits and targets;
- if all autocast regions are bfloat16;
- if the scaler is disabled, or amplint can see no scaler, as in a program of accelerate that needs DeepSpeed;
- if an option of the program turns the replacement on;
- about an `if not torch.isfinite(loss):` whose body also leaves the iteration (`continue`, `return`), uses the scaler,
  or sets a flag that decides whether the loss is scaled;
- about a clamp alone: it may be a clip by value, and keeps NaN;
- about CTC losses, which are infinite if the labels are too long.

## Why is this bad?
The scaler recognizes an overflow by NaN or infinity in the gradients. If the code replaces them, the scaler does not
skip the step. The optimizer then uses gradients that are 0 or the largest finite number. The scale does not fall, so
the next step can overflow again.

If the loss is replaced (`torch.nan_to_num(loss)`), all gradients are 0. Momentum and weight decay still move the
parameters. If an operation before the loss overflowed, the gradients can still be NaN: the scaler then skips the step,
while the logged loss looks fine.

## Example
```python
scaler.scale(loss).backward()
for p in model.parameters():
    p.grad = torch.nan_to_num(p.grad)
scaler.step(optimizer)
scaler.update()
```

## Use instead
```python
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
```

## Fix safety
There is no fix: amplint can't tell whether to remove the replacement, or to correct what makes the numbers overflow.

## Proof
The test programs have steps whose gradients overflow. In the wrong programs the scaler takes at least one of them, and
the scale stays too high. In the corrected programs it skips them, and lowers the scale.

## References
- [GradScaler](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.model.calls.events import is_grad
from amplint.model.calls.external_calls import local_function
from amplint.model.flow.analysis import Flow
from amplint.model.flow.gradient_reads import is_parameters
from amplint.model.inference.values import values_of
from amplint.model.names.reaching_definitions import returned
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.control import block_leaves
from amplint.model.syntax.nesting import conditions, exclusive, ifs_round, skipping
from amplint.model.torch_facts.names import SCALERS
from amplint.model.torch_facts.op_spellings import SAME_VALUES
from amplint.model.usage.accelerators import needs_engine
from amplint.model.usage.mentions_of import STORES_GRAD
from amplint.registry.rule import Rule
from amplint.rules.shared.detached_losses import new_tensor
from amplint.rules.shared.finite_checks import about_finite, made_of, not_finite
from amplint.rules.shared.scaler_order import calls_of, side_by_side
from amplint.rules.shared.skipped_steps import beside, is_routine, runs_with, scaler_calls

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(),
    triggers=(
        "nan_to_num & .scale( & backward",
        "nan_to_num & grad & scaler & step(",
        "isfinite & .scale( & backward",
        "isfinite & grad & scaler & step(",
        "isnan & .scale( & backward",
        "isnan & grad & scaler & step(",
        "isinf & .scale( & backward",
        "isinf & grad & scaler & step(",
    ),
    not_shown="verify doesn't interpret what code does to gradients that are not finite",
)

_LOSS = re.compile(r"(?i)loss|criterion|cross_entropy|objective")
_CTC = re.compile(r"(?i)(^|_|\.)ctc")
# With what a mask is written of where a tensor is finite, or isn't.
_MASKS = ("isnan", "isinf", "isfinite", "!=", re.compile(r"\b(float|inf|nan)\b"))
_HOOKS = ("register_hook", "register_post_accumulate_grad_hook")
_OF_GRADIENTS = (
    "inf and NaN in gradients are replaced before the scaler checks for them: the scaler steps and doesn't "
    "lower the scale"
)
_OF_NAN_GRADIENTS = (
    "NaN in gradients is replaced, and inf isn't, before the scaler checks for both: where an overflow made only NaN, "
    "the scaler steps and doesn't lower the scale"
)
_OF_NAN_LOSS = (
    "a NaN loss is replaced, and inf isn't: where an overflow made the NaN, and the gradients become 0, the scaler "
    "steps and doesn't lower the scale"
)
_OF_LOSS = (
    "an inf or NaN loss is replaced, which hides an overflow: if the gradients become 0, the scaler steps and "
    "doesn't lower the scale"
)


class Hidden(NamedTuple):
    """A place where what isn't finite is replaced, and the tensor that it is replaced in.

    `instead`: what a variable is assigned in its place, where it is not finite; None where its elements are replaced.
    `mask`: what says which elements those are; None where an `if` round it asks, or it needs none.
    """

    at: ir.Node
    tensor: ir.Value
    instead: ir.Value | None = None
    mask: ir.Value | None = None


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each replacement that keeps an overflow from the scaler."""
    if needs_engine(module) and not any(map(module.is_own, module.calls_of(*SCALERS))):
        return
    hidden = list(_hidden(module))
    told: set[int] = set()
    for each in hidden:
        gradient = _gradient(module, each.tensor)
        if gradient is None or not is_parameters(module, gradient) or not _stays(each.at):
            continue
        if _is_before_the_check(module, each.at):
            told.add(each.at.id)
            yield _finding(
                module, each.at, _OF_NAN_GRADIENTS if each.mask and _is_of_nan(module, each) else _OF_GRADIENTS
            )
    for hook in _hooks(module):
        if any(True for _ in scaler_calls(module, "scale")):
            yield _finding(module, hook, _OF_GRADIENTS)
    for flow, reached in scaler_calls(module, "scale"):
        subject = reached.event.subject
        for each in _of_loss(module, flow, reached.event.call, subject, hidden) if subject is not None else ():
            if each.at.id not in told:
                told.add(each.at.id)
                yield _finding(module, each.at, _said_of_loss(module, each), _confidence(module, each))


def _finding(module: Module, at: ir.Node, said: str, confidence: Confidence | None = None) -> Finding:
    fix = Fix(Applicability.DISPLAY, "Without the replacement, the scaler skips the step and lowers the scale")
    return rule.finding(module.span(at), f"{said}; remove the replacement", fix=fix, confidence=confidence)


def _said_of_loss(module: Module, hidden: Hidden) -> str:
    is_of_nan = _is_of_nan(module, hidden)
    if not isinstance(hidden.instead, (ir.Name, ir.Attribute)):
        return _OF_NAN_LOSS if is_of_nan else _OF_LOSS
    instead, what = module.on_one_line(hidden.instead), "a NaN" if is_of_nan else "an inf or NaN"
    return (
        f"{what} loss is replaced with `{instead}`: the scaler steps with the gradients of `{instead}`, and doesn't "
        "lower the scale"
    )


def _confidence(module: Module, hidden: Hidden) -> Confidence | None:
    """Likely where a loss is replaced that is NaN: an empty batch makes one, too."""
    if hidden.instead is None:
        return Confidence.LIKELY if _is_of_nan(module, hidden) else None
    asked = {ir.last_name(each.func) for each in _asked(module, hidden) if isinstance(each, ir.Call)}
    return None if asked & {"isinf", "isfinite"} else Confidence.LIKELY


def _is_of_nan(module: Module, hidden: Hidden) -> bool:
    """Whether NaN alone is replaced, by a mask or an `if` of `isnan`."""
    asked = {ir.last_name(each.func) for each in _asked(module, hidden) if isinstance(each, ir.Call)}
    return "isnan" in asked and not asked & {"isinf", "isfinite"}


def _asked(module: Module, hidden: Hidden) -> list[ir.Value]:
    """What asks where something isn't finite."""
    outer = hidden.at if isinstance(hidden.at, ir.Statement) else ir.statement_of(hidden.at)
    test = hidden.mask or (outer.parent.test if isinstance(outer.parent, ir.If) else None)
    masks = [] if test is None else [test, *(each for each in made_of(module, test) if each is not test)]
    return [inside for each in masks for inside in ir.walk_values(each)]


# --- what replaces ----------------------------------------------------------------------------------------------------


def _hidden(module: Module) -> Iterator[Hidden]:
    for call in module.whole.near("nan_to_num", "masked_fill", "where", "zero_", "fill_").calls:
        tensor = _replaced(module, call)
        if tensor is not None:
            yield Hidden(call, tensor, mask=_mask(call))
    for statement in module.whole.near(*_MASKS, STORES_GRAD).statements:
        if not isinstance(statement, ir.Assign):
            continue
        for target in statement.targets:
            if isinstance(target, ir.Subscript) and _asks(module, target.index, target.base):
                yield Hidden(statement, target.base, mask=target.index)
            elif is_grad(target) and _is_nothing(module, statement.value) and _is_guarded(module, statement, target):
                yield Hidden(statement, target)
            elif _is_instead(module, statement, target):
                yield Hidden(statement, target, statement.value)


def _is_instead(module: Module, statement: ir.Assign, target: ir.Value) -> bool:
    """Whether a statement binds a variable to something else just where it isn't finite, and the iteration goes on."""
    arm, value = statement.block, statement.value
    if value is None or not isinstance(target, (ir.Name, ir.Attribute)) or not _is_guarded(module, statement, target):
        return False
    if new_tensor(module, value) is not None:
        return False  # the batch is dropped on purpose: nothing of it reaches the gradients
    if block_leaves(arm) or any(objects(module).is_scaler(each) is not None for each in ir.values_below(arm)):
        return False
    key = objects(module).own_key(target)
    return all(objects(module).own_key(each) != key for each in ir.walk_values(value) if _is_variable(each))


def _is_variable(value: ir.Value) -> bool:
    return isinstance(value, (ir.Name, ir.Attribute))


def _replaced(module: Module, call: ir.Call) -> ir.Value | None:
    """The tensor in which a call replaces what isn't finite."""
    of_torch = any(each.startswith("torch.") for each in module.names.of(call.func))
    given = _operands(call, of_torch=of_torch)
    if not given:
        return None
    match ir.last_name(call.func):
        case "nan_to_num" | "nan_to_num_":
            return given[0]
        case "masked_fill" | "masked_fill_" if len(given) > 1:
            return given[0] if _asks(module, given[1], given[0]) else None
        case "where" if of_torch and len(given) == 3:
            return next((each for each in given[1:] if _asks(module, given[0], each)), None)
        case "zero_" | "fill_" if not of_torch and is_grad(given[0]):
            return given[0] if _is_guarded(module, ir.statement_of(call), given[0]) else None
    return None


def _mask(call: ir.Call) -> ir.Value | None:
    """What a call of `where` or `masked_fill` asks of the elements; of `nan_to_num`, which needs no mask, itself."""
    name = ir.last_name(call.func)
    if name.startswith("nan_to_num"):
        return call
    given = {"where": 0, "masked_fill": -2, "masked_fill_": -2}.get(name)
    return call.positional[given] if given is not None and len(call.positional) >= 2 else None


def _operands(call: ir.Call, *, of_torch: bool) -> list[ir.Value]:
    """What a function of torch or a method computes with; nothing for another function."""
    if of_torch:
        return list(call.positional)
    return [call.func.base, *call.positional] if isinstance(call.func, ir.Attribute) else []


def _asks(module: Module, test: ir.Value, tensor: ir.Value) -> bool:
    """Whether a mask is one of where a tensor is not finite, or of where it is."""
    known = objects(module)
    key = known.render(_bare(tensor))
    return key is not None and any(known.render(_bare(each)) == key for each in about_finite(module, test))


def _is_nothing(module: Module, value: ir.Value | None) -> bool:
    """None, or zeros."""
    if isinstance(value, ir.Call):
        return bool(module.names.of(value.func) & {"torch.zeros_like", "torch.zeros"})
    return isinstance(value, ir.Constant) and value.value is None


def _is_guarded(module: Module, statement: ir.Statement, gradient: ir.Value) -> bool:
    """Whether a statement runs just where a gradient isn't finite."""
    outer = statement.parent
    if not isinstance(outer, ir.If):
        return False
    key = objects(module).render(_bare(gradient))
    asked = not_finite(module, outer.test, statement.block is outer.then)
    return key is not None and any(objects(module).render(_bare(each)) == key for each in asked)


def _bare(tensor: ir.Value) -> ir.Value:
    """A tensor without what leaves its elements as they are: `p.grad.data`, `loss.detach()`."""
    while True:
        inner = tensor.func if isinstance(tensor, ir.Call) else tensor
        if not isinstance(inner, ir.Attribute) or inner.attr not in SAME_VALUES:
            return tensor
        tensor = inner.base


# --- gradients --------------------------------------------------------------------------------------------------------


def _gradient(module: Module, tensor: ir.Value) -> ir.Value | None:
    """The `p.grad` that a tensor is, itself or through a variable."""
    bare = _bare(tensor)
    if isinstance(bare, ir.Name):
        found = [_bare(each.value) for each in values_of(module, bare).leaves]
        return found[0] if len(found) == 1 and is_grad(found[0]) else None
    return bare if is_grad(bare) else None


def _stays(at: ir.Node) -> bool:
    """Whether a replacement changes the gradients themselves: in place, or written back."""
    if _is_in_place(at) or (isinstance(at, ir.Call) and at.keyword("out") is not None):
        return True
    up: ir.Node | None = at.parent
    while isinstance(up, ir.Value):
        if isinstance(up, ir.Call) and isinstance(up.func, ir.Attribute) and up.func.attr == "copy_":
            return is_grad(up.func.base)
        up = up.parent
    return isinstance(up, ir.Assign) and any(is_grad(each) for each in up.targets)


def _is_before_the_check(module: Module, node: ir.Node) -> bool:
    """Whether gradients are scaled at a node, and the scaler hasn't looked at them since."""
    for flow, reached in scaler_calls(module, "scale", "step", "unscale_"):
        event = reached.event
        for place, call in beside(module, flow, node, event.call):
            # The call of a helper that replaces them comes before what it does itself.
            looked = any(_has_looked(flow, str(event.scaler), each) for each in (place, node))
            if looked or not runs_with(module, flow, place, call):
                continue
            if event.kind == "scale":
                if place.id > call.id and _is_checked_behind(flow, str(event.scaler), place):
                    return True
            elif place.id < call.id and "unscale_" not in module.source.text.replace(module.text(event.call), ""):
                return True  # what scales stands elsewhere
    return False


def _has_looked(flow: Flow, scaler: str, place: ir.Node) -> bool:
    """Whether a call of the scaler that looks for what isn't finite comes before a place."""
    return any(
        there.id < at.id and not exclusive(there, at)
        for event in calls_of(flow, scaler, "unscale_", "step")
        for there, at in side_by_side(flow, event.call, place)
    )


def _is_checked_behind(flow: Flow, scaler: str, place: ir.Node) -> bool:
    return any(
        there.id > at.id
        for event in calls_of(flow, scaler, "unscale_", "step")
        for there, at in side_by_side(flow, event.call, place)
    )


def _hooks(module: Module) -> Iterator[ir.Call]:
    """The hooks of parameters that replace what isn't finite."""
    for call in module.whole.near(*_HOOKS).calls:
        func = call.func
        if isinstance(func, ir.Attribute) and func.attr in _HOOKS and call.positional:
            hook = call.positional[0]
            function = hook.function if isinstance(hook, ir.Lambda) else local_function(module, hook)
            replaces = function is not None and not ifs_round(call) and _replaces(module, function)
            if replaces and _is_parameter(module, func.base):
                yield call


def _is_parameter(module: Module, value: ir.Value) -> bool:
    """Whether a loop takes a tensor from the parameters of a model."""
    known = objects(module)
    loops = [each for each in made_of(module, value) if isinstance(each, ir.Call)]
    return isinstance(value, ir.Name) and any(known.parameters_roots(each) for each in loops)


def _replaces(module: Module, function: ir.Function) -> bool:
    """Whether a hook returns its gradient with what isn't finite replaced."""
    values = [each.value for each in returned(function)]
    return bool(values) and all(isinstance(each, ir.Call) and _replaced(module, each) is not None for each in values)


# --- losses -----------------------------------------------------------------------------------------------------------


def _of_loss(module: Module, flow: Flow, scale: ir.Value, loss: ir.Value, hidden: list[Hidden]) -> Iterator[Hidden]:
    """What is replaced in a loss before it is scaled."""
    made = made_of(module, loss)
    ids = {each.id for each in made}
    keys = {objects(module).own_key(each) for each in made if isinstance(each, ir.Name)}
    for each in hidden:
        bare = _bare(each.tensor)
        if any(_may_be_infinite(module, part) for part in made_of(module, bare)) or _is_apart(
            module, flow, each, scale
        ):
            continue
        if each.instead is not None:
            if _is_scaled_instead(module, flow, scale, each, made):
                yield each
        elif each.at.id in ids:
            if _is_loss(bare) or not _is_weighted(each.at, made):
                yield each
        elif _is_in_place(each.at) and isinstance(bare, ir.Name) and _is_loss(bare):
            if objects(module).own_key(bare) in keys:
                yield each


def _is_scaled_instead(module: Module, flow: Flow, scale: ir.Value, hidden: Hidden, made: list[ir.Value]) -> bool:
    """Whether what a loss is replaced by is what is scaled, or a part of it."""
    instead, tensor = hidden.instead, hidden.tensor
    assert instead is not None
    if isinstance(tensor, ir.Name):
        reaches = any(each is instead for each in made) and (_is_loss(tensor) or not _is_weighted(instead, made))
    else:
        key = objects(module).own_key(tensor)
        reads = any(objects(module).own_key(each) == key for each in made if isinstance(each, ir.Attribute))
        reaches = reads and _is_loss(tensor)
    if not reaches:
        return False
    before = [(place, call) for place, call in beside(module, flow, hidden.at, scale) if place.id < call.id]
    outer, known = hidden.at.parent, objects(module)
    set_there = set(known.assigned_in(outer)) if isinstance(outer, ir.If) else set()
    return any(not any(known.names_in(each.test) & set_there for each in _between(*pair)) for pair in before)


def _between(place: ir.Node, scale: ir.Node) -> list[ir.If]:
    """The ifs that decide whether a loss is scaled behind a place."""
    return skipping(place, scale, "continue", "break", "return", "raise")


def _is_apart(module: Module, flow: Flow, hidden: Hidden, scale: ir.Value) -> bool:
    """Whether a replacement in the function of a scale comes behind it, or under conditions of its own."""
    at = hidden.at
    if ir.function_of(at) is not ir.function_of(scale):
        return False
    before = at.id < scale.id or any(at is value for value in ir.walk_values(scale))
    return not before or not all(is_routine(module, flow, test.test) for test in conditions(at, scale))


def _is_in_place(at: ir.Node) -> bool:
    """Whether a replacement changes the tensor itself: `loss[mask] = 0`, `loss.nan_to_num_()`."""
    return not isinstance(at, ir.Call) or ir.last_name(at.func).endswith("_")


def _is_loss(tensor: ir.Value) -> bool:
    return any(_LOSS.search(ir.last_name(each)) for each in ir.walk_values(tensor))


def _may_be_infinite(module: Module, value: ir.Value) -> bool:
    """A CTC loss is infinite where the labels don't fit into the input: no overflow, and nothing of the scaler's."""
    if not isinstance(value, ir.Call):
        return False
    classes = objects(module).classes_of(objects(module).key(value.func))
    return any(_CTC.search(name) for name in (ir.last_name(value.func), *classes))


def _is_weighted(node: ir.Node, made: list[ir.Value]) -> bool:
    """Whether a value is one of several that a loss is computed of: it may be a weight, or a prediction."""
    return any(isinstance(each, ir.Binary) for each in made) and node is not made[0]
