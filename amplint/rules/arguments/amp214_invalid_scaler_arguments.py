"""A GradScaler gets an invalid argument.

## What it does
Finds:

| mistake | what happens |
|---|---|
| a `growth_factor` of at most 1, a `backoff_factor` of at least 1 | AssertionError |
| a string or None instead of a number: `torch.cuda.amp.GradScaler("cuda")` | TypeError, often only in `scale()` |
| a `growth_interval` that is not an int | TypeError in `update()` |
| an int for `scaler.update(new_scale)` | AttributeError |
| a number in place of the device: `torch.amp.GradScaler(1024.0)` | nothing raises; the scale starts at 65536 |
| a bool in place of the device: `torch.amp.GradScaler(use_amp)` | nothing raises; False enables the scaler too |
| True as the initial scale: `GradScaler("cuda", True)` | nothing raises; the scale is 1: small gradients become 0 |
| 0 or False as the initial scale | nothing raises; the first step makes every parameter NaN |
| a value named after another argument: `growth_interval=args.init_scale` | the argument gets a wrong value |

The device is also checked for `ShardedGradScaler` of FSDP.

A finding is an error, except in two cases. It is a warning, and only `likely`:

- if a value is named after another argument;
- if only the name shows that a scale is in place of the device (`GradScaler(args.init_scale)`).

amplint reports nothing if the code doesn't show the value, or if the call has `enabled=False`.

## Why is this bad?
The mistakes that raise nothing are the worst: training runs, and its result is wrong. The other mistakes often raise
only in a run with AMP, or only after some steps.

## Example
```python
scaler = torch.amp.GradScaler(precision == "fp16")
```

## Use instead
```python
scaler = torch.amp.GradScaler("cuda", enabled=precision == "fp16")
```

## Fix safety
Safe: the fix

- swaps `growth_factor` and `backoff_factor`, if each has a value for the other;
- removes the quotes around a number;
- removes a device that is passed as the initial scale;
- converts a number to int or float;
- passes a bool as `enabled=`;
- inserts the device that the file's autocast regions use, if a number or a bool is in its place.

Unsafe: the inserted device is chosen when the program runs, or only a name shows that the value is a scale. There is no
fix for other findings.

## Proof
Before the fix the test programs raise, start with a wrong scale, get zero gradients or NaN parameters. After the fix
they train like the same program in float32.

## References
- [GradScaler](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler)
- Signatures: torch/amp/grad_scaler.py, torch/distributed/fsdp/sharded_grad_scaler.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Edit, Finding, Fix, Severity
from amplint.fixes.device_choice import choose
from amplint.fixes.edits import insert, written
from amplint.model.inference.python_types import is_bool, kinds, number, numbers_of, numbers_shown
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import arguments
from amplint.model.syntax.queries import is_false
from amplint.model.torch_facts.names import OLD_SCALER, SCALER, SCALERS, SHARDED_SCALER
from amplint.model.usage.device_evidence import ACCELERATORS
from amplint.model.usage.mentions_of import near_scalers
from amplint.registry.rule import Rule

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=("GradScaler",),
    shown_by=("exception",),
)

_FACTORS = ("growth_factor", "backoff_factor")
_SETTINGS = ("init_scale", "growth_factor", "backoff_factor", "growth_interval")
_NAMED = re.compile(rf"(?<![a-z])(?:{'|'.join(_SETTINGS)})(?![a-z])")
# What is left of a setting's meaning where it is given another one's value.
_EFFECTS = {
    "init_scale": "the value becomes the initial scale",
    "growth_factor": "the value becomes the factor by which the scale grows",
    "backoff_factor": "the value becomes the factor by which the scale falls after an overflow",
    "growth_interval": "the value becomes the number of steps before the scale grows",
    "enabled": "the scaler is enabled unless the value is 0",
}
_DEVICES = ACCELERATORS | {"cpu"}
_TEXTS = {"str": "a string", "None": "None"}
# An int below is the index of a device.
_INDICES = 16

_Arguments = dict[str, ir.Value]


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Constructions, then calls of `update`."""
    for call in module.calls_of(*SCALERS):
        name = module.names.only(call.func)
        yield from (each for each in (_made(module, call, name) if name in SCALERS else ()) if each is not None)
    for call in near_scalers(module).near("update").calls:
        found = _updated(module, call)
        if found is not None:
            yield found


