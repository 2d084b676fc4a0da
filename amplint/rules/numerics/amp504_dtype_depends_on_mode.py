"""A cast to float32 is made only in training, and evaluation computes in half precision.

## What it does
Finds a cast to float32 that depends on the module's mode (`self.training`, `torch.is_grad_enabled()`), if autocast can
be enabled:

- `x.float() if self.training else x`, and `if self.training: x = x.float()`;
- `x.to(torch.float32 if self.training else x.dtype)`;
- a flag that follows the mode and is passed to a function, if the function is in the file and casts by the flag, or if
  the flag's name says that it casts (`selective_scan(x, force_fp32=self.training)`).

amplint reports nothing:

- if both modes cast, or only evaluation;
- if the cast is for a loss that only training computes;
- if nothing in the file shows that half precision is used: no autocast region, no `custom_fwd`, no flag such as
  `use_amp`;
- in a disabled region, and about masks, labels and indices.

## Why is this bad?
The cast usually exists because half precision gave NaN or poor gradients in training. Evaluation computes the same
numbers in half precision. In float16 it can overflow where training does not, and give NaN. Or evaluation gives other
results than training, and a worse model is chosen as the best.

## Example
```python
class Scan(nn.Module):
    def forward(self, x):
        return selective_scan(x, self.A, self.B, force_fp32=self.training)
```

## Use instead
```python
class Scan(nn.Module):
    def forward(self, x):
        return selective_scan(x, self.A, self.B, force_fp32=True)
```

## Fix safety
There is no fix: amplint can't tell whether slower evaluation or less precise training is acceptable.

## Proof
The test programs train, evaluate under autocast, and raise if evaluation gives NaN. The wrong programs raise; the
corrected programs run to their end.

## References
- [Ops that need a particular precision](https://docs.pytorch.org/docs/stable/amp.html#autocast-op-reference)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Finding, Fix, Severity
from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.external_calls import bases_in_sight
from amplint.model.inference.dtypes import HALF, dtypes
from amplint.model.inference.value_sets import decided, is_off
from amplint.model.inference.values import Test, asked, held
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import regions
from amplint.model.regions.regions_at import regions_at
from amplint.model.syntax import ir
from amplint.model.syntax.control import block_leaves
from amplint.model.syntax.queries import Nodes, is_false
from amplint.model.syntax.scopes import owner_class
from amplint.model.usage.module_casts import cast_to
from amplint.registry.rule import Rule

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(),
    triggers=(
        ".training & float & autocast",
        ".training & float & custom_fwd",
        ".training & fp32 & autocast",
        "fp32=self.training",
        "fp32 = self.training",
        "float32=self.training",
        "upcast=self.training",
        "is_grad_enabled & float & autocast",
        "is_grad_enabled & fp32 & autocast",
    ),
    not_shown="verify doesn't run evaluation",
    about_absence=True,
)

# What a function, or a flag of one, is called that casts to float32.
_FLOAT32 = re.compile(r"(?i)(^|_)(fp32|float32|upcast)(_|$)")
_FLAG = re.compile("[fF](?:[pP]|[lL][oO][aA][tT])32|[uU][pP][cC][aA][sS][tT]")
_NO_NUMBERS = re.compile(r"(?i)mask|label|target|index|indices|(^|_)ids?$|valid|bool")
_CUSTOM = [f"torch.{module}.custom_{name}" for module in ("amp", "cuda.amp") for name in ("fwd", "bwd")]
_WIDE = ("float32", "float64")


class Site(NamedTuple):
    """A place where the mode decides about a cast; `named`: a flag says by its name that it is one."""

    at: ir.Value
    what: str
    help: str = "Cast in training and in evaluation"
    named: bool = False


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each cast that training alone has."""
    told: set[int] = set()
    half = _has_half(module)
    near = module.once(_near_mode)
    for site in (
        (*_chosen(module), *_guarded(module), *_flags(module, near)) if half else _flags(module, near.near(_FLAG))
    ):
        statement = ir.statement_of(site.at).id
        if statement in told or not (half or site.named) or _is_switched_off(module, site.at):
            continue
        told.add(statement)
        yield rule.finding(
            module.span(site.at),
            f"{site.what}: under autocast, evaluation runs in half precision and can overflow where "
            "training does not; use float32 in evaluation too",
            fix=Fix(Applicability.DISPLAY, site.help),
        )


