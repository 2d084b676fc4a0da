"""autocast runs in float16 while the scaler is disabled.

## What it does
Finds a float16 autocast region that can be enabled while the scaler of its loss is disabled or missing, such as:

- region and scaler with different flags as `enabled`, or only one of them with a flag;
- a scaler that is enabled for the wrong dtype (`enabled=dtype == "bfloat16"`);
- a scaler that is enabled only on cuda, with a region that is float16 on mps or xpu too;
- a branch that calls `loss.backward()` without the scaler;
- a scaler of the project's own class, whose `scale` returns the loss unchanged.

A finding is an error, except in these cases:

| the code | the finding |
|---|---|
| trains nothing real (all data is random, and nothing is saved) | is a warning |
| gets the scaler through another file, which passes it to the function that trains | is a `likely` warning |
| enables the scaler by the device only | is a `likely` warning |
| steps the optimizer in a way that amplint can't see | is a `likely` warning |
| has the scaler as a parameter that is None by default, and no visible call passes one | is a *suspicion* (a note) |
| has the scaler as an attribute of a parameter | is a *suspicion* (a note) |
| enables region and scaler by conditions that may always have the same value | is a *suspicion* (a note) |
| enables region and scaler differently only for a precision that it never names ("tf32") | is a *suspicion* (a note) |

amplint reports nothing:

- about an enabled scaler with a float32 region, which is harmless;
- if region and scaler have two flags that other code may set together. Two options of one command line are reported;
- if the settings are declared as a `Literal` or with `choices`, and agree for all declared values;
- about a region that contains only sums, norms and other arithmetic;
- about regions for cuda in runs without a GPU (`args.use_cuda` is false).

## Why is this bad?
float16 has no numbers below 6e-8. Without scaling, small gradients become zero, and nothing raises or warns. In a test
with a loss of about 1e-4, 3.7 % of the gradients became zero, and updates were off by 10 %; with a loss of about 1e-5,
80 % became zero.

## Example
```python
scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
with torch.autocast("cuda"):
    loss = criterion(model(batch), target)
scaler.scale(loss).backward()
```

## Use instead
```python
scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
with torch.autocast("cuda", enabled=args.amp):
    loss = criterion(model(batch), target)
scaler.scale(loss).backward()
```

## Fix safety
The fix passes the scaler's `enabled` to the region. If the scaler is always disabled, the fix passes the region's
`enabled` to the scaler. Unsafe: if the flag is false, the region is disabled after the fix, and training runs in
float32, slower and with more memory.

There is no fix if:

- the flag is not available at the other call, or the scaler's flag depends on the dtype;
- the scaler is created, or the loss is scaled, under a condition that the region doesn't have;
- the region may run inside another region, of a caller, a decorator, or a framework (as Lightning with
  `precision="16-mixed"`): a disabled region would disable the outer region too.

## Proof
Before the fix the test programs lose gradients: the gradients differ from the float32 reference by more than float16's
rounding. After the fix they agree with the reference.

## References
- [torch.amp](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
- [The recipe](https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html): both take `enabled`
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.model.calls.call_sites import passed, passed_by
from amplint.model.calls.external_calls import bases_in_sight
from amplint.model.inference.devices import device_of
from amplint.model.inference.formulas import (
    FALSE,
    TRUE,
    Formula,
    World,
    both,
    choice,
    fact,
    likely,
    negated,
    possible,
    worlds,
)
from amplint.model.inference.value_sets import ON_CUDA, decided, is_vague, without_idle_facts
from amplint.model.inference.values import parameter_read
from amplint.model.objects.amp_objects import objects, scaler_arguments
from amplint.model.objects.autocast_objects import Region
from amplint.model.objects.event import Event
from amplint.model.objects.terms import Op, Term, path, present
from amplint.model.regions.openers import Open, may_be_region
from amplint.model.regions.regions_at import enabled_at
from amplint.model.regions.training_regions import Trained, runs_in, trained
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import upwards
from amplint.registry.rule import Rule
from amplint.rules.shared.device_flags import where_a_gpu_is_used
from amplint.rules.shared.enabled_flags import (
    about_amp,
    are_options,
    can_be_float16,
    constructions,
    handed_on,
    independent,
    only_reaching,
    plain_steps,
    said,
    set_enabled,
    settings_of_amp,
    settings_of_run,
    spelled,
    turning,
)
from amplint.rules.shared.fallback_calls import is_after_the_right_call
from amplint.rules.shared.loss_regions import is_arithmetic
from amplint.rules.shared.rehearsal import is_rehearsal
from amplint.rules.shared.scaler_order import receiver

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.UNSAFE,),
    triggers=("autocast & backward & cale",),
    not_shown="it depends on how small your gradients are",
)

_HALF_NAMES = {"float16", "fp16", "half", "bfloat16", "bf16", "torch.float16", "torch.bfloat16"}
_HALF_TYPES = {"torch.float16", "torch.half", "torch.bfloat16"}

# What Lightning and transformers call of a class, in a region of theirs; it need not name them, as a part of others.
_HOOKS = {"training_step", "validation_step", "test_step", "predict_step", "compute_loss"}
_KNOWN = ("torch.", "builtins.", "functools.", "abc.", "typing.", "contextlib.")

# What settings call full precision, and float16.
_FULL = re.compile(r"(torch\.)?(fp|float|f)?32(-true)?|full|none|no|off|false|single")
_FLOAT16 = re.compile(r"(?<!b)(?<!bf)(?<!bfloat)16|half")

_BOTH = "enable autocast and the scaler on the same condition"
_NO_DTYPE = "amplint can't write that dtype at the region; pass `dtype=` by hand"
_OTHER_DTYPE = "the scaler depends on the dtype; correct its `enabled` by hand"
# What to do where there is no fix because the scaler depends on the dtype.
_OF_DTYPE = {
    _NO_DTYPE: "pass `dtype=` to the region: the same dtype that the scaler's `enabled=` compares with float16",
    _OTHER_DTYPE: "enable the scaler whenever the region is float16",
}


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each region that can be on without the scaler of its loss; one finding for a region."""
    told: set[int] = set()
    for each in trained(module):
        for entered in each.entered if not each.unseen else ():
            if entered.region.call.id in told or is_after_the_right_call(module, entered.region.call):
                continue
            if is_arithmetic(module, entered.at):
                continue
            finding = _scaled(module, each, entered) if each.event.kind == "scale" else _plain(module, each, entered)
            if finding is not None:
                told.add(entered.region.call.id)
                yield finding


