"""`torch.autocast` is used without its `device_type`.

## What it does
Finds `torch.autocast(...)` and `torch.amp.autocast(...)` without `device_type`:

- called with no arguments or only keywords;
- called with a bool or a dtype in place of the device, as `torch.cuda.amp.autocast` takes them (`autocast(True)`,
  `autocast(torch.float16)`);
- as a decorator without parentheses, and as `with torch.autocast:`.

This includes files in which a `try` imports `autocast` from `torch.amp`, and its `except` from `torch.cuda.amp`.

amplint reports nothing if the arguments are unpacked.

## Why is this bad?
The code raises:

- a call without `device_type`: `TypeError: autocast.__init__() missing 1 required positional argument: 'device_type'`;
- a call with something else in place of the device: ValueError;
- `with torch.autocast:`: TypeError (before Python 3.11: AttributeError).

A frequent cause: `torch.cuda.amp.autocast` was replaced by changing only the import.

## Example
```python
from torch.amp import autocast

with autocast(enabled=use_amp):
    loss = criterion(model(batch), target)
```

## Use instead
```python
from torch.amp import autocast

with autocast("cuda", enabled=use_amp):
    loss = criterion(model(batch), target)
```

## Fix safety
The fix passes the device, and turns positional arguments of the old class into keyword arguments. Safe:

- the fix writes the device that the other regions of the file name;
- the fix writes "cuda", as everything in the file is on cuda, or as the file shows no device and the configuration has
  `device = "cuda"`.

Unsafe:

- the device is chosen when the program runs;
- the file shows no device, and the configuration names another `device`, or none. The fix writes that device, or
  "cuda", which the old class meant.

## Proof
The test programs raise before the fix, and run after it. Device, dtype and `enabled` of the region are then the same as
with the old class.

## References
- [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Edit, Finding, Fix, Severity
from amplint.fixes.device_choice import Choice, choose
from amplint.fixes.edits import add_first_argument, insert
from amplint.model.inference.dtypes import is_old_first
from amplint.model.names.version_guards import conditions_of
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import regions
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Imported
from amplint.model.torch_facts.names import AUTOCAST, OLD_AUTOCAST
from amplint.model.torch_facts.signatures import OLD_ORDER, SIGNATURES
from amplint.registry.rule import Rule
from amplint.rules.shared.fallback_calls import is_after_the_right_call

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=("autocast",),
    shown_by=("exception",),
    simulated=True,
)

_CUDA = Choice('"cuda"', Applicability.UNSAFE)
_NEW_ORDER = SIGNATURES[AUTOCAST][1:]


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Calls without the argument, and uses of the class where an instance is needed."""
    for region in regions(module):
        if region.is_old or region.opaque or region.call.keyword("device"):
            continue  # device= is AMP107's
        if is_after_the_right_call(module, region.call):
            continue
        if region.device_type is None:
            yield _finding(module, region.call, "without `device_type` raises TypeError", _call_edits)
        elif region.call.positional and is_old_first(module, region.call.positional[0]):
            given = module.text(region.call.positional[0])
            yield _finding(module, region.call, f"gets `{given}` as `device_type` and raises ValueError", _call_edits)
    yield from _of_fallbacks(module)
    for value in module.references(AUTOCAST):
        if module.names.only(value) == AUTOCAST:
            parent = value.parent
            if isinstance(parent, ir.Function) and value in parent.decorators:
                yield _finding(
                    module,
                    value,
                    "without parentheses takes the function as `device_type` and raises ValueError",
                    _bare,
                )
            elif isinstance(parent, ir.With) and any(item.context is value for item in parent.items):
                yield _finding(module, value, "is not called: `with` on the class itself raises", _bare)


def _of_fallbacks(module: Module) -> Iterator[Finding]:
    """The calls of a name that is the old class only where the import of the new one fails."""
    for call in module.calls_of(AUTOCAST):
        keywords = (call.keyword("device_type"), call.keyword("device"))
        if call.unpacks() or any(each is not None for each in keywords) or not _is_new_first(module, call.func):
            continue
        if is_after_the_right_call(module, call):
            continue
        if not call.positional or is_old_first(module, call.positional[0]):
            yield rule.finding(
                module.span(call),
                "if the import of the new `autocast` works, this call raises TypeError, as `device_type` is missing; "
                "pass the device, and import only the new class",
                withheld="the old class, which the other import gives, takes no device",
            )


def _is_new_first(module: Module, func: ir.Value) -> bool:
    """Whether a name is imported as the new class in a `try`, as the old one in a handler of that, and called where the
    import of the new one may have worked."""
    bindings = module.names.bindings(func) if isinstance(func, ir.Name) else ()
    imports = [each for each in bindings if isinstance(each, Imported)]
    if len(imports) != 2 or len(bindings) != 2 or {each.name for each in imports} - {AUTOCAST, *OLD_AUTOCAST}:
        return False
    new, old = sorted(imports, key=lambda each: each.statement.id)
    tried = new.statement.block.owner
    if new.name != AUTOCAST or old.name not in OLD_AUTOCAST or not isinstance(tried, ir.Try):
        return False
    if new.statement.block is not tried.body or all(old.statement.block is not each.body for each in tried.handlers):
        return False
    if any(_stands_in(func, handler.body) for handler in tried.handlers):
        return False
    given = list(conditions_of(func))
    return not any(_fails_with_new(module, test, tried, holds, given) for test, holds in given)


