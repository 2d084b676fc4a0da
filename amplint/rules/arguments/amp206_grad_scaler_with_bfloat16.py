"""A GradScaler is enabled although all autocast regions run in bfloat16.

## What it does
Finds a scaler that this file creates, if the scaler can be enabled while

- all autocast regions around its losses run in bfloat16, either always or if an option selects bfloat16;
- or the file has no regions, and all parameters that the file's optimizers train were cast to bfloat16.

Also finds a scaler with an inverted test: enabled if the dtype is bfloat16, and disabled if it is float16.

amplint reports nothing if:

- it can't see the regions, or the code doesn't show the dtype of a region;
- only a test of the device decides the dtype (`torch.cuda.is_bf16_supported()`);
- `enabled` is false for bfloat16;
- `enabled` is a flag named after float16 (`enabled=args.fp16`), on which the bfloat16 regions don't depend;
- an option asks for the scaler: by its name (`force_bf16_scaler`), or as a separate option that is off by default
  (`use_scaler`);
- the branch for bfloat16 doesn't use the scaler.

## Why is this bad?
bfloat16 has the exponent range of float32, so small gradients don't become zero, and scaling changes nothing: in a
test, 20 steps with and without a scaler gave the same parameters, bit by bit. The scaler still costs time in each step,
as it checks all gradients and waits for the device. It also skips each step with an infinite or NaN gradient, without a
message.

## Example
```python
scaler = torch.amp.GradScaler("cuda")
with torch.autocast("cuda", dtype=torch.bfloat16):
    loss = criterion(model(batch), target)
scaler.scale(loss).backward()
```

## Use instead
```python
scaler = torch.amp.GradScaler("cuda", enabled=False)
with torch.autocast("cuda", dtype=torch.bfloat16):
    loss = criterion(model(batch), target)
scaler.scale(loss).backward()
```

## Fix safety
The fix disables the scaler with `enabled=False`. If a variable holds the dtype, the fix writes `enabled=dtype ==
torch.float16` instead, so that the scaler still works with float16. An existing condition is kept, and joined with
`and`.

Unsafe: after the fix, steps with infinite gradients are taken instead of skipped, and checkpoints hold an empty scaler
state.

## Proof
Before the fix, the scaler of the test programs multiplies the loss. After the fix, the scaler is disabled, and the
parameters after training are the same.

## References
- [torch.amp](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Finding, Fix, Severity
from amplint.fixes.device_choice import readable_at
from amplint.fixes.inherited_arguments import module_name
from amplint.model.calls.call_sites import callers
from amplint.model.calls.external_calls import class_made
from amplint.model.flow.path_conditions import truth_of
from amplint.model.inference.devices import devices
from amplint.model.inference.formulas import (
    FALSE,
    TRUE,
    Formula,
    World,
    both,
    contradict,
    either,
    fact,
    negated,
    possible,
)
from amplint.model.inference.value_sets import ON_CUDA, decided, is_vague
from amplint.model.inference.values import Test, values_of
from amplint.model.objects import terms
from amplint.model.objects.amp_objects import objects, scaler_arguments
from amplint.model.objects.autocast_objects import Region, region_of, regions
from amplint.model.objects.key_parts import last_name
from amplint.model.objects.terms import Term
from amplint.model.regions.openers import Open
from amplint.model.regions.training_regions import Trained, runs_in, trained
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round, parts_that_hold
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.queries import is_false
from amplint.model.syntax.scopes import owner_class
from amplint.model.torch_facts.modules import RETURNS_ITSELF
from amplint.model.usage.module_casts import Cast, casts
from amplint.registry.rule import Rule
from amplint.rules.shared.default_values import holds_by_default
from amplint.rules.shared.enabled_flags import can_be_float16, constructions, is_bfloat16, said, set_enabled, turning
from amplint.rules.shared.scaler_order import receiver

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.UNSAFE,),
    triggers=("GradScaler & autocast", "GradScaler & bfloat16"),
    not_shown="a scaler in bfloat16 only costs time: gradients and updates are the same",
)

# A flag that speaks of float16, whose path may have no region here; and the names of bfloat16, which look like its.
_HALF = re.compile(r"(?i)fp_?16|f16|half|float16|(?<!\d)16")
_SIMPLE = (ir.Name, ir.Attribute, ir.Subscript, ir.Compare, ir.Call, ir.Constant)
_UP = 2  # through so many calls a test decides whether a scaler is made
_OF_GPUS = {"torch.cuda.is_available", "torch.cuda.is_bf16_supported"}
_BFLOAT16 = re.compile(r"(?i)b(rain)?_?f(loat)?_?p?_?16")


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Scalers that are on while all their losses come out of bfloat16, always or where an option says so."""
    scaled = [loss for loss in trained(module) if loss.event.kind == "scale"]
    cast = None
    if scaled and all(is_false(region.enabled) for region in regions(module)):
        cast = _bfloat16_parameters(module)
    losses = _by_scaler(module, scaled)
    for call, of_scaler in losses.values() if losses is not None else ():
        # Else there is a loss whose regions can't be told.
        if any(_opens_float16(module, each) for loss in of_scaler for each in loss.entered):
            continue
        if all(not loss.unseen and (loss.entered or cast) for loss in of_scaler):
            finding = _of_cast(module, call, cast) if cast is not None else _of_regions(module, call, of_scaler)
            if finding is not None:
                yield finding


