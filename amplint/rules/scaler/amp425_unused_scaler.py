"""A GradScaler is created and never used.

## What it does
Finds a variable that holds a new `GradScaler`, also a conditional one (`GradScaler() if args.amp else None`), if the
scaler never scales a loss:

- the code only compares the variable with None, prints it, or saves and loads its state;
- the code only passes the variable to a function that never reads that parameter, and trains without autocast;
- the function with the variable calls `accelerator.backward(loss)`, which scales only with accelerate's own scaler.

If a function of this project takes a scaler (`def train_one_epoch(..., scaler=None)`), and its call passes none, the
message names that call.

A finding about a variable outside of functions is only *likely*: another file may import it. If the scaler depends on
no option (it has no `enabled=`, and no condition decides on it), and no function takes a scaler, the finding is a
*suspicion* (a note): the line may be left over from code with AMP, and has no effect.

amplint reports nothing:

- if the file opens an autocast region: AMP207 finds float16 regions without a scaler, and bfloat16 needs none. Three
  cases are still reported: a function takes a scaler and doesn't get it, or gets the scaler and never reads it,
  or the Accelerator runs backward;
- if the file calls nothing that trains, judged by the words `backward`, `step`, `fit` and `train` in names;
- about a scaler that is always disabled;
- about attributes (`self.scaler`), which another file may use;
- about a variable outside of functions, unless the file is a notebook or has `if __name__ == "__main__":`.

## Why is this bad?
A GradScaler does nothing by itself: mixed precision needs `scaler.scale(loss).backward()`, `scaler.step(optimizer)` and
an autocast region. Without them the program trains in float32, at the speed and with the memory of float32, while its
options and its log say that AMP is on.

## Example
```python
scaler = torch.amp.GradScaler("cuda") if args.amp else None
for epoch in range(args.epochs):
    train_one_epoch(model, loader, optimizer)
```

## Use instead
```python
scaler = torch.amp.GradScaler("cuda") if args.amp else None
for epoch in range(args.epochs):
    train_one_epoch(model, loader, optimizer, scaler=scaler)
```

## Fix safety
There is no fix: amplint can't tell whether AMP is wanted.

## Proof
The test programs are not executed (shows=none): a step is the same with an unused scaler and without it.

## References
- [Typical mixed precision
  training](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#typical-mixed-precision-training)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Confidence, Finding, Severity
from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.events import events
from amplint.model.inference.formulas import FALSE
from amplint.model.inference.value_sets import decided
from amplint.model.objects.amp_objects import scaler_arguments
from amplint.model.objects.autocast_objects import regions
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round
from amplint.model.torch_facts.names import SCALERS
from amplint.model.usage.accelerators import SCALES, accelerators
from amplint.registry.rule import Rule

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    triggers=("GradScaler",),
    fixes=(),
    not_shown="a run without the scaler is the same",
)

# What doesn't use a scaler, though it reads it.
_IDLE = ("state_dict", "load_state_dict", "is_enabled", "get_scale")
_ASKING = (ir.Compare, ir.Bool, ir.Unary, ir.FString)
_TRAINING = ("backward", "step", "fit", "train")
_NAMESPACES = {"builtins.locals", "builtins.globals", "builtins.vars"}


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each variable with a scaler that nothing uses."""
    for call in module.own.near(*module.words(*SCALERS)).calls:
        name = _kept_in(call) if module.names.of(call.func) & SCALERS else None
        ignoring = _ignoring(module, name) if name is not None else None
        if name is None or ignoring is None:
            continue
        if ir.function_of(name) is None and not (module.source.cells or "__main__" in module.source.text):
            continue
        enabled = decided(module).of(scaler_arguments(module, call).get("enabled"))
        finding = _judge(module, call, name, ignoring) if enabled != FALSE else None
        if finding is not None:
            yield finding


