"""The loss that is logged, compared or returned is multiplied by the loss scale.

## What it does
Finds a variable that holds `scaler.scale(loss)`, if a backward pass starts from it, and it is also logged, summed up
for a log, compared, stored or returned as the loss. Also finds a loss that is scaled where it is read:
`scaler.scale(loss).item()`.

amplint reports nothing:

- if the function reads the scale itself (`loss.item() / scaler.get_scale()`);
- if the scaler is disabled;
- if the loss is only checked for NaN and infinity, or is reported under a name with "scaled";
- if the scaled loss is returned, and the caller may run the backward pass;
- if amplint can't see how the number is used.

## Why is this bad?
At the initial scale the number is 65,536 times the loss, and it jumps by a factor of two whenever the scale changes.
Loss curves, early stopping and the choice of the best checkpoint follow the scale instead of the model.

## Example
```python
loss = scaler.scale(loss)
loss.backward()
total += loss.item()
```

## Use instead
```python
scaled_loss = scaler.scale(loss)
scaled_loss.backward()
total += loss.item()
```

## Fix safety
Unsafe: the reported number changes. If the scaled loss replaced the loss (`loss = scaler.scale(loss)`), the fix gives
the scaled loss a name of its own, from which the backward pass then starts. If the scaled loss already has a name of
its own, the report gets the unscaled loss.

There is no fix if the loss is scaled on some paths only, or if amplint can't tell which code needs the scaled loss.

## Proof
The test programs check the size of the reported loss: they raise before the fix, and train after it. Programs that only
print the loss are not executed (shows=none): printing doesn't change the training.

## References
- [Typical mixed precision
  training](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#typical-mixed-precision-training)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Edit, Finding, Fix, Severity
from amplint.fixes.statements import says_the_same
from amplint.model.flow.analysis import Flow, flows
from amplint.model.flow.event_states import EventStates
from amplint.model.flow.value_uses import ValueUses, reads_of
from amplint.model.names.reaching_definitions import reaching
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.ir import node_of
from amplint.model.syntax.nesting import conditions, dominates, exclusive
from amplint.model.torch_facts.grad_modes import ENDS_GRADIENTS
from amplint.registry.rule import Rule
from amplint.rules.shared.scale_reports import uses_scale
from amplint.rules.shared.scaler_order import always_off, reached_events

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.UNSAFE,),
    triggers=(".scale( & backward",),
    not_shown="verify doesn't follow what happens to reported numbers",
)

_WORDS = {"logged": "log", "compared": "compare", "stored": "store", "returned": "return"}
_NO_REPORT = {"backward", "compensated", "divisor", "lost"}
# Functions that ask for NaN and infinity, which are the same at every scale.
_TESTS = {"isfinite", "isinf", "isnan"}


class Read(NamedTuple):
    """A read of the variable that holds the scaled loss, what becomes of it, and whether it can hold nothing else."""

    value: ir.Name
    found: set[str]
    surely: bool


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each report of a scaled loss."""
    reported: set[int] = set()
    for flow in flows(module):
        for reached in reached_events(flow, "scale"):
            if reached.event.call.id in reported:
                continue
            reported.add(reached.event.call.id)
            yield from _judge_read(module, flow, reached)
            assign = reached.event.call.parent
            if not isinstance(assign, ir.Assign) or len(assign.targets) != 1 or uses_scale(module, assign):
                continue
            target = assign.targets[0]
            if not always_off(flow, reached) and isinstance(target, ir.Name):
                yield from _judge(module, reached, target)


def _judge_read(module: Module, flow: Flow, reached: EventStates) -> Iterator[Finding]:
    """The report of a loss that is scaled right where it is read: `scaler.scale(loss).item()`."""
    call, loss = reached.event.call, reached.event.subject
    found = ValueUses(module, call).found
    is_detached = isinstance(call.parent, ir.Attribute) and call.parent.attr in ENDS_GRADIENTS
    reported = {"logged", "compared", *(["stored", "returned"] if is_detached else [])}
    what = next((each for each in _WORDS if each in found & reported), "")
    if not what or found & _NO_REPORT or always_off(flow, reached) or uses_scale(module, ir.statement_of(call)):
        return
    if loss is None or isinstance(call.parent, ir.Statement) or not _is_of_losses(module, flow, reached):
        return
    text, offered = module.text(loss), None
    if isinstance(loss, (ir.Name, ir.Attribute)):
        edit = Edit(*module.span(call), text)
        offered = Fix(Applicability.UNSAFE, f"Replace with `{text}` (this number changes)", (edit,))
    yield rule.finding(
        module.span(call),
        f"the {what} loss is multiplied by the loss scale, and far too large; {_WORDS[what]} `{text}` instead",
        fix=offered,
        withheld="the loss has no name; assign the loss to a variable, by hand" if offered is None else None,
    )


def _is_of_losses(module: Module, flow: Flow, reached: EventStates) -> bool:
    """Whether a scaler is torch's: the file creates it, or a backward pass starts from what it scales."""
    scaler = str(reached.event.scaler)
    alike = (each.event.call for each in reached_events(flow, "scale") if each.event.scaler == scaler)
    return bool(objects(module).made_by(scaler)) or any("backward" in ValueUses(module, each).found for each in alike)