# --- the mode ---------------------------------------------------------------------------------------------------------


def _mode(module: Module, value: ir.Value) -> bool | None:
    """Whether a flag is true in training only (True), or in evaluation only (False); None where it is no such flag."""
    return asked(module, _mode_of, held(module, value), None)


def _mode_of(module: Module, value: ir.Value) -> bool | None:
    match value:
        case ir.Attribute():
            return True if _is_modules_mode(value) else None
        case ir.Call():
            names = module.names.of(value.func)
            if names == {"builtins.bool"} and value.positional:
                return _mode(module, value.positional[0])
            return True if names == {"torch.is_grad_enabled"} else None
        case ir.Unary(op="Not"):
            inner = _mode(module, value.operand)
            return None if inner is None else not inner
        case ir.Bool(op="and"):
            return _mode(module, value.left) or _mode(module, value.right) or None
        case ir.Conditional(test=ir.Compare(ops=ops)):  # `self.training if x is None else x`
            return _mode(module, value.then if ops == ("Is",) else value.other)
    return None


def _is_modules_mode(value: ir.Attribute) -> bool:
    """`self.training`, `model.training`, where it is no flag that the class sets itself."""
    cls = owner_class(value)
    own = cls is not None and bool(cls.stored(value.attr))
    return value.attr == "training" and isinstance(value.base, ir.Name) and not own


def _near_mode(module: Module) -> Nodes:
    """The nodes near each flag that is one of the mode."""
    words, more = set[str](), {"training", *module.words("torch.is_grad_enabled")}
    while more - words:
        words |= more
        for each in module.whole.within(None).near(*sorted(words)).statements:
            if isinstance(each, ir.Assign) and each.value is not None and ir.function_of(each) is None:
                if _mode(module, each.value) is not None:  # a variable of the module
                    more.update(target.name for target in each.targets if isinstance(target, ir.Name))
    return module.whole.near(*sorted(words))


def _has_half(module: Module) -> bool:
    """Whether the file says that half precision gets to its code: a region, or a function made for regions."""
    for region in regions(module):
        if not is_off(module, region) and any(
            each.name in (*HALF, None) for each in decided(module).region_dtypes(region)
        ):
            return True
    return any(True for _ in module.references(*_CUSTOM))


def _is_switched_off(module: Module, node: ir.Node) -> bool:
    """Whether a node stands in a region that is switched off."""
    return any(each.site is None and is_false(each.region.enabled) for each in regions_at(module, node))


# --- casts ------------------------------------------------------------------------------------------------------------


def _cast(module: Module, value: ir.Value) -> ir.Value | None:
    """The tensor that a call casts to float32."""
    if not isinstance(value, ir.Call) or not isinstance(value.func, ir.Attribute):
        return None
    return value.func.base if cast_to(module, value) == "float32" else None


def _casts(module: Module, block: ir.Block | None) -> ir.Value | None:
    """The first cast of a suite whose result takes the tensor's own place: `x = x.float()`, `x, y = to_fp32(x, y)`."""
    for statement in block.statements if block is not None else ():
        if not isinstance(statement, ir.Assign) or statement.value is None or len(statement.targets) != 1:
            continue
        target, value = statement.targets[0], statement.value
        made = next((made for to, made in _pairs(target, value) if _casts_itself(module, to, made)), None)
        if made is not None:
            return made
        if isinstance(value, ir.Call) and _FLOAT32.search(ir.last_name(value.func)) and _same(module, target, value):
            return value
    return None