def _judge(module: Module, call: ir.Call, name: ir.Name, ignoring: list[ir.Call]) -> Finding | None:
    """The finding of a scaler that is kept in a variable, and that nothing uses but the calls that ignore it."""
    leaving_out = _leaving_out(module, name) if not ignoring else None
    is_idle = leaving_out is None and not ignoring
    past = _backward_past(module, name) if is_idle else None
    if past is not None:
        return _next_to_accelerator(module, call, name, past)
    if is_idle and (regions(module) or not module.once(_trains)):
        return None
    is_left = is_idle and not _is_asked_for(module, call)
    return rule.finding(
        module.span(call),
        _said(module, name, leaving_out, ignoring),
        withheld="amplint can't tell whether AMP is wanted",
        severity=Severity.NOTE if is_left else None,
        confidence=Confidence.SUSPICION if is_left else _sureness(name),
    )


def _next_to_accelerator(module: Module, call: ir.Call, name: ir.Name, backward: ir.Call) -> Finding:
    """The finding of a scaler that an Accelerator's backward passes by, as it has one of its own."""
    accelerator = ir.called_on(backward, "backward")
    assert accelerator is not None
    has_own = accelerators(module).precisions(accelerator) == {SCALES}
    how = "has a scaler of its own" if has_own else f'scales with a scaler of its own, and only for "{SCALES}"'
    return rule.finding(
        module.span(call),
        f"`{name.name}` is never used: `{module.on_one_line(backward.func)}` on {module.line(backward)} doesn't know "
        f"it, and {how}; remove this scaler"
        + ("" if has_own else f', and let the Accelerator choose the precision: `mixed_precision="{SCALES}"`'),
        withheld="amplint can't tell which precision is wanted",
        severity=Severity.NOTE if has_own else None,
        confidence=_sureness(name),
    )


def _sureness(name: ir.Name) -> Confidence | None:
    """How sure a finding about a variable is: another file may import one that is in no function."""
    return Confidence.LIKELY if ir.function_of(name) is None else None


def _backward_past(module: Module, name: ir.Name) -> ir.Call | None:
    """The first backward pass by an Accelerator, in the function of a variable with a scaler."""
    known, function = accelerators(module), ir.function_of(name)
    if not known.is_used:
        return None
    calls = module.own.within(function).called("backward")
    found = (each for each in calls if ir.function_of(each) is function and known.kind(each) == "backward")
    return next(found, None)


def _is_asked_for(module: Module, call: ir.Call) -> bool:
    """Whether a setting decides on a new scaler: else the line may be left over from a trainer with AMP."""
    if "enabled" in scaler_arguments(module, call) or _chosen(call) is not call:
        return True
    return any("__name__" not in module.text(test) for test, _ in conditions_round(call))


def _trains(module: Module) -> bool:
    """Whether a file calls anything that is named as what trains: an evaluation has no use for a scaler anyway."""
    calls = module.own.near(*_TRAINING).calls
    return any(word in ir.last_name(each.func).lower() for each in calls for word in _TRAINING)


def _said(module: Module, name: ir.Name, leaving_out: ir.Call | None, ignoring: list[ir.Call]) -> str:
    if ignoring:
        called = module.on_one_line(ignoring[0].func)
        return (
            f"`{name.name}` is never used: `{called}` gets the scaler on {module.line(ignoring[0])}, but does "
            "not scale the loss with it; in that function, use autocast, scale the loss and step with the scaler"
        )
    if leaving_out is None and (other := _other_scale(module, name)) is not None:
        return (
            f"`{name.name}` never scales a loss: `{module.on_one_line(other.func)}` on {module.line(other)} does; "
            f"remove `{name.name}`, and read the state of the other scaler"
        )
    if leaving_out is None:
        return (
            f"`{name.name}` never scales a loss, and no other scaler does; either run under autocast, scale the loss "
            "and step with the scaler, or remove the scaler"
        )
    called = module.on_one_line(leaving_out.func)
    return (
        f"`{name.name}` is never used: `{called}` takes a scaler, but the call on {module.line(leaving_out)} passes "
        "none, and the loss is not scaled; pass the scaler"
    )


def _other_scale(module: Module, name: ir.Name) -> ir.Call | None:
    """The first call that scales a loss with another scaler, in the function of a variable with one."""
    function = ir.function_of(name)
    for call in module.own.within(function).called("scale"):
        event = events(module).of(call)
        is_scaled = isinstance(call.parent, ir.Attribute) and call.parent.attr == "backward"
        if ir.function_of(call) is function and (is_scaled or (event is not None and event.kind == "scale")):
            return call
    return None