def _stands_in(node: ir.Node | None, block: ir.Block) -> bool:
    """Whether a node stands in a suite, or in a function or class that is defined there."""
    while node is not None and not (isinstance(node, ir.Statement) and node.block is block):
        node = node.parent
    return node is not None


def _fails_with_new(
    module: Module, test: ir.Value, tried: ir.Try, holds: bool, given: list[tuple[ir.Value, bool]]
) -> bool:
    """Whether a test comes out otherwise than `holds` where no handler of a `try` has run, by a flag that one sets.

    Args:
        given: what holds at the same time: with `use_amp`, the flag is what makes `use_amp and NEW` false.
    """
    if isinstance(test, ir.Unary) and test.op == "Not":
        return _fails_with_new(module, test.operand, tried, not holds, given)
    if isinstance(test, ir.Bool):
        parts = [test.left, test.right]
        if (test.op == "and") is not holds:
            parts = [each for each in parts if not _is_given(module, each, not holds, given)]
            if len(parts) != 1:
                return False
        return any(_fails_with_new(module, each, tried, holds, given) for each in parts)
    flag, wanted = _asked_for(test)
    bindings = module.names.bindings(flag) if isinstance(flag, ir.Name) else ()
    if not bindings or not all(isinstance(each, Assigned) and isinstance(each.value, ir.Constant) for each in bindings):
        return False
    handled = {id(each.body) for each in tried.handlers}
    flags = [each for each in bindings if isinstance(each, Assigned)]
    new = [each for each in flags if id(ir.statement_of(each.target).block) not in handled]
    values = [each.value.value for each in new if isinstance(each.value, ir.Constant)]
    outcomes = [bool(each) if wanted is None else each == wanted.value for each in values]
    differs = isinstance(test, ir.Compare) and test.ops == ("NotEqual",)
    return 0 < len(new) < len(flags) and all((each is not differs) is not holds for each in outcomes)


def _asked_for(test: ir.Value) -> tuple[ir.Value, ir.Constant | None]:
    """The flag that a test asks for, and what it is compared with: `MODE == "torch.amp"`."""
    if isinstance(test, ir.Compare) and test.ops in (("Equal",), ("NotEqual",)):
        flag, wanted = test.children()
        return flag, wanted if isinstance(wanted, ir.Constant) else None
    return test, None


def _is_given(module: Module, test: ir.Value, holds: bool, given: list[tuple[ir.Value, bool]]) -> bool:
    """Whether other conditions say how a test comes out."""
    text = objects(module).render(test)
    return text is not None and any(how is holds and objects(module).render(each) == text for each, how in given)


def _finding(module: Module, value: ir.Value, what: str, edits: _Edits) -> Finding:
    chosen = choose(module, value)
    device = chosen or _CUDA
    title = f"Pass the device: `autocast({device.text}{', ...' if isinstance(value, ir.Call) and value.args else ''})`"
    if chosen is None:
        title += " (the file doesn't show which device it uses)"
    fix = Fix(device.applicability, title, edits(module, value, device.text))
    to_do = _to_do(module, value) if isinstance(value, ir.Call) else f"call `{module.text(value)}({device.text})`"
    return rule.finding(module.span(value), f"`torch.autocast` {what}; {to_do}", fix=fix)


def _to_do(module: Module, call: ir.Call) -> str:
    """What a call without its device has to pass: its positional arguments would be wrong after the device."""
    named = [f"{name}={module.on_one_line(given)}" for name, given in zip(_order(call), call.positional, strict=False)]
    others = f", then `{', '.join(named)}`" if named else ""
    return f"pass the device as the first argument{others}"


def _order(call: ir.Call) -> tuple[str, ...]:
    """What the positional arguments mean: a dtype in front is the new class's order without its device."""
    return _NEW_ORDER if _starts_with_dtype(call) else OLD_ORDER


def _call_edits(module: Module, value: ir.Value, device: str) -> tuple[Edit, ...]:
    assert isinstance(value, ir.Call)
    edits = [add_first_argument(module, value, device)]
    for parameter, given in zip(_order(value), value.positional, strict=False):
        start = module.layout.outer(given)[0]
        if start == edits[0].start:
            edits[0] = insert(start, f"{edits[0].content}{parameter}=")
        else:
            edits.append(insert(start, f"{parameter}="))
    return tuple(edits)


def _starts_with_dtype(call: ir.Call) -> bool:
    return bool(call.positional) and not isinstance(call.positional[0], ir.Constant)


def _bare(module: Module, value: ir.Value, device: str) -> tuple[Edit, ...]:
    return (insert(module.span(value)[1], f"({device})"),)


if TYPE_CHECKING:
    from collections.abc import Callable

    _Edits = Callable[[Module, ir.Value, str], tuple[Edit, ...]]