def _made(module: Module, call: ir.Call, name: str) -> Iterator[Finding | None]:
    """The arguments of a construction that are wrong."""
    given = arguments(call, name)
    if is_false(given.get("enabled")):
        return
    device = given.get("device")
    if name in (SCALER, SHARDED_SCALER) and device is not None and call.keyword("device") is None:
        found = _in_place_of_the_device(module, call, device)
        yield found
        if found is not None and len(call.positional) > 1:
            return  # the others have slipped as well
    yield _factors(module, given)
    yield _initial(module, call, given)
    yield _interval(module, given)
    for key in _FACTORS:
        yield _no_number(module, given, key)
    for key in _EFFECTS:
        yield _named_after_another(module, given, key)


# --- names ----------------------------------------------------------------------------------------------------------


def _named_after_another(module: Module, given: _Arguments, key: str) -> Finding | None:
    """A setting that is given the value which by its name is meant for another one."""
    value = given.get(key)
    name = _name_of(module, value) if value is not None else None
    meant = set(_NAMED.findall(name.lower())) if name is not None else set()
    if value is None or len(meant) != 1 or key in meant:
        return None
    if key in _FACTORS and any(each is not None for each in numbers_of(module, value)):
        return None  # the number says whether it is wrong
    other = meant.pop()
    return rule.finding(
        module.span(value),
        f"`{key}={module.text(value)}` gets a value named after `{other}`: {_EFFECTS[key]}; "
        f"use `{other}={module.text(value)}`, or pass another value",
        withheld=f"amplint can't tell whether the name `{key}` or the value is wrong",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
    )


def _name_of(module: Module, value: ir.Value) -> str | None:
    """What a value is called: `args.name`, `cfg["name"]`, `cfg.get("name")`, `getattr(args, "name")`, `int(name)`."""
    if isinstance(value, (ir.Name, ir.Attribute)):
        return ir.last_name(value)
    text: ir.Value | None = value.index if isinstance(value, ir.Subscript) else None
    if isinstance(value, ir.Call) and value.positional:
        if module.names.of(value.func) & {"builtins.int", "builtins.float"}:
            return _name_of(module, value.positional[0])
        if isinstance(value.func, ir.Attribute) and value.func.attr == "get":
            text = value.positional[0]
        elif "builtins.getattr" in module.names.of(value.func) and len(value.positional) > 1:
            text = value.positional[1]
    return text.value if isinstance(text, ir.Constant) and isinstance(text.value, str) else None


# --- the device -----------------------------------------------------------------------------------------------------


def _in_place_of_the_device(module: Module, call: ir.Call, value: ir.Value) -> Finding | None:
    scales = numbers_shown(module, value)
    by_number = bool(scales) and all(
        each is not None and (isinstance(each, float) or each >= _INDICES) for each in scales
    )
    if is_bool(module, value):
        meant, effect = "enabled", "the scaler is enabled whatever the flag's value"
    elif by_number or (_name_of(module, value) or "").lower() == "init_scale":
        meant, effect = "init_scale", "the scale starts at 65536"
    else:
        return None
    text, called = module.text(value), ir.last_name(call.func)
    message = f"`{text}` becomes the device, the first argument of `{called}`"
    fix, withheld = _with_device(module, call, value, meant)
    sure = by_number or meant == "enabled"
    if fix is not None and not sure:
        fix = fix._replace(applicability=Applicability.UNSAFE)
    return rule.finding(
        module.span(value),
        f"{message}: {effect}; pass the device, and `{meant}={text}`",
        fix=fix,
        withheld=withheld,
        confidence=None if sure else Confidence.LIKELY,
    )


