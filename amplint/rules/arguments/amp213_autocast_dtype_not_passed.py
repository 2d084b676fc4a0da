"""The code selects bfloat16, and enters autocast without a dtype.

## What it does
Finds an autocast region for cuda without `dtype`, in each of these cases:

- the region is under an `if` for bfloat16 (`if args.bf16:`, `if precision == "bf16":`), also if that `if` only selects
  `autocast` without calling it;
- the region runs a model that the file casts to bfloat16;
- the region runs a model that is created with a dtype which can be bfloat16 (`Net(dtype=dtype)`). This finding is only
  *likely*;
- all other regions of the file are bfloat16;
- no region of the file has a dtype, and the file has a variable that is, or can be, bfloat16;
- no region of the file has a dtype, and the `enabled` of a scaler checks whether a setting is bfloat16;
- the `enabled` of the region is a flag for bfloat16, or checks whether a setting is bfloat16;
- the `enabled` of the region is true for all but full precision (`precision != "no"`), and the same setting can be
  bfloat16, as the choices of an option show; if only a comparison shows it, this is *likely*;
- a condition for bfloat16 decides whether the loss from the region is scaled (*likely*).

amplint reports nothing:

- if the region is disabled, or its device is the CPU, whose default dtype is bfloat16;
- if a flag for float16 enables the region, or the `if` around it is true for float16 too;
- if a scaler is always enabled, as float16 may be intended. This doesn't apply under an `if` for bfloat16, and to a
  model that is cast to bfloat16;
- if the region runs only when bfloat16 failed or is not supported;
- if the code chooses among several regions: the region is in a dict or a list, or its function or class has the name
  of a precision.

## Why is this bad?
On cuda, xpu and mps a region without a dtype is float16. Code that selected bfloat16 for its range then overflows above
65504, and gradients below 6e-8 become zero. Such code usually has no scaler, since bfloat16 needs none.

## Example
```python
dtype = torch.bfloat16 if args.bf16 else torch.float16
model.to(dtype)
with torch.autocast("cuda"):
    loss = criterion(model(batch), target)
```

## Use instead
```python
dtype = torch.bfloat16 if args.bf16 else torch.float16
model.to(dtype)
with torch.autocast("cuda", dtype=dtype):
    loss = criterion(model(batch), target)
```

## Fix safety
The fix passes the variable that holds the dtype, or else `torch.bfloat16`. Unsafe: the region then runs in bfloat16
instead of float16.

There is no fix if:

- the file has no `import torch`;
- the name `autocast` is used without a call;
- the region runs a pipeline of diffusers: NumPy and PIL can't read its images in bfloat16;
- only a condition or a setting shows that bfloat16 is meant.

## Proof
The regions of the test programs run in float16 before the fix, and in bfloat16 after it.

## References
- [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
- torch/amp/autocast_mode.py: the default dtypes
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.fixes.device_choice import readable_at
from amplint.fixes.edits import add_last_argument
from amplint.fixes.inherited_arguments import module_name
from amplint.fixes.statements import says_the_same
from amplint.model.calls.call_sites import passed
from amplint.model.inference.declared_choices import option_of
from amplint.model.inference.devices import region_devices
from amplint.model.inference.dtypes import Dtype, dtypes, region_round
from amplint.model.inference.formulas import TRUE, Form, Formula, both, contradict, fact, in_order, possible
from amplint.model.inference.value_sets import decided
from amplint.model.inference.values import parameter_read
from amplint.model.objects.amp_objects import objects, scaler_arguments
from amplint.model.objects.autocast_objects import Region, regions
from amplint.model.objects.terms import Term
from amplint.model.regions.training_regions import trained
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round, parts_that_hold
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.nesting import nodes_round
from amplint.model.syntax.queries import is_false
from amplint.model.torch_facts.modules import RETURNS_ITSELF
from amplint.model.torch_facts.names import AUTOCAST, SCALERS
from amplint.model.usage.fallbacks import is_fallback
from amplint.model.usage.module_casts import LOADS, casts
from amplint.registry.rule import Rule
from amplint.rules.shared.enabled_flags import can_be_float16, is_bfloat16
from amplint.rules.shared.precision_tests import (
    BFLOAT16,
    asked_dtype,
    names_bfloat16,
    names_float16,
    names_full,
    speaks_of_bfloat16,
)

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.UNSAFE,),
    triggers=("autocast & bf16", "autocast & bfloat16"),
    not_shown="a region in another half dtype is not wrong by itself",
)


_SETTERS = ("set_autocast_dtype", "set_autocast_gpu_dtype")
_PIPELINE = re.compile(r"(?i)^_?pipe(line)?$")  # an object of a diffusers pipeline, by its usual names
_UNTOLD = "amplint can't tell which dtype each value of `{}` means"


class Evidence(NamedTuple):
    """What shows that bfloat16 is meant: in words, and the value that says so where there is one.

    `withheld`: why there is no fix, where a person has to say which dtype it is. `is_likely`: it may mean less.
    """

    text: str
    value: ir.Value | None = None
    withheld: str | None = None
    is_likely: bool = False


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each region of float16 by default where the code shows that bfloat16 is meant."""
    every = regions(module)
    if every and module.whole.called(*_SETTERS):
        return  # the default dtype may be another one
    for region in every:
        if region.dtype is None and not region.opaque and not is_false(region.enabled):
            if not _is_for_cuda(module, region) or not can_be_float16(module, region):
                continue
            if _is_for_float16(module, region) or is_fallback(module, region.call):
                continue
            found = _asked(module, region.call) or _cast(module, region) or _beside(module, region, every)
            found = found or _scaled(module, region, every) or _created(module, region)
            found = found or _switched(module, region) or _trained(module, region)
            if found is not None:
                yield _finding(module, region, found)
    for value in module.references(AUTOCAST, "torch.cuda.amp.autocast"):
        # Handed on without a call: `context = autocast if bf16 else nullcontext`.
        found = _asked(module, value) if _is_handed_on(value) and not is_fallback(module, value) else None
        if found is not None:
            yield rule.finding(
                module.span(value),
                f"{found.text}, but this `autocast` has no dtype and runs in float16 on cuda: values above 65504 "
                f"overflow; use `functools.partial({module.text(value)}, dtype=torch.bfloat16)`",
            )


