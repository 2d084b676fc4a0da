"""An autocast object is made and never entered.

## What it does
Finds `torch.autocast(...)` as a statement of its own, `with a and torch.autocast(...)`, which enters the last one only,
and the decorator on a generator function, whose body runs outside the region.

It is silent where the object goes anywhere else: it may be entered there.

## Why is this bad?
Nothing runs in half precision, and nothing says so: the training is as slow as without AMP, or the context before the
`and` (`torch.no_grad()`, say) is the one that is missing.

## Example
```python
with torch.no_grad() and torch.autocast("cuda"):
    outputs = model(inputs)
```

## Use instead
```python
with torch.no_grad(), torch.autocast("cuda"):
    outputs = model(inputs)
```

## Fix safety
Unsafe for `and`: both contexts are entered, and the first one was not before; a backward inside `torch.no_grad()`
raises then. No fix for a call alone, since what it was to hold is not known, and for a generator: use `with` inside it.

## Proof
The fixtures list the regions that were entered, and the dtype of the losses: none before, those of the `with` after.

## References
- [Autocasting](https://docs.pytorch.org/docs/stable/amp.html#autocasting)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Edit, Finding, Fix, Severity
from amplint.model import ir
from amplint.model.dtypes import region_of
from amplint.model.objects import objects
from amplint.model.scopes import Assigned
from amplint.rules.base import Rule
from amplint.rules.kept import near_regions

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(__name__, __doc__, severity=Severity.ERROR, triggers=("autocast",))

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
            yield rule.finding(
                module.span(statement.value),
                "autocast is made but not entered: the code below runs in float32; put that code into a `with`",
                withheld="what it is to hold is yours to say",
            )
        elif isinstance(statement, ir.With):
            for item in statement.items:
                yield from _joined(module, item)
        elif isinstance(statement, ir.Function) and statement.is_generator:
            for value in statement.decorators:
                if _is_region(module, value):
                    yield rule.finding(
                        module.span(value),
                        "a generator's body runs outside its decorator's region, in float32; use `with` inside it",
                        withheld="what it is to hold is yours to say",
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


def _arms(module: Module, value: ir.Value, depth: int = 3) -> list[ir.Call]:
    """The calls that a value comes from, through choices and variables; none where something else may be in it."""
    if isinstance(value, ir.Call):
        return [value]
    parts: list[ir.Value] = []
    if isinstance(value, ir.Conditional):
        parts = [value.then, value.other]
    elif isinstance(value, ir.Name) and all(isinstance(each, Assigned) for each in module.names.bindings(value)):
        parts = list(objects(module).sources(value))
    found = [_arms(module, each, depth - 1) for each in parts if depth]
    return [call for calls in found for call in calls] if all(found) else []


def _joined(module: Module, item: ir.Item) -> Iterator[Finding]:
    """`with a and autocast(...)`: one of the two is not entered."""
    context = item.context
    if not isinstance(context, ir.Bool) or context.op != "and":
        return
    both = (context.left, context.right)
    regions = [value for value in both if any(_is_region(module, each) for each in _arms(module, value))]
    if not regions or not _is_context(module, context.left):
        return
    (_, end), (start, _) = module.span(context.left), module.span(context.right)
    fix = withheld = None
    plain = module.source.text[end:start].strip() == "and" and not isinstance(context.left, ir.Bool)
    if plain and item.target is None:
        fix = Fix(Applicability.UNSAFE, "Enter both", (Edit(end, start, ", "),))
    else:
        withheld = "write the contexts with commas"
    yield rule.finding(
        module.span(regions[0]),
        "`and` enters only the last context; separate them by commas",
        fix=fix,
        withheld=withheld,
    )
