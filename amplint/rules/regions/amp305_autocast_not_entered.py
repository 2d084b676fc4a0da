"""An autocast region, or a context that `and` joins to it, has no effect.

## What it does
Finds:

- `torch.autocast(...)` as a statement of its own (a warning if the losses of the file come from other regions: the
  call does nothing and is not needed);
- a variable of a function that holds an autocast object and that nothing reads (a warning), or a global variable or an
  attribute `self.ctx` of a file that trains (a `likely` warning: other code may read it by its name);
- `with a and torch.autocast(...)`, which enters only the last context: `a` has no effect;
- `@torch.autocast(...)` on a generator function: the region ends before the body runs.

amplint reports nothing if the object is used in any other way: it may be entered elsewhere.

## Why is this bad?
The region does nothing. Unless the forward pass is in another region, everything runs in float32 without a warning:
training is as slow as without AMP. With `and`, the region is entered if it comes last, and the other context does
nothing, for example `torch.no_grad()`.

Put `with` around the forward pass and the loss only. Around whole epochs, autocast would keep the half-precision copies
of the weights past their steps (AMP309).

In a generator, use `with torch.autocast(...)` in the body, and put each `yield` after the `with`. At a `yield` inside
it, the code that takes the value would run under autocast too.

## Example
```python
with torch.no_grad() and torch.autocast("cuda"):
    outputs = model(inputs)

@torch.autocast("cuda")
def losses(model, loader):
    for inputs, targets in loader:
        yield criterion(model(inputs), targets)
```

## Use instead
```python
with torch.no_grad(), torch.autocast("cuda"):
    outputs = model(inputs)

def losses(model, loader):
    for inputs, targets in loader:
        with torch.autocast("cuda"):
            loss = criterion(model(inputs), targets)
        yield loss
```

## Fix safety
- `and`: the fix puts a comma in its place. Unsafe, as the first context then takes effect: a backward pass inside
  `torch.no_grad()` would raise.
- A statement of its own: the fix removes the call if the forward pass is in another region. Safe, as the call has no
  effect.

There is no fix for the others: amplint can't tell which code the region should contain.

## Proof
The test programs list the regions that are entered and the dtype of the loss. In the wrong programs the region or the
other context has no effect; in the corrected programs both have. Two wrong programs raise: one calls `numpy()` on
outputs that `torch.no_grad()` should have made without gradients, and one looks up the time of a
`record_function("forward")` that was never entered.

## References
- [Autocasting](https://docs.pytorch.org/docs/stable/amp.html#autocasting)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Edit, Finding, Fix, Severity
from amplint.fixes.statements import removed
from amplint.model.calls.external_calls import bases_in_sight
from amplint.model.inference.values import values_of
from amplint.model.names.grad_mode import GradMode, grad_mode, without_gradients
from amplint.model.objects.autocast_objects import region_of, regions
from amplint.model.project.importers import is_imported, surely_unnamed
from amplint.model.regions.regions_at import enabled_at
from amplint.model.regions.training_regions import Trained, trained
from amplint.model.syntax import ir
from amplint.model.syntax.queries import is_false
from amplint.model.syntax.scopes import class_of_self, owner_class
from amplint.model.usage.mentions_of import near_regions
from amplint.registry.rule import Rule

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=("autocast",),
    not_shown="it has no effect, so a run without it is the same",
)

_UNKNOWN = "amplint can't tell which code the region should contain"
# What gives all variables of a file, or all attributes of an object.
_ALL_NAMES = ("globals", "locals", "vars")
_ALL_ATTRIBUTES = ("vars", "__dict__", "getattr")
_MAY_ACT = (ir.Call, ir.Walrus, ir.Suspend)
_EXPECTS = re.compile(r"(?i)raises|warn|suppress")
_CONTEXTS = {
    *(f"torch.{name}" for name in ("no_grad", "inference_mode", "enable_grad", "set_grad_enabled")),
    *(f"torch.autograd.{name}" for name in ("no_grad", "set_detect_anomaly", "detect_anomaly")),
    *(f"{module}.record_function" for module in ("torch.profiler", "torch.autograd.profiler")),
    *(f"contextlib.{name}" for name in ("nullcontext", "suppress", "ExitStack")),
}


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each autocast object that no `with` enters."""
    for statement in near_regions(module).statements:
        if isinstance(statement, ir.Expr) and _is_region(module, statement.value) and not _is_tried_out(statement):
            yield _alone(module, statement)
        elif isinstance(statement, ir.Assign) and module.is_own(statement):
            yield from _kept_unread(module, statement)
        elif isinstance(statement, ir.With):
            for item in statement.items:
                yield from _joined(module, item)
        elif isinstance(statement, ir.Function) and statement.is_generator:
            for value in statement.decorators:
                if _is_region(module, value):
                    yield rule.finding(
                        module.span(value),
                        f"`{statement.name}` is a generator, and runs after the region of its decorator has ended"
                        f"{_inside(module, statement)}",
                        withheld=_UNKNOWN,
                    )