def _chosen(value: ir.Value) -> ir.Value:
    """A value, or the conditional that it is an arm of: `GradScaler() if amp else None`."""
    while isinstance(value.parent, ir.Conditional) and value is not value.parent.test:
        value = value.parent
    return value


def _kept_in(call: ir.Call) -> ir.Name | None:
    """The variable that a new scaler is assigned to, also under a condition."""
    value = _chosen(call)
    statement = value.parent
    if not isinstance(statement, ir.Assign) or len(statement.targets) != 1 or statement.value is not value:
        return None
    target = statement.targets[0]
    return target if isinstance(target, ir.Name) and not target.name.startswith("_") else None


def _ignoring(module: Module, name: ir.Name) -> list[ir.Call] | None:
    """The calls of functions that get a variable and train, and don't read that parameter; None where anything else
    than a test, a message or a look at its state reads the variable.
    """
    home = name.scope.home(name.name)
    if home is None or home.kind == "class" or (home.kind == "module") is not (ir.function_of(name) is None):
        return None  # a global, or what a class shows
    all_names = (each for each in module.own.near("locals", "globals", "vars").calls if not each.args)
    if any(module.names.of(each.func) & _NAMESPACES for each in all_names):
        return None
    found: list[ir.Call] = []
    for each in module.own.near(name.name).values:
        if (
            not isinstance(each, ir.Name)
            or each.name != name.name
            or each.bound
            or each.scope.home(each.name) is not home
        ):
            continue
        if not _is_idle(module, each):
            call = _ignored_by(module, each)
            if call is None:
                return None
            found.append(call)
    return found


def _ignored_by(module: Module, read: ir.Name) -> ir.Call | None:
    """The call of a function that trains, and that gets what is read as a parameter which it never reads itself."""
    value, calls = _chosen(read), module.once(CallGraph)
    call = value.parent
    callee = calls.find(call) if isinstance(call, ir.Call) else None
    if not isinstance(call, ir.Call) or callee is None or call.unpacks("*") or call.unpacks("**"):
        return None
    names = [each for each, given in (calls.arguments(call, callee) or {}).items() if given is value]
    below = [*ir.values_below(callee.function.body, into=True)]  # also of functions in it, which may read it
    read_there = {ir.last_name(each) for each in below if isinstance(each, (ir.Name, ir.Attribute))}
    if not names or names[0] in read_there or any("autocast" in each for each in read_there):
        return None  # a region there is AMP207's, and one of bfloat16 needs no scaler
    trains = any(isinstance(each, ir.Call) and ir.last_name(each.func) == "backward" for each in below)
    return call if trains and not any(isinstance(each, ir.Call) and each.unpacks("**") for each in below) else None


def _is_idle(module: Module, read: ir.Name) -> bool:
    """Whether a read of a scaler only asks whether it is there, prints it, or looks at its state."""
    value: ir.Node = read
    if isinstance(value.parent, ir.Attribute) and value.parent.attr in _IDLE:
        return True
    while isinstance(value.parent, _ASKING):
        value = value.parent
    up = value.parent
    if isinstance(up, ir.Call):
        return module.names.of(up.func) == {"builtins.print"}
    return isinstance(up, (ir.If, ir.While, ir.Assert)) or (isinstance(up, ir.Conditional) and value is up.test)


def _leaving_out(module: Module, name: ir.Name) -> ir.Call | None:
    """A call, in the variable's function, of a function that takes a scaler and gets none."""
    calls = module.once(CallGraph)
    function = ir.function_of(name)
    for call in module.own.within(function).calls:
        callee = calls.find(call) if ir.function_of(call) is function else None
        if callee is None or call.unpacks("*") or call.unpacks("**"):
            continue
        given = calls.arguments(call, callee) or {}
        params = [each for each in callee.function.params if "scaler" in each.name and ir.is_none(each.default)]
        if any(given.get(each.name) in (None, each.default) for each in params):
            return call
    return None