def _when(what: str) -> str:
    """How a message begins: under which condition, as far as that can be said."""
    return f"{what}, autocast runs" if what else "autocast can run"


def _scaled(module: Module, found: Trained, entered: Open) -> Finding | None:
    """A region round a loss that is scaled by a scaler which can be off."""
    scaler, known = receiver(found.event), decided(module)
    made, on, handed = _made(module, scaler)
    if not made or not can_be_float16(module, entered.region):
        return None
    runs = runs_in(module, entered, "float16")
    region = without_idle_facts(both(runs, known.around(found.event.call)), negated(on))
    if not _can_be_told(module, on, region, handed=handed):
        return None
    connected = on != FALSE and about_amp(module, region, on) and not independent(module, region, on)
    if connected and (not _is_of_device(on) or about_amp(module, _without_choices(region), on)):
        return None
    world = likely(where_a_gpu_is_used(module, entered.region, both(region, negated(on))))
    if world is None:
        return None
    offered, withheld = _fix(module, entered.region, made)
    to_do = _OF_DTYPE.get(withheld or "", _BOTH)
    together = _may_go_together(module, entered, runs, on)
    device = device_of(module, entered.region)
    deciding = on if on != FALSE else region  # of a scaler that is always off there is nothing to ask
    asked = settings_of_run(module, on.facts() if on != FALSE else turning(world, region) - ON_CUDA.facts())
    what, line = said(module, world, deciding, asked, device), module.line(made[0])
    off = f"disabled: small gradients become 0; {to_do}"
    if likely(region, negated(on), known.present(scaler)) is None:
        off = f"None: {module.line(found.event.call)} raises AttributeError; always create the scaler, with `enabled=`"
    return rule.finding(
        module.span(entered.region.call),
        f"{_when(what)} in float16 while the scaler on {line} is {off}",
        fix=offered,
        withheld=withheld,
        severity=Severity.NOTE if together else _severity(module, found),
        confidence=Confidence.SUSPICION if together else Confidence.LIKELY if connected or handed else None,
    )


