"""Class indices are cast to float16 or bfloat16 before a loss that needs integers.

## What it does
Finds a target that is cast to float16 or bfloat16, and then passed to `cross_entropy`, `nll_loss`, `CrossEntropyLoss`
or `NLLLoss`, if the code shows that the target holds class indices. One of these is enough:

- the loss is `nll_loss` or `NLLLoss`, which take only class indices;
- `ignore_index` is passed;
- the target had an integer dtype before the cast;
- the target is flattened to one dimension for the loss;
- the target is compared with an `argmax`.

amplint reports nothing about targets that may be probabilities, which `cross_entropy` takes in floating point.

## Why is this bad?
The loss raises `RuntimeError: expected target dtype to be Long or Byte, but got Half` (or `BFloat16`; in an autocast
region `Float`, as autocast casts the target to float32 first).

## Example
```python
inputs, targets = inputs.half(), targets.half()
loss = F.nll_loss(model(inputs), targets)
```

## Use instead
```python
inputs = inputs.half()
loss = F.nll_loss(model(inputs), targets)
```

## Fix safety
The fix removes the cast, or the dtype from a `.to()` that also moves the target. Safe if only the loss uses the result
of the cast. Unsafe if other code uses it too.

## Proof
The test programs raise before the fix, and train after it.

## References
- [cross_entropy](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.cross_entropy.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Edit, Finding, Fix, Severity
from amplint.fixes.edits import written
from amplint.fixes.statements import removed
from amplint.model.inference.dtypes import dtypes
from amplint.model.inference.values import asked, values_of
from amplint.model.names.reaching_definitions import only_assignment
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import arguments
from amplint.model.syntax.nesting import dominates
from amplint.model.syntax.queries import assigned
from amplint.model.torch_facts.op_spellings import RESHAPES
from amplint.registry.rule import Rule

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR, fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=(
        "cross_entropy & .half(", "cross_entropy & .bfloat16(", "cross_entropy & float16 & autocast",
        "CrossEntropyLoss & .half(", "CrossEntropyLoss & .bfloat16(", "CrossEntropyLoss & float16 & autocast",
        "nll_loss & .half(", "nll_loss & .bfloat16(", "nll_loss & float16 & autocast",
        "NLLLoss & .half(", "NLLLoss & .bfloat16(", "NLLLoss & float16 & autocast",
    ),
    not_shown="verify creates its own batches",
)  # fmt: skip

_FUNCTIONS = {"torch.nn.functional.nll_loss": False, "torch.nn.functional.cross_entropy": True}
_CLASSES = {
    f"torch.nn.{home}{name}": soft
    for name, soft in (("NLLLoss", False), ("CrossEntropyLoss", True))
    for home in ("", "modules.", "modules.loss.")
}
_HALF = {f"torch.{name}" for name in ("float16", "half", "bfloat16")}
_CASTS = {"half", "bfloat16"}
_WHOLE = {f"torch.{name}" for name in ("long", "int64", "int", "int32", "uint8", "LongTensor")}
_INDICES = {"torch.randint", "torch.arange", "torch.argmax", "torch.LongTensor"}
_KEEP = RESHAPES | {"cuda", "cpu", "clone", "detach", "to"}
_FLAT = {"view", "reshape"}
# What a cast is given and means nothing without it.
_ASIDE = {"non_blocking", "copy", "memory_format"}


class _Cast(NamedTuple):
    """A cast to a half type, with the variables through which its result comes to the loss."""

    call: ir.Call
    base: ir.Value
    through: tuple[ir.Name, ...]


class _Loss(NamedTuple):
    """A call of a loss: its output and target, and whether it takes probabilities as well."""

    output: ir.Value | None
    target: ir.Value
    soft: bool


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Losses whose target is surely cast."""
    words = {word for made in module.calls_of(*_CLASSES) for word in assigned(made)}
    for call in module.whole.near(*module.words(*_FUNCTIONS, *_CLASSES), *sorted(words)).calls:
        loss = _loss(module, call)
        cast = _cast(module, loss.target) if loss is not None else None
        if loss is None or cast is None or (loss.soft and not _holds_indices(module, loss, cast)):
            continue
        where = f" on {module.line(cast.call)}" if cast.through else ""
        to_do = "remove the dtype from `.to()`" if _moves_too(module, cast) else "remove the cast"
        yield rule.finding(
            module.span(loss.target),
            f"`{module.text(cast.base)}` holds class indices, but `{module.on_one_line(cast.call)}`{where} turns "
            f"the indices into floats: the loss raises RuntimeError; {to_do}",
            fix=_fix(module, call, cast),
        )