def _pairs(target: ir.Value, value: ir.Value) -> list[tuple[ir.Value, ir.Value]]:
    """What an assignment binds, with what: one by one where both are written so."""
    if isinstance(target, ir.Sequence) and isinstance(value, ir.Sequence):
        return list(zip(target.items, value.items, strict=False))
    return [(target, value)]


def _casts_itself(module: Module, target: ir.Value, value: ir.Value) -> bool:
    """`x = x.float()`."""
    inner, key = _cast(module, value), objects(module).render(target)
    return inner is not None and key is not None and objects(module).render(inner) == key and _is_number(inner)


def _same(module: Module, target: ir.Value, call: ir.Call) -> bool:
    """Whether a call is given what its result is assigned to."""
    known = objects(module)
    own = [known.render(each) for each in (target.items if isinstance(target, ir.Sequence) else (target,))]
    return any(known.render(each) in own for each in call.positional)


def _is_number(value: ir.Value) -> bool:
    """Whether a tensor is none that has to be cast to be computed with at all."""
    return not isinstance(value, ir.Compare) and not _NO_NUMBERS.search(ir.last_name(value))


def _chosen(module: Module) -> Iterator[Site]:
    """`x.float() if self.training else x`, `x.to(torch.float32 if self.training else x.dtype)`."""
    near = module.once(_near_mode)
    for value in (module.whole if _chooses_dtype(module, near) else near).values:
        cast = None
        if isinstance(value, ir.Conditional):
            cast = _cast_in_training(module, value)
        elif isinstance(value, ir.Call) and isinstance(value.func, ir.Attribute) and value.func.attr in ("to", "type"):
            given = value.keyword("dtype") or next(iter(value.positional[:1]), None)
            if given is not None and _is_number(value.func.base) and _follows_mode(module, given):
                cast = value.func.base
        if cast is not None:
            yield Site(value, f"only training casts `{module.text(cast)}` to float32")


def _cast_in_training(module: Module, choice: ir.Conditional) -> ir.Value | None:
    """The tensor that a conditional expression casts to float32 in training, and takes as it is in evaluation."""
    mode, known = _mode(module, choice.test), objects(module)
    if mode is None:
        return None
    trained, evaluated = (choice.then, choice.other) if mode else (choice.other, choice.then)
    inner = _cast(module, trained)
    if inner is None or not _is_number(inner):
        return None
    return inner if known.render(inner) == known.render(evaluated) is not None else None


def _chooses_dtype(module: Module, near: Nodes) -> bool:
    """Whether the mode decides about a dtype, which may then be anywhere."""
    chosen: list[ir.Value] = [
        each for each in near.values if isinstance(each, ir.Conditional) and _mode(module, each.test) is not None
    ]
    for each in near.statements:
        if isinstance(each, ir.If) and _mode(module, each.test) is not None:
            inside = (inner for block in each.blocks() for inner in ir.walk_statements(block, into=False))
            chosen += [inner.value for inner in inside if isinstance(inner, ir.Assign) and inner.value is not None]
    return any(found.name == "float32" for each in chosen for found in dtypes(module, each))


def _follows_mode(module: Module, value: ir.Value) -> bool:
    """Whether a dtype is float32 in training, and in evaluation another one."""
    found = dtypes(module, value)
    trained = [each for each in found if _in_training(module, each.leaf.tests) is True]
    evaluated = [each for each in found if _in_training(module, each.leaf.tests) is False]
    wide = bool(trained) and all(each.name == "float32" for each in trained)
    return wide and bool(evaluated) and not any(each.name in _WIDE for each in evaluated)


def _in_training(module: Module, tests: Iterable[Test]) -> bool | None:
    for test in tests:
        mode = _mode(module, test.value)
        if mode is not None:
            return mode is test.truth
    return None