def _with_device(module: Module, call: ir.Call, value: ir.Value, meant: str) -> tuple[Fix | None, str | None]:
    device = choose(module, call)
    if device is None:
        return None, "the file doesn't show which device the model trains on"
    alone = len(call.positional) == 1 and not call.unpacks("*")
    if call.keyword(meant) is not None or (meant == "enabled" and not alone):
        return None, "amplint can't tell what the other arguments are for"
    name = f"{meant}=" if alone else ""
    edit = insert(module.layout.outer(value)[0], f"{device.text}, {name}")
    return Fix(
        device.applicability,
        f"Replace with `{ir.last_name(call.func)}({device.text}, {name}{module.text(value)})`",
        (edit,),
    ), None


# --- numbers --------------------------------------------------------------------------------------------------------


def _factors(module: Module, given: _Arguments) -> Finding | None:
    growths, backoffs = (numbers_of(module, given.get(key)) for key in _FACTORS)
    bad_growth = any(each is not None and each <= 1 for each in growths)
    bad_backoff = any(each is not None and each >= 1 for each in backoffs)
    if not bad_growth and not bad_backoff:
        return None
    if bad_growth:
        key, bound, numbers = "growth_factor", "greater than 1", growths
        advice = "to keep the scale from growing, pass a very large `growth_interval`"
    else:
        key, bound, numbers = "backoff_factor", "less than 1", backoffs
        advice = "pass a factor such as 0.5"
    fix = None
    if bad_growth and bad_backoff and 1 not in (*growths, *backoffs) and len(growths) == len(backoffs) == 1:
        fix = _exchanged(module, given["growth_factor"], given["backoff_factor"])
        advice = "swap `growth_factor` and `backoff_factor`"
    value = given[key]
    can = "" if len(numbers) == 1 else "can be a value that "
    message = f"`{key}={module.text(value)}` {can}raises AssertionError: the value has to be {bound}; {advice}"
    return rule.finding(module.span(value), message, fix=fix)


def _exchanged(module: Module, growth: ir.Value, backoff: ir.Value) -> Fix:
    edits = (
        Edit(*module.layout.outer(growth), written(module, backoff)),
        Edit(*module.layout.outer(backoff), written(module, growth)),
    )
    return Fix(Applicability.SAFE, "Swap `growth_factor` and `backoff_factor`", edits)


def _initial(module: Module, call: ir.Call, given: _Arguments) -> Finding | None:
    value = given.get("init_scale")
    if value is None:
        return None
    if is_bool(module, value):
        text = module.text(value)
        said = "1 if the flag is true, else 0, which makes every parameter NaN"
        if isinstance(value, ir.Constant):
            said = "the scale starts at 1" if value.value else "a scale of 0 makes every parameter NaN"
        fix = _as_enabled(module, call, value) if "enabled" not in given else None
        message = f"`{text}` becomes the initial scale: {said}; pass `enabled={text}`"
        return rule.finding(module.span(value), message, fix=fix)
    if 0 in numbers_of(module, value):
        message = "with an initial scale of 0, every gradient is 0 / 0: the first step makes every parameter NaN"
        return rule.finding(module.span(value), f"{message}; to train without scaling, pass `enabled=False`")
    if isinstance(value, ir.Constant) and str(value.value).partition(":")[0] in _DEVICES:
        return _device_as_scale(module, call, value)
    return _no_number(module, given, "init_scale")


def _device_as_scale(module: Module, call: ir.Call, value: ir.Constant) -> Finding:
    """A device in place of the initial scale: the old classes take none, the new one takes it first."""
    text, called = module.text(value), ir.last_name(call.func)
    old = set(module.names.of(call.func)) & OLD_SCALER.keys()
    why = f"the old `{called}` takes no device" if old else "only the first argument is the device"
    args = [each.value for each in call.args]
    at = args.index(value)
    start, end = module.layout.span(call.args[at])
    if at + 1 < len(args):
        end = module.layout.span(call.args[at + 1])[0]
    elif at:
        start = module.layout.span(call.args[at - 1])[1]
    return rule.finding(
        module.span(value),
        f"`{text}` becomes the initial scale ({why}): `scale()` raises TypeError; remove `{text}`",
        fix=Fix(Applicability.SAFE, f"Remove `{text}`", (Edit(start, end, ""),)) if not call.unpacks("*") else None,
    )