def _opens_float16(module: Module, entered: Open) -> bool:
    """Whether a model that a region runs has a region of its own that may be float16, in one of its methods."""
    body = entered.at.body if isinstance(entered.at, (ir.With, ir.Function)) else None
    calls = ir.calls_below(body) if body is not None else ()
    classes = {cls.id: cls for call in calls for cls in _classes(module, call.func)}
    return any(module.once(_has_float16_region, each) for each in classes.values())


def _has_float16_region(module: Module, cls: ir.Class) -> bool:
    """Whether a class has a region that may be float16, in one of its methods."""
    calls = (
        each
        for statement in ir.walk_statements(cls.body)
        for root in statement.values()
        for each in ir.walk_values(root)
        if isinstance(each, ir.Call)
    )
    return any(_may_be_float16(module, each) for each in calls)


def _may_be_float16(module: Module, call: ir.Call) -> bool:
    """Whether a call opens a region that may be float16; what is called like one, and is not in sight, may be."""
    region = region_of(module, call)
    return can_be_float16(module, region) if region is not None else ir.last_name(call.func) == "autocast"


def _classes(module: Module, model: ir.Value, depth: int = 3) -> Iterator[ir.Class]:
    """The classes of the project that a model can be of, also where another module wraps it."""
    sources = objects(module).sources(model) if isinstance(model, (ir.Name, ir.Attribute)) else [model]
    for source in sources:
        cls, made = class_made(module, source), ir.before_calls(source, *RETURNS_ITSELF)
        if cls is not None:
            yield cls
        elif depth and isinstance(made, ir.Call) and made.positional:
            yield from _classes(module, made.positional[0], depth - 1)


def _by_scaler(module: Module, scaled: list[Trained]) -> dict[int, tuple[ir.Call, list[Trained]]] | None:
    """The constructions of scalers with the losses that they scale; None where a loss is scaled by any scaler."""
    losses: dict[int, tuple[ir.Call, list[Trained]]] = {}
    for loss in scaled:
        made = constructions(module, receiver(loss.event))
        if not made:
            return None
        for call in made:
            losses.setdefault(call.id, (call, []))[1].append(loss)
    return losses


def _of_cast(module: Module, call: ir.Call, cast: Cast) -> Finding | None:
    """The finding of a scaler of losses of a model that is cast to bfloat16."""
    if _on_with(module, call, decided(module).around(cast.call)) is None:
        return None
    return _finding(module, call, "False", f"the model's parameters are cast to bfloat16 on {module.line(cast.call)}")