def _made(module: Module, scaler: ir.Value) -> tuple[list[ir.Call], Formula, bool]:
    """The calls that may have made a scaler, when it is on, and whether it is only likely that: another file hands it
    on.
    """
    known, made = decided(module), constructions(module, scaler)
    handed = handed_on(module, scaler) if not made else None
    if handed is None:
        return made, known.scaler_on(scaler), False
    return [handed], both(known.inside(handed), known.of(scaler_arguments(module, handed).get("enabled"))), True


def _can_be_told(module: Module, on: Formula, region: Formula, *, handed: bool) -> bool:
    """Whether it is known when a scaler and a region are on, and the scaler isn't always.

    Where another file hands the scaler on, the one function's settings may have other names than the other's.
    """
    if is_vague(on) or is_vague(region) or on == TRUE:
        return False
    return not handed or not about_amp(module, region, TRUE)


def _may_go_together(module: Module, entered: Open, region: Formula, other: Formula) -> bool:
    """Whether a region is on by a flag, and nothing shows that what else decides can come out otherwise: it hangs on
    another flag, which may be the same, or, beside that flag, on what isn't about AMP, such as whether there is a loss.

    A region that is always on, or by the device, the scaler or a dtype alone, is in plain sight.
    """
    flags = {term for term in region.facts() - only_reaching(module, entered) if term.is_path}
    more, shared = other.facts() - region.facts(), other.subjects()
    if not flags or not more or are_options(module, {*flags, *more}):
        return False
    if any(term.subject not in shared for term in flags):
        return True
    return not about_amp(module, other, region) and not any(term.op == Op.ON for term in more)


def _is_of_device(on: Formula) -> bool:
    """Whether a scaler is switched by the device that the code runs on, and nothing else."""
    return all(term.op == Op.ON for term in on.facts())


def _without_choices(region: Formula) -> Formula:
    """The facts that a region hangs on but that settings have one value or the other: a flag may mean the device."""
    return both(*(fact(term) for term in region.facts() if term.compared is None))


def _plain(module: Module, found: Trained, entered: Open) -> Finding | None:
    """A region round a loss whose backward is plain in the arm in which there is no scaler."""
    known = decided(module)
    if found.scaled or not can_be_float16(module, entered.region):
        return None
    arm = known.inside(found.event.call)
    others = [each for each in trained(module) if _is_other_arm(module, each, found, arm)]
    world = _wrong_world(module, found, entered, arm) if others else None
    if world is None:
        return None
    given = _given_none(module, others, world)
    runs = runs_in(module, entered, "float16")
    region = both(runs, arm)
    if given and all(_has_scaler(module, each, region) for each in given):
        return None
    unseen = (
        (bool(given) and all(_comes_from_elsewhere(module, each) for each in given))
        or _is_unnamed(world)
        or _may_go_together(module, entered, runs, arm)
    )
    about = turning(world, runs, *(known.inside(each.event.call) for each in others))
    compared = {each.compared for each in arm.facts()} - {None}
    same = (fact(each) for each in runs.facts() if each.compared in compared)  # what else one setting is compared with
    what = said(module, world, both(arm, *same), settings_of_amp(module, about), device_of(module, entered.region))
    return rule.finding(
        module.span(entered.region.call),
        f"{_when(what)} in float16 while the backward pass on "
        f"{module.line(found.event.call)} is not scaled: small gradients become 0; {_BOTH}",
        withheld="amplint can't tell whether to scale the loss or to disable autocast",
        severity=Severity.NOTE if unseen else _severity(module, found),
        confidence=Confidence.SUSPICION if unseen else _confidence(module, found, runs, arm),
    )


def _wrong_world(module: Module, found: Trained, entered: Open, arm: Formula) -> World | None:
    """A world in which a region is on, in float16, round a loss whose backward is plain; None: none is in sight."""
    known, runs = decided(module), runs_in(module, entered, "float16")
    region = where_a_gpu_is_used(module, entered.region, both(runs, known.around(found.event.call)))
    if is_vague(region) or (about_amp(module, runs, arm) and not independent(module, runs, arm)):
        return None
    if not _steps_after(module, found, arm):
        return None
    named = (each for each in worlds(region) if not _is_unnamed(each))
    return next(named, None) or possible(region)