def _as_enabled(module: Module, call: ir.Call, value: ir.Value) -> Fix | None:
    edit: Edit | None = None
    arg = next((each for each in call.args if each.value is value), None)
    if arg is not None and arg.keyword is not None:
        edit = Edit(*module.layout.keyword(arg), "enabled")
    elif call.positional[-1] is value and not call.unpacks("*"):
        edit = insert(module.layout.outer(value)[0], "enabled=")
    return Fix(Applicability.SAFE, "Pass the flag as `enabled`", (edit,)) if edit is not None else None


def _interval(module: Module, given: _Arguments) -> Finding | None:
    value = given.get("growth_interval")
    if value is None:
        return None
    if kinds(module, value) != {"float"}:
        return _no_number(module, given, "growth_interval")
    every, right = number(module, value), f"int({module.text(value)})"
    if isinstance(value, ir.Constant) and every is not None and float(every).is_integer():
        right = str(int(every))
    fix = Fix(Applicability.SAFE, f"Replace with `{right}`", (Edit(*module.layout.outer(value), right),))
    message = f"`growth_interval={module.text(value)}` passes a float: `update()` raises TypeError; pass `{right}`"
    return rule.finding(module.span(value), message, fix=fix)


def _no_number(module: Module, given: _Arguments, key: str) -> Finding | None:
    """An argument that is text or None."""
    value = given.get(key)
    held = kinds(module, value) if value is not None else frozenset()
    wrong = held & _TEXTS.keys()
    # A default of None stands for "not given", and is mostly replaced.
    if value is None or not wrong or (wrong == {"None"} and held != wrong):
        return None
    text = module.text(value)
    content = value.value if isinstance(value, ir.Constant) else None
    plain = _plain_number(content, key) if isinstance(content, str) else None
    fix = (
        Fix(Applicability.SAFE, f"Replace with `{plain}`", (Edit(*module.layout.outer(value), plain),))
        if plain
        else None
    )
    what = " or ".join(_TEXTS[each] for each in sorted(wrong))
    advice = f"pass `{plain}`" if plain else "remove the argument to use its default" if "None" in wrong else ""
    if content == "dynamic":
        advice = "remove the argument, as the scaler is dynamic by default"
    where = {"init_scale": "`scale()`", "growth_interval": "`update()`"}.get(key, "the constructor")
    verb = "passes" if held == wrong else "can pass"
    message = f"`{key}={text}` {verb} {what}: {where} raises TypeError; {advice or 'pass a number'}"
    return rule.finding(module.span(value), message, fix=fix)


def _plain_number(content: str, key: str) -> str | None:
    """The number that a string holds, as it has to be written."""
    try:
        value = float(content)
    except ValueError:
        return None
    if key == "growth_interval":
        return str(int(value)) if value.is_integer() else None
    text = content.strip()
    return text if value > 0 and text.isascii() and text.replace(".", "", 1).isdecimal() else None


# --- update ---------------------------------------------------------------------------------------------------------


def _updated(module: Module, call: ir.Call) -> Finding | None:
    """`scaler.update(4)`, where this file makes the scaler."""
    func = call.func
    if not isinstance(func, ir.Attribute) or func.attr != "update" or len(call.args) != 1 or call.args[0].star:
        return None
    value, known = call.args[0].value, objects(module)
    key = known.is_scaler(func.base)
    made = known.made_by(key) if key is not None else []
    if not made or any(is_false(each.enabled) for each in made) or kinds(module, value) != {"int"}:
        return None
    text = module.text(value)
    right = f"{text}.0" if isinstance(value, ir.Constant) and text.isdecimal() else f"float({text})"
    message = f"`update({text})` raises AttributeError: `update` treats an int as a tensor; pass `{right}`"
    edit = Edit(*module.layout.outer(value), right)
    return rule.finding(module.span(value), message, fix=Fix(Applicability.SAFE, f"Replace with `{right}`", (edit,)))