class _Runs(NamedTuple):
    """In which dtypes the regions run whose losses a scaler scales.

    `always`: never in float16 where the scaler is on; `float16`: when one of them runs in it; `scales`: when a loss is
    scaled.
    """

    always: bool
    float16: Formula
    scales: Formula


def _of_regions(module: Module, call: ir.Call, losses: list[Trained]) -> Finding | None:
    """The finding of a scaler all of whose losses come out of regions in sight."""
    entered = [each for loss in losses for each in loss.entered]
    always = all(is_bfloat16(module, each.region) for each in entered)
    float16 = either(*(runs_in(module, each, "float16") for each in entered))
    if _is_for_cuda(module, call) and possible(float16, ON_CUDA) is None:
        always, float16 = True, FALSE  # elsewhere the scaler is disabled
    on = _on(module, call)
    if on is None or _is_not_for_bfloat16(module, call, always=always):
        return None
    if not always and possible(on, float16) is None:
        if possible(decided(module).inside(call), float16) is not None:
            return _inverted(module, call, entered)
        always = True  # where this one is made; float16 has one of its own
    runs = _Runs(always, float16, either(*(decided(module).around(loss.event.call) for loss in losses)))
    return next(filter(None, (_of_region(module, call, each, runs) for each in entered)), None)


def _is_not_for_bfloat16(module: Module, call: ir.Call, *, always: bool) -> bool:
    """Whether a scaler is created or enabled for float16 only."""
    if not always and _is_made_for_float16(module, ir.function_of(call), _UP):
        return True
    return _is_for_cuda(module, call) and _is_for_old_gpus(module, call)


def _of_region(module: Module, call: ir.Call, entered: Open, runs: _Runs) -> Finding | None:
    """The finding of a scaler that is on while a region runs in bfloat16."""
    others = () if runs.always else (negated(runs.float16), runs.scales)
    world = _on_with(module, call, runs_in(module, entered, "bfloat16"), *others, scales=runs.scales)
    own = runs.float16 != FALSE and runs.always
    where = "" if world is None or (runs.always and not own) else _chosen(module, world, entered)
    if world is None or where is None:
        return None
    what = f"this scaler scales losses of the bfloat16 region on {module.line(entered.region.call)}"
    if own:
        return _finding(module, call, "False", f"{what} {where}")
    text = _condition(module, call, entered.region)
    if runs.always:
        return _finding(module, call, text, what)
    return _finding(module, call, _as_before(module, call, text), f"{what} {where}")


def _is_for_cuda(module: Module, call: ir.Call) -> bool:
    """Whether a scaler is for cuda alone, and so disabled without it."""
    if "torch.cpu.amp.GradScaler" in module.names.of(call.func):
        return False
    device = scaler_arguments(module, call).get("device")
    return device is None or {each.type for each in devices(module, device)} == {"cuda"}


def _is_made_for_float16(module: Module, function: ir.Function | None, up: int) -> bool:
    """Whether all calls of the function that makes a scaler are under a test that speaks of float16."""
    sites = callers(module, function) if function is not None and up else []
    return bool(sites) and all(
        any(
            holds and _asks_for_float16(module.text(part))
            for test, whole in conditions_round(site)
            for part, holds in parts_that_hold(test, whole)
        )
        or _is_made_for_float16(module, ir.function_of(site), up - 1)
        for site in sites
    )


def _asks_for_float16(test: str) -> bool:
    """Whether a test has a name of float16, and none of bfloat16: `dtype in ("fp16", "float16")`."""
    return bool(_HALF.search(test)) and not _BFLOAT16.search(test)


def _inverted(module: Module, call: ir.Call, entered: list[Open]) -> Finding | None:
    """The finding of a scaler that is on just where a dtype from elsewhere is bfloat16; AMP210 has the others."""
    if any(can_be_float16(module, each.region) for each in entered):
        return None
    known = decided(module)
    on = known.of(scaler_arguments(module, call).get("enabled"))
    for each in entered:
        if each.region.dtype is None:
            continue
        chosen = known.is_dtype(each.region.dtype, "bfloat16")
        if not is_vague(chosen) and chosen.facts() & known.dtypes and contradict(on, negated(chosen)) and possible(on):
            return rule.finding(
                module.span(call),
                f"this scaler is enabled if `{module.on_one_line(each.region.dtype)}` is bfloat16, and disabled for "
                f"float16: small gradients of the region on {module.line(each.region.call)} become 0; enable the "
                "scaler for float16 instead",
                withheld="amplint can't tell whether the test or the dtype in it is wrong",
            )
    return None