def _guarded(module: Module) -> Iterator[Site]:
    """`if self.training: x = x.float()`."""
    for statement in module.once(_near_mode).statements:
        if isinstance(statement, ir.If) and (mode := _mode(module, statement.test)) is not None:
            arms = (statement.then, statement.orelse) if mode else (statement.orelse, statement.then)
            cast = _casts(module, arms[0]) if not _opens_region(module, arms[0]) else None
            if cast is not None and _casts(module, arms[1]) is None and _is_read_behind(module, statement, cast):
                yield Site(cast, f"`{module.text(cast)}` runs only in training")


def _opens_region(module: Module, block: ir.Block | None) -> bool:
    """Whether a suite opens a region itself: what it casts is undone there, and the other mode may have no region."""
    opened = {each.call.id for each in regions(module)}
    return block is not None and any(each.id in opened for each in ir.values_below(block))


def _is_read_behind(module: Module, choice: ir.If, cast: ir.Value) -> bool:
    """Whether both modes go on with what one casts: it isn't for a loss that training alone computes."""
    statement, function = ir.statement_of(cast), ir.function_of(cast)
    if not isinstance(statement, ir.Assign):
        return False
    if statement.block is not None and block_leaves(statement.block):
        return False
    names = {each.name for each in ir.walk_values(statement.targets[0]) if isinstance(each, ir.Name)}
    inside = {each.id for arm in (choice.then, choice.orelse) if arm is not None for each in ir.values_below(arm)}
    return any(
        each.name in names and each.id > choice.id and each.id not in inside and not each.bound
        for each in module.whole.within(function).values
        if isinstance(each, ir.Name) and ir.function_of(each) is function
    )


# --- flags ------------------------------------------------------------------------------------------------------------


def _flags(module: Module, near: Nodes) -> Iterator[Site]:
    """Calls that are given the mode for a flag which decides about a cast."""
    for call in near.calls:
        for arg in call.args:
            if not arg.star and _mode(module, arg.value) is True and _decides_cast(module, call, arg):
                flag = arg.keyword or module.text(arg.value)
                named = _is_named(arg) and _is_in_module(module, call)
                always = f"Pass `{f'{arg.keyword}=' if arg.keyword else ''}True`"
                yield Site(arg.value, f"`{flag}` is true only in training", always, named)


def _is_named(arg: ir.Arg) -> bool:
    """Whether an argument's keyword says that it is a flag for a cast to float32."""
    return _FLOAT32.search(arg.keyword or "") is not None


def _decides_cast(module: Module, call: ir.Call, arg: ir.Arg) -> bool:
    """Whether an argument decides about a cast in the function that is called; by its name, if that is out of sight."""
    calls = module.once(CallGraph)
    callee = calls.find(call)
    params = calls.arguments(call, callee) if callee is not None else None
    if callee is None or params is None:
        return _is_named(arg)
    return any(_decides(module, callee.function, name) for name, value in params.items() if value is arg.value)


def _decides(module: Module, function: ir.Function, name: str) -> bool:
    """Whether a parameter decides about a cast, or is handed on by a name that says so."""
    for statement in ir.walk_statements(function.body):
        if isinstance(statement, ir.If) and ir.is_variable(statement.test, name):
            if _casts(module, statement.then) is not None and _casts(module, statement.orelse) is None:
                return True
    for value in ir.values_below(function.body):
        if isinstance(value, ir.Conditional) and ir.is_variable(value.test, name):
            if _cast(module, value.then) is not None and _cast(module, value.other) is None:
                return True
        if isinstance(value, ir.Call) and any(ir.is_variable(arg.value, name) and _is_named(arg) for arg in value.args):
            return True
    return False


def _is_in_module(module: Module, node: ir.Node) -> bool:
    """Whether a node stands in a method of a `torch.nn.Module`, or of what a class of another file may make one."""
    function = ir.function_of(node)
    while function is not None and function.cls is None:
        function = function.outer
    cls = function.cls if function is not None else None
    if cls is None or not bases_in_sight(module, cls):
        return cls is not None
    return any("torch.nn.Module" in module.names.of(base.value) for base in cls.bases)