def _kept_unread(module: Module, statement: ir.Assign) -> Iterator[Finding]:
    """The region in a variable or an attribute that nothing reads."""
    target = statement.targets[0] if len(statement.targets) == 1 else None
    arms = _arms(module, statement.value) if statement.value is not None else []
    region = next((each for each in arms if _is_region(module, each)), None)
    if not isinstance(target, (ir.Name, ir.Attribute)) or region is None:
        return
    if ir.last_name(target).startswith("_") or not all(_is_context(module, each) for each in arms):
        return
    home = target.scope.home(target.name) if isinstance(target, ir.Name) else None
    is_local = home is not None and home.kind == "function"
    if not (_is_local_unread(module, target) if is_local else _is_unread(module, target, statement)):
        return
    name = module.text(target)
    losses = [each for each in trained(module) if module.is_own(each.event.call)]
    others = [found for each in losses for found in _regions_of(module, each)]
    to_do = f"write `with {name}:` around the forward pass and the loss"
    if losses and all(each.unseen or _regions_of(module, each) for each in losses) and others:
        to_do = f"the forward pass already runs in the region on {module.line(others[0])}; remove this object"
    yield rule.finding(
        module.span(region),
        f"the autocast object in `{name}` is never entered and has no effect; {to_do}",
        withheld=_UNKNOWN,
        severity=Severity.WARNING,
        confidence=None if is_local else Confidence.LIKELY,
    )


def _is_local_unread(module: Module, target: ir.Value) -> bool:
    """Whether nothing reads a variable of a function."""
    if not isinstance(target, ir.Name):
        return False
    home = target.scope.home(target.name)
    return not any(
        ir.is_variable(each, "locals") or (ir.is_variable(each, target.name) and not each.bound)
        for each in module.own.near(target.name, "locals").values
        if isinstance(each, ir.Name) and each.scope.home(target.name) is home
    )


def _is_unread(module: Module, target: ir.Name | ir.Attribute, statement: ir.Assign) -> bool:
    """Whether nothing in a program reads a variable of a file that trains, or an attribute that a class in it keeps."""
    if not any(module.is_own(each.event.call) for each in trained(module)):
        return False
    name = ir.last_name(target)
    if isinstance(target, ir.Name):
        home = target.scope.home(name)
        unread = home is not None and home.kind == "module" and not _is_global_read(module, name, home, statement)
    else:
        cls = owner_class(target)
        unread = cls is not None and bases_in_sight(module, cls) and not _is_attribute_read(module, name)
    filename = module.source.filename
    return unread and (not is_imported(filename) or surely_unnamed(filename, name))


def _is_global_read(module: Module, name: str, home: ir.Scope, statement: ir.Assign) -> bool:
    """Whether the file reads a variable, or all of its variables after the statement that makes it."""
    for each in module.own.near(name, *_ALL_NAMES).values:
        if isinstance(each, ir.Name) and each.name in _ALL_NAMES:
            if each.id > statement.id or ir.function_of(each) is not None:
                return True
        elif ir.is_variable(each, name) and not each.bound and each.scope.home(name) is home:
            return True
        elif isinstance(each, ir.Constant) and each.value == name:
            return True  # `__all__`
    return False


def _is_attribute_read(module: Module, name: str) -> bool:
    """Whether code in sight reads an attribute of this name, of whatever, or all attributes of its `self`."""
    for each in module.whole.near(name, *_ALL_ATTRIBUTES).values:
        up = each.parent
        if isinstance(each, ir.Attribute) and each.attr == name:
            if not isinstance(up, ir.Assign) or each not in up.targets:
                return True
        elif isinstance(each, ir.Constant) and each.value == name:
            return True  # `getattr(self, "ctx")`
        elif isinstance(each, ir.Attribute) and each.attr == "__dict__":
            if owner_class(each) is not None:
                return True
        elif isinstance(each, ir.Call) and ir.last_name(each.func) in ("vars", "getattr"):
            own = each.positional[0] if each.positional else None
            named = len(each.positional) > 1 and isinstance(each.positional[1], ir.Constant)
            if isinstance(own, ir.Name) and class_of_self(own) is not None and not named:
                return True
    return False


def _alone(module: Module, statement: ir.Expr) -> Finding:
    """The finding for a statement that makes a region and drops it: what to do hangs on the regions of the losses."""
    message, fix, severity = "this autocast object is never entered", None, None
    withheld: str | None = _UNKNOWN
    losses = [(each, _regions_of(module, each)) for each in trained(module)]
    bare = next((each for each, found in losses if not found and not each.unseen), None)
    entered = [region for _, found in losses for region in found]
    other = next((each.call for each in regions(module) if _is_entered(each.call)), None)
    if bare is not None:
        message += f", and the loss on {module.line(bare.event.call)} is computed in float32; use `with` around the "
        message += "forward pass and the loss"
    elif entered:
        message += f", and the forward pass already runs in the region on {module.line(entered[0])}; remove this call"
        severity = Severity.WARNING
        fix, withheld = _gone(module, statement)
    else:
        where = f"the region on {module.line(other)}" if other is not None else "another region"
        message += f": unless {where} contains the forward pass, it runs in float32; use `with` around the forward pass"
    return rule.finding(module.span(statement.value), message, fix=fix, withheld=withheld, severity=severity)