def _is_for_float16(module: Module, region: Region) -> bool:
    """Whether a flag for float16 switches a region, or decides on it; not where a setting may be either half type."""
    known = decided(module)
    facts = both(known.of(region.enabled), known.around(region.call)).facts()
    either = {each.compared for each in facts if each.compared is not None and names_bfloat16(_literal(each))}
    asked = (str(each.compared if each.compared in either else each) for each in facts)
    return any(map(names_float16, asked))


def _scales(module: Module) -> bool:
    """Whether a scaler is made that is always on: float16 is meant."""
    known = decided(module)
    return any(
        both(known.inside(call), known.of(scaler_arguments(module, call).get("enabled"))) == TRUE
        for call in module.calls_of(*SCALERS)
    )


def _is_handed_on(value: ir.Value) -> bool:
    """Whether the class itself is assigned, returned, or one of two choices."""
    at = value.parent if isinstance(value.parent, ir.Sequence) else value
    up = at.parent
    return (isinstance(up, (ir.Assign, ir.Return)) and up.value is at) or (
        isinstance(up, ir.Conditional) and up.test is not value
    )


def _is_for_cuda(module: Module, region: Region) -> bool:
    return any(each.type == "cuda" for each in region_devices(module, region))


def _asked(module: Module, node: ir.Node) -> Evidence | None:
    """A test round a node that asked for bfloat16, and for nothing else."""
    for test, holds in conditions_round(node):
        for part, truth in parts_that_hold(test, holds):
            if truth and asked_dtype(module, part) == BFLOAT16:
                return Evidence(f"`{module.on_one_line(part)}` selects bfloat16")
    return None


def _cast(module: Module, region: Region) -> Evidence | None:
    """A model that is cast to bfloat16, and called in the region."""
    holder = region.call.parent
    if not isinstance(holder, ir.With):
        return None
    keys, known = objects(module), decided(module)
    called = {keys.key(each.func) for each in ir.calls_below(holder.body)}
    every = casts(module)
    for cast in every:
        if cast.dtype == "bfloat16" and cast.key in called and cast.call.id < region.call.id:
            apart = possible(known.around(cast.call), known.around(region.call), known.of(region.enabled)) is None
            if not apart and not any(each.key == cast.key and each.dtype != "bfloat16" for each in every):
                return Evidence(f"the model is cast to bfloat16 on {module.line(cast.call)}")
    return None