def _chosen(module: Module, world: World, entered: Open) -> str | None:
    """By which options a region runs in bfloat16, in words; None where the code doesn't say, or the device decides."""
    known = decided(module)
    if entered.region.dtype is None:
        return None
    chosen = known.is_dtype(entered.region.dtype, "bfloat16")
    if chosen == TRUE and entered.when is not None:  # one region of several
        chosen = entered.when
    if is_vague(chosen) or chosen.facts() & known.dtypes:
        return None
    return said(module, world, chosen, turning(world, chosen) - ON_CUDA.facts()) or None


def _as_before(module: Module, call: ir.Call, text: str) -> str | None:
    """What `enabled` should be where it was right but for bfloat16: the condition as well."""
    given = call.keyword("enabled")
    if text == "False" or given is None:
        return None if text == "False" else text
    code = module.text(given)
    return f"{code if isinstance(given, _SIMPLE) else f'({code})'} and {text}"


def _bfloat16_parameters(module: Module) -> Cast | None:
    """The cast to bfloat16 of a model, where all that the file's optimizers own is cast so."""
    owned = {root for roots in objects(module).owns.values() for root in roots}
    last = {each.key: each for each in casts(module)}
    found = [each for key, each in last.items() if key in owned and each.dtype == "bfloat16"]
    return found[0] if owned and len(found) == len(owned) else None


def _on_with(module: Module, call: ir.Call, *bfloat16: Formula, scales: Formula | None = None) -> World | None:
    """A world in which the scaler is on while all is bfloat16; None where there is none in sight.

    What speaks of float16 doesn't hold in it: the path that it stands for may have no region here, unless all is
    bfloat16 whenever the scaler is on and its losses are scaled, as they are where `scales` holds. Neither does an
    option that asks for a scaler in bfloat16 by its name.
    """
    on = _on(module, call)
    facts = on.facts() if on is not None else ()
    named = {_named(term) for term in facts if _is_bfloat16s_name(term)}  # what has that name has not float16's
    off = [negated(fact(term)) for term in facts if _named(term) not in named and _speaks_of_float16(term)]
    if on is not None and scales is not None and contradict(both(on, scales, ON_CUDA), negated(both(*bfloat16))):
        off = []
    off += [negated(fact(term)) for term in facts if _asks_for_it(module, term)]
    if on is None or any(contradict(on, negated(each)) for each in off):
        return None
    return possible(on, *off, *bfloat16)


def _is_for_old_gpus(module: Module, call: ir.Call) -> bool:
    """Whether the scaler's switch asks for a dtype that is float16 only if CUDA is missing or lacks bfloat16.

    The scaler is disabled there, or the bfloat16 region raises (torch/amp/autocast_mode.py).
    """
    enabled = scaler_arguments(module, call).get("enabled")
    half = [
        leaf
        for each in (ir.walk_values(enabled) if enabled is not None else ())
        if isinstance(each, (ir.Name, ir.Attribute))
        for leaf in values_of(module, each).leaves
        if isinstance(leaf.value, ir.Constant) and _asks_for_float16(str(leaf.value.value))
    ]
    return bool(half) and all(any(_fails_with_support(module, test) for test in each.tests) for each in half)


def _fails_with_support(module: Module, test: Test) -> bool:
    """Whether a test comes out otherwise on a GPU that has bfloat16."""

    def part(value: ir.Value) -> bool | None:
        names = module.names.of(value.func) if isinstance(value, ir.Call) else frozenset()
        return True if names and names <= _OF_GPUS else None

    return isinstance(test.truth, bool) and truth_of(test.value, part) is (not test.truth)