def _judge(module: Module, reached: EventStates, target: ir.Name) -> Iterator[Finding]:
    reads = list(_reads(module, reached.event.call, target))
    backwards = [read for read in reads if "backward" in read.found]
    if not backwards:
        return
    for read in reads:
        what = _report(read, backwards)
        if what:
            offered, withheld = _fix(module, reached, target, reads, read)
            yield rule.finding(
                module.span(read.value),
                f"`scale()` on {module.line(target)} multiplied `{target.name}` by the loss scale: the {what} loss is "
                f"far too large; {_WORDS[what]} the unscaled loss",
                fix=offered,
                withheld=withheld,
            )


def _reads(module: Module, scale: ir.Value, target: ir.Name) -> Iterator[Read]:
    """The reads that can see the scaled loss, but for those on which an if decides that may decide about scaling."""
    known = objects(module)
    for value in reads_of(module, known.own_key(target)):
        if not isinstance(value, ir.Name) or value.bound:
            continue
        seen = [node_of(each) for each in reaching(module.names, value)]
        deciding = {key for each in conditions(scale, value) for key in known.names_in(each.test)}
        asked = {key for each in conditions(value, scale) for key in known.names_in(each.test)}
        if target in seen and not exclusive(value, scale) and not deciding & asked:
            if not any(_replaces(target, other, value) for other in seen if isinstance(other, ir.Name)):
                yield Read(value, ValueUses(module, value).found, len(seen) == 1 and not conditions(scale, value))


def _replaces(target: ir.Name, other: ir.Name, read: ir.Name) -> bool:
    """Whether every way from one assignment to a read goes through another one, in this iteration or in the next."""
    between = target.id < other.id < read.id or other.id < read.id < target.id
    return between and dominates(ir.statement_of(other), ir.statement_of(read))


def _report(read: Read, backwards: list[Read]) -> str:
    """How a read reports the loss; "" where it doesn't."""
    if read.found & _NO_REPORT or isinstance(ir.statement_of(read.value), ir.Raise):
        return ""  # an error's text shows what it is about
    if _is_labelled(read.value):
        return ""
    # Before backward, what is returned or kept may be what backward starts from elsewhere.
    late = _is_detached(read.value) or any(each.value.id < read.value.id for each in backwards)
    function = ir.function_of(read.value)
    nested = function is not None and function.outer is not None  # a closure: an optimizer may take what it returns
    reported = {"logged", "compared", *(["stored"] if late else []), *(["returned"] if late and not nested else [])}
    return next((each for each in _WORDS if each in read.found & reported), "")


def _is_labelled(value: ir.Value) -> bool:
    """Whether a loss is reported under a name that says that it is scaled: `{"scaled_loss": loss.item()}`."""
    inside: ir.Value = value
    while isinstance(inside.parent, ir.Value):
        up = inside.parent
        labels: list[object] = []
        if isinstance(up, ir.Mapping):
            labels = [key.value for key, item in up.items if item is inside and isinstance(key, ir.Constant)]
        elif isinstance(up, ir.Call):
            labels = [each.value for each in up.positional if isinstance(each, ir.Constant)]
            labels += [arg.keyword for arg in up.args if arg.value is inside]
        if any(isinstance(each, str) and "scaled" in each.lower() for each in labels):
            return True
        inside = up
    return False


def _is_detached(value: ir.Name) -> bool:
    """Whether no backward can start from what is read: `loss.item()`, `loss.detach()`."""
    return isinstance(value.parent, ir.Attribute) and value.parent.attr in ENDS_GRADIENTS


def _fix(
    module: Module, reached: EventStates, target: ir.Name, reads: list[Read], report: Read
) -> tuple[Fix | None, str | None]:
    loss = reached.event.subject
    if not all(read.surely for read in reads):
        return None, "the loss is scaled on some paths only; keep the scaled loss in another variable, by hand"
    if not isinstance(loss, ir.Name):
        return (
            None,
            "no variable holds the unscaled loss; assign the loss to a variable before `scale()`, by hand",
        )
    if loss.name != target.name:
        if not says_the_same(module, loss, report.value, reached.event.call):
            return None, f"`{loss.name}` has another value on this line; keep the unscaled loss in another variable"
        start, end = module.span(report.value)
        return Fix(
            Applicability.UNSAFE, f"Replace with `{loss.name}` (this number changes)", (Edit(start, end, loss.name),)
        ), None
    name = f"scaled_{target.name}"
    if re.search(rf"\b{name}\b", module.source.text):
        return None, f"the file already uses the name `{name}`; keep the scaled loss in another variable, by hand"
    unclear = next((read for read in reads if not _is_clear(read)), None)
    if unclear is not None:
        return None, f"amplint can't tell whether {module.line(unclear.value)} needs the scaled loss"
    renamed = [target, *(read.value for read in reads if "backward" in read.found)]
    edits = tuple(Edit(*module.span(each), name) for each in sorted(renamed, key=lambda each: each.id))
    return Fix(
        Applicability.UNSAFE, f"Keep the scaled loss in `{name}`, and the unscaled loss in `{target.name}`", edits
    ), None


def _is_clear(read: Read) -> bool:
    """Whether a read is for backward, or for nothing but reports and tests."""
    if "backward" in read.found:
        return not read.found & set(_WORDS)
    parent = read.value.parent
    if isinstance(parent, ir.Attribute):
        tested = parent.attr in _TESTS
    else:
        tested = isinstance(parent, ir.Call) and ir.last_name(parent.func) in _TESTS
    return tested or isinstance(parent, (ir.Delete, ir.Compare)) or bool(read.found & set(_WORDS))