def _created(module: Module, region: Region) -> Evidence | None:
    """A model that is created with a dtype which can be bfloat16, and called in the region."""
    holder, known = region.call.parent, decided(module)
    for call in ir.calls_below(holder.body) if isinstance(holder, ir.With) and not _scales(module) else ():
        for made in _makers(module, call.func):
            given = made.keyword("torch_dtype") or made.keyword("dtype")
            if given is None or not _decides(dtypes(module, given)):
                continue
            if possible(known.around(made), known.around(region.call), known.of(region.enabled)) is None:
                continue
            value = given if _is_readable(module, given, region.call) else None
            text = module.on_one_line(given)
            return Evidence(
                f"the model from {module.line(made)} has the dtype `{text}`, which can be bfloat16",
                value,
                None if value is not None else "amplint can't write that dtype at the region; pass it by hand",
                is_likely=True,
            )
    return None


def _makers(module: Module, model: ir.Value) -> Iterator[ir.Call]:
    """The calls of classes that create what is called as a model, also where its function is given it."""
    yield from _makers_of(module, model)
    read = parameter_read(module, model)
    for value in passed(module, read[0], read[1].name) if read is not None else ():
        if value is not None:
            yield from _makers_of(module, value)


def _makers_of(module: Module, model: ir.Value) -> Iterator[ir.Call]:
    for source in objects(module).sources(model) if isinstance(model, (ir.Name, ir.Attribute)) else ():
        made = ir.before_calls(source, *RETURNS_ITSELF)
        name = ir.last_name(made.func) if isinstance(made, ir.Call) else ""
        if isinstance(made, ir.Call) and (name in LOADS or name[:1].isupper()):
            yield made


def _beside(module: Module, region: Region, every: list[Region]) -> Evidence | None:
    """A region for cuda that is surely bfloat16, and all with a dtype are; where none has any, a variable."""
    every = [each for each in every if _is_of_its_file(module, each, region) or not each.opaque]
    others = [each for each in every if each.dtype is not None and not is_false(each.enabled)]
    if _scales(module) or any(each.opaque for each in every) or not all(is_bfloat16(module, each) for each in others):
        return None
    if others:
        tables = _tables(region.call)
        if region_round(module, region) or any(_is_for_some(each.call) for each in (region, *others)):
            return None  # each may be for what the other is not
        if any(tables & _tables(each.call) for each in others):
            return None
        text = f"the autocast region on {module.line(others[0].call)} is bfloat16"
        return Evidence(text) if _is_for_cuda(module, others[0]) else None
    return _variable(module, region)


def _is_of_its_file(module: Module, one: Region, other: Region) -> bool:
    """Whether two regions stand in one file: what wraps functions in another one says nothing of this region."""
    first, second = (module.place(module.span(each.call)[0])[0] for each in (one, other))
    return first == second


def _scaled(module: Module, region: Region, every: list[Region]) -> Evidence | None:
    """A scaler whose switch asks whether a setting is bfloat16, which it can be in a region of no dtype; no region of
    the file has one.
    """
    if any(each.dtype is not None or each.opaque for each in every):
        return None
    known = decided(module)
    entered = both(known.of(region.enabled), known.around(region.call))
    for call in module.calls_of(*SCALERS):
        on = both(known.inside(call), known.of(scaler_arguments(module, call).get("enabled")))
        for term in in_order(on.facts()):
            if term.compared is None or not names_bfloat16(term.parts[1].name.strip("\"'")):
                continue
            if term in known.tests and possible(entered, fact(term)) is not None:
                text = module.on_one_line(known.tests[term])
                said = f"`{text}` can be bfloat16, as the scaler on {module.line(call)} shows"
                return Evidence(said, withheld=_UNTOLD.format(text))
    return None