def _on(module: Module, call: ir.Call) -> Formula | None:
    """That the scaler is made, and on; None where that can't be told."""
    known = decided(module)
    on = both(known.inside(call), known.of(scaler_arguments(module, call).get("enabled")))
    return None if is_vague(on) or call.unpacks("**") else on


def _asks_for_it(module: Module, term: Term) -> bool:
    """Whether a fact is an option for a scaler in bfloat16, by its name: `force_bf16_scaler`; or a switch of the scaler
    alone that isn't on by default: who sets it beside the dtype chooses both.
    """
    names, test = str(term), decided(module).tests.get(term)
    if "scal" not in names.lower():
        return False
    if _BFLOAT16.search(names) is not None:
        return True
    switch = term.is_path and "scaler" in last_name(term.name).lower()
    return switch and not (test is not None and holds_by_default(module, test))


def _speaks_of_float16(term: Term) -> bool:
    """Whether a fact is one about float16, by its names; what equals the name of bfloat16 is none."""
    text = terms.names_in(term) if term.compared is None else f"{terms.names_in(term)} {term.parts[1].name}"
    return not _is_bfloat16s_name(term) and _HALF.search(_BFLOAT16.sub("", text)) is not None


def _is_bfloat16s_name(term: Term) -> bool:
    """Whether a fact is that something equals the name of bfloat16."""
    return _named(term) is not None and _BFLOAT16.search(term.parts[1].name) is not None


def _named(term: Term) -> Term | None:
    """What a fact says to be equal to a literal, or to the member of an enumeration; None for another fact."""
    return term.parts[0] if term.op == "Equal" and (term.parts[1].is_literal or term.parts[1].is_path) else None


def _finding(module: Module, call: ir.Call, text: str | None, what: str) -> Finding:
    """The finding; `text` is what `enabled` should be, None where no variable tells the dtype there."""
    follows = _following(module, call)
    edit = set_enabled(module, call, text) if text is not None and follows is None else None
    withheld = (
        "the call unpacks its arguments, or passes too many by position; pass `enabled` by hand"
        if text is not None
        else "no variable holds the dtype at this line; pass `enabled` by hand"
    )
    advice = "disable the scaler" if text == "False" else "disable the scaler for bfloat16"
    if follows is not None:
        withheld = f"the region on {module.line(follows.call)} is enabled by the scaler, and would be disabled too"
        advice = f"pass the region on {module.line(follows.call)} its own `enabled`, and disable the scaler"
    return rule.finding(
        module.span(call),
        f"{what}: bfloat16 needs no scaler, and a scaler costs time and can skip steps; {advice}",
        fix=Fix(
            Applicability.UNSAFE,
            f"Pass `enabled={text}` (steps with infinite gradients are then no longer skipped)",
            (edit,),
        )
        if edit is not None
        else None,
        withheld=None if edit is not None else withheld,
    )


def _following(module: Module, call: ir.Call) -> Region | None:
    """A region that is on only where a scaler is: `enabled=scaler.is_enabled()`, there or in a variable."""
    for region in regions(module):
        found = [region.enabled] if region.enabled is not None else []
        found += [leaf.value for leaf in values_of(module, region.enabled).leaves] if region.enabled is not None else []
        asked = [
            base for each in found for part in ir.walk_values(each) if (base := objects(module).asked_if_enabled(part))
        ]
        if any(made is call for base in asked for made in constructions(module, base)):
            return region
    return None


def _condition(module: Module, call: ir.Call, region: Region) -> str:
    """What `enabled` should be: a test of the variable that the dtype is kept in, else False."""
    torch, value = module_name(module, "torch"), region.dtype
    kept = isinstance(value, ir.Attribute) and owner_class(value) is not None
    if isinstance(value, ir.Name):
        kept = all(isinstance(each, Assigned) for each in module.names.bindings(value))
    if torch is None or value is None or not kept or not readable_at(module, value, call):
        return "False"
    return f"{module.text(value)} == {torch}.float16"