# --- losses ---------------------------------------------------------------------------------------------------------


def _loss(module: Module, call: ir.Call) -> _Loss | None:
    name = module.names.only(call.func)
    soft = _FUNCTIONS.get(name or "")
    made: ir.Call | None = call
    if soft is None:
        made = _module_made(module, call.func)
        soft = _CLASSES.get(module.names.only(made.func) or "") if made is not None else None
    given = arguments(call, "torch.nn.functional.cross_entropy")
    target = given.get("target")
    if soft is None or made is None or target is None or call.unpacks("*"):
        return None
    ignores = made.keyword("ignore_index") is not None
    return _Loss(given.get("input"), target, soft and not ignores)


def _module_made(module: Module, func: ir.Value) -> ir.Call | None:
    """The one construction of what is called."""
    if isinstance(func, ir.Call):
        return func
    made = objects(module).sources(func) if isinstance(func, (ir.Name, ir.Attribute)) else ()
    only = made[0] if len(made) == 1 else None
    return only if isinstance(only, ir.Call) else None


# --- casts ----------------------------------------------------------------------------------------------------------


def _cast(module: Module, value: ir.Value, through: tuple[ir.Name, ...] = ()) -> _Cast | None:
    """The cast to a half type that a value has surely been through."""
    if isinstance(value, ir.Call) and isinstance(value.func, ir.Attribute):
        if _is_cast(module, value):
            return _Cast(value, value.func.base, through)
        kept = value.func.attr in _KEEP and not _dtype(module, value)
        return _cast(module, value.func.base, through) if kept else None
    # One variable at a time: the fix has to know who else reads what the cast goes through.
    bound = only_assignment(module.names, value) if isinstance(value, ir.Name) else None
    known = bound is not None and bound.target not in through
    return _cast(module, bound.value, (*through, bound.target)) if bound is not None and known else None


def _is_cast(module: Module, call: ir.Call) -> bool:
    name = ir.last_name(call.func)
    if name in _CASTS:
        return not call.args and not module.names.of(call.func) & _HALF
    return name in ("to", "type") and bool(_dtype(module, call) & _HALF)


def _dtype(module: Module, call: ir.Call) -> frozenset[str]:
    """The dtype among a call's arguments, where it surely is one."""
    return next((found for arg in call.args if (found := _dtype_given(module, arg))), frozenset())


def _dtype_given(module: Module, arg: ir.Arg) -> frozenset[str]:
    """The dtype that an argument surely is; of several, all that it can be."""
    if arg.keyword not in (None, "dtype") or arg.star:
        return frozenset()
    names = module.names.of(arg.value)
    if not names <= _HALF | _WHOLE:
        found = dtypes(module, arg.value)
        names = frozenset(f"torch.{each.name}" if each.kind == "dtype" else "?" for each in found)
    return names if names <= _HALF or names <= _WHOLE else frozenset()


# --- evidence -------------------------------------------------------------------------------------------------------


def _holds_indices(module: Module, loss: _Loss, cast: _Cast) -> bool:
    """Whether a target holds class indices, and not probabilities."""
    if _is_whole(module, cast.base):
        return True
    if (_is_flat(loss.target) or _is_flat(cast.base)) and loss.output is not None:
        return not _is_flat(loss.output)
    names = {each.name for each in (cast.base, *cast.through) if isinstance(each, ir.Name)}
    function = ir.function_of(cast.call)
    block = function.body if function is not None else module.program.body
    return any(_is_compared(module, value, names) for value in ir.values_below(block))


def _is_whole(module: Module, value: ir.Value) -> bool:
    """Whether a tensor is one of integers, wherever it comes from."""
    if isinstance(value, ir.Subscript):
        return _is_whole(module, value.base)
    leaves = values_of(module, value).leaves
    return all(not leaf.is_open and asked(module, _is_made_whole, leaf.value, False) for leaf in leaves)