def _switched(module: Module, region: Region) -> Evidence | None:
    """A setting that switches a region on, and can be bfloat16: it is compared with its name, or it is on for all but
    full precision, and is an option with that choice or is compared with its name elsewhere.
    """
    known = decided(module)
    entered = both(known.of(region.enabled), known.around(region.call))
    for term in in_order(known.of(region.enabled).facts()):
        setting, is_for = known.tests.get(term), _switches_on(known.of(region.enabled), term)
        if setting is None or region.enabled is None:
            continue
        if term.compared is None:
            if is_for and asked_dtype(module, setting) == BFLOAT16 and possible(entered, fact(term)) is not None:
                return Evidence(f"`{module.on_one_line(setting)}` selects bfloat16")
            continue
        shown: list[tuple[str, Term, ir.Value, bool]] = []
        if names_bfloat16(_literal(term)) and is_for:
            shown = [(_literal(term), term, region.enabled, False)]
        elif names_full(_literal(term)):
            shown = [
                (name, term._replace(parts=(term.parts[0], term.parts[1]._replace(name=repr(name)))), node, is_likely)
                for name, node, is_likely in _names_of_bfloat16(module, setting)
            ]
        for name, asked, node, is_likely in shown:
            if possible(entered, fact(asked)) is not None:
                text = module.on_one_line(setting)
                said = f'`{text}` can be "{name}", as {module.line(node)} shows'
                return Evidence(said, withheld=_UNTOLD.format(text), is_likely=is_likely)
    return None


def _switches_on(formula: Formula, term: Term, holds: bool = True) -> bool:
    """Whether a formula asks that a fact is true, and not that it is false."""
    if formula.form is Form.NOT:
        holds = not holds
    return (formula.term == term and holds) or any(_switches_on(each, term, holds) for each in formula.parts)


def _literal(term: Term) -> str:
    return term.parts[1].name.strip("\"'")


def _names_of_bfloat16(module: Module, setting: ir.Value) -> Iterator[tuple[str, ir.Value, bool]]:
    """The names of bfloat16 that a setting can have, each with what shows it, and whether that is only likely."""
    option = option_of(module, setting) if isinstance(setting, ir.Attribute) else None
    if option is not None and not option.changed:
        for choice in option.choices:
            if isinstance(choice.value, str) and names_bfloat16(choice.value):
                yield choice.value, option.call, False
    for compare in module.own.near("bf16", "bfloat16").values:
        if isinstance(compare, ir.Compare) and _is_same_setting(module, compare.left, setting):
            up = compare.parent
            if isinstance(up, ir.If) and compare.ops == ("Equal",) and isinstance(up.then.statements[-1], ir.Raise):
                continue  # it is refused
            for each in ir.walk_values(compare.rights[0]):
                if isinstance(each, ir.Constant) and isinstance(each.value, str) and names_bfloat16(each.value):
                    yield each.value, compare, True


def _is_same_setting(module: Module, one: ir.Value, other: ir.Value) -> bool:
    """Whether two values read one variable, or attributes of one name: `self.config.precision`, `config.precision`."""
    if isinstance(one, ir.Attribute) and isinstance(other, ir.Attribute):
        return one.attr == other.attr
    key = objects(module).key(one) if isinstance(one, ir.Name) else None
    return key is not None and isinstance(other, ir.Name) and objects(module).key(other) == key


def _trained(module: Module, region: Region) -> Evidence | None:
    """A flag for bfloat16 that decides whether a loss out of a region is scaled, and not on the region."""
    known = decided(module)
    entered = both(known.of(region.enabled), known.around(region.call))
    for each in trained(module):
        if not any(opened.region.call is region.call for opened in each.entered):
            continue
        scales = each.scaled or each.event.kind == "scale"
        for test, holds in conditions_round(each.event.call):
            for part, truth in parts_that_hold(test, holds):
                if truth is scales or asked_dtype(module, part) != BFLOAT16:
                    continue
                if possible(entered, known.of(part)) is not None:
                    text = module.on_one_line(part)
                    return Evidence(
                        f"for bfloat16 the loss is not scaled (`{text}`, {module.line(part)})",
                        withheld=f"amplint can't tell which dtype belongs to `{text}`",
                        is_likely=True,
                    )
    return None