def _is_unnamed(world: World) -> bool:
    """Whether a setting is none of the precisions that the code names in a world, full and float16: as is unlikely."""
    subjects = {term.compared for term in world} - {None}
    named = ([term for term in world if term.compared == each] for each in subjects)
    return any(not any(world[term] for term in each) and _names_both(each) for each in named)


def _names_both(terms: list[Term]) -> bool:
    """Whether something is compared with a name of full precision, and with one of float16."""
    names = [term.parts[1].name.strip("\"'").lower() for term in terms]
    return any(_FULL.fullmatch(each) for each in names) and any(_FLOAT16.search(each) for each in names)


def _steps_after(module: Module, found: Trained, arm: Formula) -> list[Event]:
    """The plain steps after a backward that can be taken in its arm."""
    known = decided(module)
    steps = plain_steps(module, found.event.call)
    return [each for each in steps if possible(arm, known.inside(each.call)) is not None]


def _confidence(module: Module, found: Trained, runs: Formula, arm: Formula) -> Confidence | None:
    """How sure it is that a plain arm trains in float16: likely where the step, or what the flags mean, is a guess."""
    guessed = all(each.how == "unseen" for each in _steps_after(module, found, arm))
    return Confidence.LIKELY if guessed or about_amp(module, runs, arm) else None


def _given_none(module: Module, losses: list[Trained], world: World) -> list[ir.Value]:
    """The scalers of some losses that are parameters, and None in a world."""
    return [each for each in (receiver(loss.event) for loss in losses) if _is_given_none(module, each, world)]


def _is_given_none(module: Module, scaler: ir.Value, world: World) -> bool:
    """Whether a scaler is a parameter, or an attribute of one that nothing in sight sets, and what is wrong in a world
    is that it is None.
    """
    key = decided(module).path(scaler)
    is_param = parameter_read(module, scaler) is not None or _is_of_parameter(module, scaler)
    return is_param and key is not None and world.get(present(path(key))) is False


def _is_of_parameter(module: Module, scaler: ir.Value) -> bool:
    """Whether a scaler is an attribute of a parameter (`trainer.scaler`), and nothing in sight creates it."""
    if not isinstance(scaler, ir.Attribute) or not isinstance(scaler.base, ir.Name) or scaler.base.name == "self":
        return False
    return parameter_read(module, scaler.base) is not None and not constructions(module, scaler)


def _comes_from_elsewhere(module: Module, scaler: ir.Value) -> bool:
    """Whether nothing in sight says what a parameter is: no call gives it, or they give attributes of parameters."""
    function = ir.function_of(scaler)
    if function is None or not isinstance(scaler, ir.Name):
        return True
    given = passed(module, function, scaler.name)
    return all(each is not None and _is_of_parameter(module, each) for each in given)


def _has_scaler(module: Module, scaler: ir.Value, region: Formula) -> bool:
    """Whether each call in sight that comes to a loss of a region gives a scaler there."""
    known, function = decided(module), ir.function_of(scaler)
    if function is None or not isinstance(scaler, ir.Name):
        return False
    given = passed_by(module, function, scaler.name)
    return bool(given) and not any(
        value is None
        or possible(region, negated(known.present(value)), _as_called(module, scaler, call, region)) is not None
        for call, value in given
    )


def _as_called(module: Module, scaler: ir.Name, call: ir.Call, region: Formula) -> Formula:
    """What a call of the function that has a parameter `scaler` says of its parameters that a region hangs on."""
    known, function, facts = decided(module), ir.function_of(scaler), region.facts()
    assert function is not None  # it is one of its parameters
    parts = []
    for param in function.params:
        value = dict(passed_by(module, function, param.name)).get(call)
        subject = path(objects(module).raw_variable(scaler.scope, param.name))
        if value is not None and present(subject) in facts:
            parts.append(_alike(fact(present(subject)), known.present(value)))
        if value is not None and subject in facts:
            parts.append(_alike(fact(subject), known.of(value)))
    return both(*parts)


def _alike(one: Formula, other: Formula) -> Formula:
    """That two formulas come out alike."""
    return choice(one, other, negated(other))