def _is_made_whole(module: Module, value: ir.Value) -> bool:
    if isinstance(value, ir.Subscript):
        return _is_whole(module, value)
    if not isinstance(value, ir.Call):
        return False
    if module.names.of(value.func) & _INDICES or _dtype(module, value) & _WHOLE:
        return True
    if module.names.only(value.func) == "torch.tensor" and value.positional:
        return _are_ints(value.positional[0]) and value.keyword("dtype") is None
    if not isinstance(value.func, ir.Attribute):
        return False
    attr = value.func.attr
    return attr in ("long", "argmax") or (attr in _KEEP and _is_whole(module, value.func.base))


def _are_ints(value: ir.Value) -> bool:
    items = value.items if isinstance(value, ir.Sequence) else ()
    return bool(items) and all(isinstance(each, ir.Constant) and type(each.value) is int for each in items)


def _is_flat(value: ir.Value) -> bool:
    """`x.view(-1)`: one number for each sample."""
    while isinstance(value, ir.Call) and isinstance(value.func, ir.Attribute):
        arg = value.positional[0] if len(value.args) == len(value.positional) == 1 else None
        if value.func.attr in _FLAT and isinstance(arg, ir.Constant) and arg.value == -1:
            return True
        if value.func.attr == "flatten" and not value.args:
            return True
        value = value.func.base
    return False


def _is_compared(module: Module, value: ir.Value, names: set[str]) -> bool:
    """`logits.argmax(1) == target` and `predicted.eq(target)`, where `predicted` is an argmax."""
    if isinstance(value, ir.Compare) and value.ops == ("Equal",):
        one, other = value.left, value.rights[0]
    elif isinstance(value, ir.Call) and isinstance(value.func, ir.Attribute) and len(value.positional) == 1:
        if value.func.attr != "eq":
            return False
        one, other = value.func.base, value.positional[0]
    else:
        return False
    return (_is_one_of(one, names) and _is_whole(module, other)) or (
        _is_one_of(other, names) and _is_whole(module, one)
    )


def _is_one_of(value: ir.Value, names: set[str]) -> bool:
    return isinstance(value, ir.Name) and value.name in names


# --- the fix --------------------------------------------------------------------------------------------------------


def _fix(module: Module, call: ir.Call, cast: _Cast) -> Fix | None:
    edit = _without(module, cast)
    if edit is None:
        return None
    applicability = Applicability.UNSAFE if _read_otherwise(module, call, cast) else Applicability.SAFE
    title = "Remove the dtype from `.to()`" if _moves_too(module, cast) else "Remove the cast"
    if applicability is Applicability.UNSAFE:
        title += " (other code also uses the result of the cast)"
    return Fix(applicability, title, (edit,))


def _without(module: Module, cast: _Cast) -> Edit | None:
    """The cast taken out; where its call does something else as well, that stays."""
    if "#" in module.text(cast.call):
        return None
    if _moves_too(module, cast):
        text = ", ".join(module.source.text[slice(*module.layout.span(arg))] for arg in _kept(module, cast))
        return Edit(*module.layout.inside_parens(cast.call), text)
    assign = cast.call.parent
    if isinstance(assign, ir.Assign) and assign.value is cast.call and isinstance(cast.base, ir.Name):
        if [ir.last_name(each) for each in assign.targets] == [cast.base.name]:  # `x = x.half()`
            return removed(module, assign)
    return Edit(*module.layout.outer(cast.call), written(module, cast.base))


def _moves_too(module: Module, cast: _Cast) -> bool:
    """Whether the call of a cast does something else as well: `.to(device, torch.float16)`."""
    return any(arg.keyword not in _ASIDE for arg in _kept(module, cast))


def _kept(module: Module, cast: _Cast) -> list[ir.Arg]:
    return [arg for arg in cast.call.args if not _dtype_given(module, arg) & _HALF]


def _read_otherwise(module: Module, call: ir.Call, cast: _Cast) -> bool:
    """Whether something reads the result of a cast that does not come behind the loss, which raised."""
    names = sorted({each.name for each in cast.through})
    homes = {(id(each.scope.home(each.name)), each.name) for each in cast.through}
    inside = {each.id for each in ir.walk_values(call)}
    return any(
        isinstance(each, ir.Name)
        and not each.bound
        and each.id > cast.call.id
        and (id(each.scope.home(each.name)), each.name) in homes
        and each.id not in inside
        and not (each.id > call.id and dominates(call, each))
        for each in module.whole.near(*names).values
    )
