"""An autocast decorator is entered again while it is active, and the autocast state is not restored.

## What it does
Finds a function with the decorator `torch.autocast(...)`

- that calls itself; or
- that is the `forward` of a class, and calls a submodule that is an instance of that class, as in a tree of modules.

A decorator creates one autocast object for all calls. amplint reports nothing if each call opens its own region with
`with`, or if amplint can't tell which function is called.

## Why is this bad?
The autocast object remembers only one previous state, and the inner call overwrites it. After the outermost call,
autocast stays as it was inside: enabled for all code that follows, including backward and the optimizer's step. With
`enabled=False`, autocast stays disabled for the rest of a region around the call.

## Example
```python
@torch.autocast("cuda")
def encode(node):
    return join([encode(child) for child in node.children])
```

## Use instead
```python
def encode(node):
    with torch.autocast("cuda"):
        return join([encode(child) for child in node.children])
```

## Fix safety
There is no fix: the body of the function has to move into a `with`.

## Proof
The test programs watch autocast's state at each backward pass after the call: enabled in the wrong programs, disabled
in the corrected programs. With `enabled=False`, they print the dtype of a loss that is computed in a region after the
call: float32 in the wrong program.

## References
- [Autocasting](https://docs.pytorch.org/docs/stable/amp.html#autocasting)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Finding, Severity
from amplint.model.calls.external_calls import local_class, local_function
from amplint.model.objects.autocast_objects import Region
from amplint.model.regions.openers import openers
from amplint.model.syntax import ir
from amplint.model.syntax.queries import is_false
from amplint.model.syntax.scopes import owner_class
from amplint.model.usage.mentions_of import near_regions
from amplint.registry.rule import Rule

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(),
    triggers=("autocast",),
    not_shown="verify uses a small model of its own, and the effect depends on the operations of yours",
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each decorator's region that its own function enters again."""
    for function in near_regions(module).functions:
        # A manager makes a region for each call; what decorates by itself is one object for all.
        regions = [
            (each.context, all(is_false(opening.region.enabled) for opening in each.opens.regions))
            for each in openers(module).decorating(function)
            if not any(_is_a_generators(opening.region) for opening in each.opens.regions)
        ]
        if regions:
            again = ""
            if _calls_itself(module, function):
                again = "calls itself"
            elif _runs_its_kind(module, function):
                again = "calls a module of its own class"
            if again:
                region, is_off = regions[-1]
                yield rule.finding(
                    module.span(region),
                    f"`{function.name}` {again}, and so enters the decorator's autocast object twice: autocast stays "
                    f"{'off' if is_off else 'on'} after the call; replace the decorator with a `with` statement inside "
                    f"`{function.name}`",
                    withheld=f"the whole body of `{function.name}` has to move into the `with`; do that by hand",
                )


def _is_a_generators(region: Region) -> bool:
    function = ir.function_of(region.call)
    return function is not None and function.is_generator


def _calls_itself(module: Module, function: ir.Function) -> bool:
    return any(
        isinstance(value, ir.Call) and local_function(module, value.func) is function
        for value in ir.values_below(function.body)
    )


def _runs_its_kind(module: Module, function: ir.Function) -> bool:
    """Whether a module's forward runs a child that is made of the same class."""
    cls = function.cls
    if cls is None or function.name not in ("forward", "__call__"):
        return False
    children = {
        target.attr
        for statement in ir.walk_statements(cls.body)
        if isinstance(statement, ir.Assign)
        and statement.value is not None
        and any(
            isinstance(value, ir.Call) and local_class(module, value.func) is cls
            for value in ir.walk_values(statement.value)
        )
        for target in statement.targets
        if isinstance(target, ir.Attribute) and owner_class(target) is cls
    }
    return any(
        isinstance(value, ir.Attribute) and value.attr in children and owner_class(value) is cls
        for value in ir.values_below(function.body)
    )