def _is_for_some(node: ir.Node) -> bool:
    """Whether a test decides about a node, or about the function or lambda that it stands in, or that or its class is
    called after a precision.
    """
    function = ir.function_of(node)
    if conditions_round(node) or (function is not None and function.outer is not None and conditions_round(function)):
        return True
    return any(
        names_float16(each.name) or speaks_of_bfloat16(each.name)
        for each in nodes_round(node)
        if isinstance(each, (ir.Function, ir.Class))
    )


def _tables(node: ir.Node) -> set[int]:
    """The displays, by their ids, that a node is in: `{"fp16": autocast("cuda"), ...}`."""
    return {each.id for each in nodes_round(node) if isinstance(each, (ir.Mapping, ir.Sequence))}


def _variable(module: Module, region: Region) -> Evidence | None:
    """A variable that can be bfloat16 and could be read at the region."""
    function = ir.function_of(region.call)
    for statement in module.whole.statements:
        if not isinstance(statement, ir.Assign) or len(statement.targets) != 1 or statement.value is None:
            continue
        target = statement.targets[0]
        around = ir.function_of(statement)
        own = around is function or (function is not None and around is not None and around.cls is function.cls)
        if not own or not isinstance(target, (ir.Name, ir.Attribute)):
            continue
        if not _decides(dtypes(module, statement.value)) or contradict(decided(module).inside(statement)):
            continue
        if _readable(module, target, region.call):
            text = module.text(target)
            return Evidence(f"`{text}` from {module.line(statement)} can be bfloat16", target)
    return None


def _decides(found: list[Dtype]) -> bool:
    """Whether what can be these dtypes is a choice of a half type: bfloat16, or bfloat16 where a test says so."""
    names = {each.name if each.kind == "dtype" else None for each in found}
    return names <= {"bfloat16", "float16", "float32"} and any(
        each.name == "bfloat16" and (each.leaf.tests or len(names) == 1) for each in found
    )


def _is_readable(module: Module, value: ir.Value, at: ir.Node) -> bool:
    """Whether a value is a name or attribute that says the same at another place of its own function."""
    if not isinstance(value, (ir.Name, ir.Attribute)):
        return False
    return ir.function_of(value) is ir.function_of(at) and says_the_same(module, value, value, at)


def _readable(module: Module, target: ir.Name | ir.Attribute, at: ir.Node) -> bool:
    if isinstance(target, ir.Attribute):
        function, own = ir.function_of(target), ir.function_of(at)
        first = [each.params[0].name if each is not None and each.params else "" for each in (function, own)]
        return isinstance(target.base, ir.Name) and first[0] == first[1] == target.base.name and bool(first[0])
    bindings = module.names.bindings(target)
    return all(isinstance(each, Assigned) for each in bindings) and readable_at(module, target, at)


def _makes_images(region: Region) -> bool:
    """Whether a pipeline of diffusers makes images in a region: they are saved, and no gradient is computed."""
    holder = region.call.parent
    calls = ir.calls_below(holder.body) if isinstance(holder, ir.With) else ()
    return any(_PIPELINE.search(ir.last_name(each.func)) for each in calls)


def _finding(module: Module, region: Region, found: Evidence) -> Finding:
    torch = module_name(module, "torch")
    text = module.text(found.value) if found.value is not None else f"{torch}.bfloat16" if torch else None
    fix, withheld = (
        None,
        ("the fix needs `import torch`, which this file lacks; add that import, and run amplint again"),
    )
    if _makes_images(region):
        withheld = "NumPy and PIL can't read bfloat16 images; pass the dtype, and cast the images to float32"
    elif text is not None and found.withheld is None:
        edit = add_last_argument(module, region.call, f"dtype={text}")
        fix = Fix(Applicability.UNSAFE, f"Pass `dtype={text}` (the region then runs in bfloat16)", (edit,))
    said = text if text is not None else "torch.bfloat16"
    return rule.finding(
        module.span(region.call),
        f"{found.text}, but this region has no `dtype=` and runs in float16 on cuda: values above 65504 overflow; pass "
        f"{f'`dtype={said}`' if found.withheld is None else 'the dtype'}",
        fix=fix,
        withheld=None if fix is not None else found.withheld or withheld,
        confidence=Confidence.LIKELY if found.is_likely else None,
    )