def _severity(module: Module, found: Trained) -> Severity | None:
    """A warning where nothing is trained."""
    return Severity.WARNING if is_rehearsal(module, found.event.call) else None


def _is_other_arm(module: Module, other: Trained, found: Trained, arm: Formula) -> bool:
    """Whether a scale stands in the same function, where the plain backward doesn't run."""
    call = other.event.call
    return (
        other.event.kind == "scale"
        and ir.function_of(call) is ir.function_of(found.event.call)
        and possible(arm, decided(module).inside(call)) is None
    )


def _fix(module: Module, region: Region, made: list[ir.Call]) -> tuple[Fix | None, str | None]:
    """The scaler's flag for the region; the region's, for a scaler that is always off."""
    switch = scaler_arguments(module, made[0]).get("enabled")
    if len(made) > 1:
        return None, (
            "several lines create the scaler, each under a condition; enable the region under the same conditions"
        )
    if switch is None:
        return None, "the scaler is created under a condition; enable the region under the same condition"
    if region.enabled is None and not isinstance(switch, ir.Constant):
        source, call = switch, region.call
    elif region.enabled is not None and decided(module).of(switch) == FALSE:
        source, call = region.enabled, made[0]
    else:
        if region.enabled is None:
            return None, "amplint can't tell whether to enable the scaler or to disable autocast"
        return None, "amplint can't tell whether to use the condition of autocast or that of the scaler"
    if call is region.call and _asks_for_dtype(module, source):
        return None, _NO_DTYPE if region.dtype is None else _OTHER_DTYPE
    if call is region.call and (outer := _may_be_inside(module, region)) is not None:
        return None, f"a disabled region would also disable {outer}; put the region under an `if` instead"
    text = spelled(module, source, call)
    if text is None:
        value = module.on_one_line(source)
        return None, f"amplint can't tell whether the other call can use `{value}`; pass a condition by hand"
    edit = set_enabled(module, call, text)
    if edit is None:
        return None, "the call unpacks its arguments, or passes too many by position; pass `enabled` by hand"
    what = "the region" if call is region.call else "the scaler"
    return Fix(Applicability.UNSAFE, f"Pass `enabled={text}` to {what}", (edit,)), None


def _may_be_inside(module: Module, region: Region) -> str | None:
    """The region that another one may run in, in words; None where nothing in sight says that there is one."""
    outer = next(iter(enabled_at(module, region.call)), None)
    if outer is not None:
        return f"the region on {module.line(outer.region.call)}"
    function = ir.function_of(region.call)
    contexts = (item.context for each in upwards(ir.statement_of(region.call)) for item in _items(each.parent))
    unseen = next((each for each in contexts if may_be_region(module, each)), None)
    if unseen is not None:
        return f"a region that `{module.on_one_line(unseen)}` may open"
    if function is None:
        return None
    by = next((each for each in function.decorators if not _is_plain(module, each)), None)
    if by is not None:
        return f"a region that its decorator `{module.on_one_line(by)}` may open"
    hooked = function.name in _HOOKS or (function.cls is not None and not bases_in_sight(module, function.cls))
    return "a region that a framework opens around this method (`precision=`)" if hooked else None


def _items(node: ir.Node | None) -> list[ir.Item]:
    return list(node.items) if isinstance(node, ir.With) else []


def _is_plain(module: Module, decorator: ir.Value) -> bool:
    """Whether a decorator is torch's or Python's own: what it opens is known."""
    called = decorator.func if isinstance(decorator, ir.Call) else decorator
    return all(name.startswith(_KNOWN) for name in module.names.of(called))


def _asks_for_dtype(module: Module, switch: ir.Value) -> bool:
    """Whether a flag compares a dtype, or its name: where that is bfloat16 the scaler is off, and the region should be
    on; and a flag that is the wrong way around says nothing about the region.
    """
    sources = [switch, *(each.value for each in decided(module).alternatives(switch))]
    compared = (each for value in sources for each in ir.walk_values(value) if isinstance(each, ir.Compare))
    return any(_is_half_type(module, part) for each in compared for part in each.children())


def _is_half_type(module: Module, value: ir.Value) -> bool:
    named = isinstance(value, ir.Constant) and isinstance(value.value, str) and value.value.lower() in _HALF_NAMES
    return named or bool(module.names.of(value) & _HALF_TYPES)