def _regions_of(module: Module, loss: Trained) -> list[ir.Call]:
    """The regions that a loss comes out of: in its function, or round the calls that lead to it."""
    found = [each.region for each in loss.entered]
    found += [each.region for each in enabled_at(module, loss.event.call)]
    return [each.call for each in found if not is_false(each.enabled)]


def _is_entered(made: ir.Call) -> bool:
    """Whether a region goes somewhere, and is no statement of its own."""
    return not isinstance(made.parent, ir.Expr)


def _gone(module: Module, statement: ir.Expr) -> tuple[Fix | None, str | None]:
    """The fix that deletes the statement, where to work out its arguments does nothing; or why there is none."""
    made = statement.value
    inside = (value for arg in made.args for value in ir.walk_values(arg.value)) if isinstance(made, ir.Call) else ()
    if any(isinstance(each, _MAY_ACT) for each in inside):
        return None, "the arguments of the call may have side effects"
    edit = removed(module, statement)
    if edit is None:
        return None, "the call is on one line with other code"
    return Fix(Applicability.SAFE, "Remove the call", (edit,)), None


def _inside(module: Module, generator: ir.Function) -> str:
    """What a message says of a decorated generator's body, and what to do."""
    within = (each.call for each in regions(module) if ir.function_of(each.call) is generator)
    own = next((each for each in within if each not in generator.decorators), None)
    if own is not None:
        return f": only the region on {module.line(own)} has an effect; remove the decorator"
    return (
        f": autocast has no effect; use `with torch.autocast(...)` in `{generator.name}`, around code without `yield`"
    )


def _is_region(module: Module, value: ir.Value) -> bool:
    return isinstance(value, ir.Call) and region_of(module, value) is not None


def _is_tried_out(statement: ir.Statement) -> bool:
    """Whether a statement stands in a try, or in a `with` that expects it to raise or warn."""
    up = statement.parent
    if isinstance(up, ir.Try):
        return True
    contexts = [item.context for item in up.items] if isinstance(up, ir.With) else []
    return any(isinstance(each, ir.Call) and _EXPECTS.search(ir.last_name(each.func)) for each in contexts)


def _is_context(module: Module, value: ir.Value) -> bool:
    """Whether a value is evidently a context, as opposed to a flag or an answer."""
    if isinstance(value, ir.Bool):
        return _is_context(module, value.left) and _is_context(module, value.right)
    if not isinstance(value, ir.Call):
        arms = _arms(module, value)
        return bool(arms) and all(_is_context(module, each) for each in arms)
    names = module.names.of(value.func)
    return _is_region(module, value) or bool(names & _CONTEXTS) or ir.last_name(value.func) == "no_sync"


def _arms(module: Module, value: ir.Value) -> list[ir.Call]:
    """The calls that a value comes from, through choices, variables and attributes; none where something else may be
    in it.
    """
    leaves = values_of(module, value).leaves
    calls = [each.value for each in leaves if isinstance(each.value, ir.Call) and not each.is_open]
    return calls if len(calls) == len(leaves) else []


def _joined(module: Module, item: ir.Item) -> Iterator[Finding]:
    """`with a and autocast(...)`: one of the two is not entered."""
    context = item.context
    if not isinstance(context, ir.Bool) or context.op != "and":
        return
    both = (context.left, context.right)
    regions = [value for value in both if any(_is_region(module, each) for each in _arms(module, value))]
    if not regions or not _is_context(module, context.left):
        return
    if grad_mode(module, context.left) is GradMode.OFF and without_gradients(module, ir.statement_of(context)):
        return  # nothing is missing: the code around switches gradients off
    (_, end), (start, _) = module.span(context.left), module.span(context.right)
    fix = withheld = None
    plain = module.source.text[end:start].strip() == "and" and not isinstance(context.left, ir.Bool)
    if plain and item.target is None:
        title = f"Replace `and` by a comma (`{module.on_one_line(context.left)}` then takes effect)"
        fix = Fix(Applicability.UNSAFE, title, (Edit(end, start, ", "),))
    elif item.target is not None:
        withheld = "the `with` has an `as` name; separate the contexts with commas by hand"
    else:
        withheld = "a context has parentheses around it; separate the contexts with commas by hand"
        if isinstance(context.left, ir.Bool):
            withheld = "`and` joins more than two contexts; separate the contexts with commas by hand"
    yield rule.finding(
        module.span(regions[0]),
        f"`and` enters only the last context: `{module.on_one_line(context.left)}` is never "
        "entered; separate the contexts with commas",
        fix=fix,
        withheld=withheld,
    )
