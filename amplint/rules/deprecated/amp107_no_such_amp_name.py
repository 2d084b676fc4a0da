"""A name or an argument of AMP does not exist in torch.

## What it does
Finds:

- names that no release of torch has (`torch.cuda.autocast`, `torch.cuda.GradScaler`, ...);
- names that are too new for the project's requirements, such as `torch.amp.GradScaler`, which needs torch 2.3, with
  `torch==2.0.1` (a warning, and only `likely`, as another release may be installed);
- keyword arguments that the function does not take (`GradScaler(device_type=...)`, `autocast(device=...)`);
- `torch.amp.custom_fwd` and `custom_bwd` without `device_type`;
- methods that a scaler does not have (`scaler.clip_grad_norm_(...)`, `scaler.backward(loss)`);
- `autocast` or `GradScaler` in a file that neither imports nor defines the name. Files with a star import, `exec`,
  `globals()` or `setattr` are not checked for this.

amplint reports nothing about a name of `torch` under an `if` that checks the release of torch or calls `hasattr`, or in
a `try` that catches ImportError or AttributeError.

## Why is this bad?
The code raises ImportError, AttributeError, TypeError or NameError. If only a run with AMP reaches the line, a test
without AMP doesn't show the error.

## Example
```python
scaler = torch.amp.GradScaler(device_type="cuda")
with torch.autocast(device="cuda"):
    loss = criterion(model(batch), target)
```

## Use instead
```python
scaler = torch.amp.GradScaler(device="cuda")
with torch.autocast(device_type="cuda"):
    loss = criterion(model(batch), target)
```

## Fix safety
Safe:

- a keyword is renamed to the right keyword;
- a name is replaced by the right name in `torch.amp`, with the device that the wrong name contains
  (`torch.cuda.autocast`);
- `device_type` is added to `custom_fwd` and `custom_bwd`, if the file uses only one device;
- a missing import is added, if the call has the arguments of the class in `torch.amp`.

Unsafe: `device_type` is added although the file shows no device, or shows that the device is chosen when the program
runs.

AMP107 has no fix for other findings. If `torch.cuda.amp.autocast` gets `device_type`, which only the class in
`torch.amp` has, the fix of AMP101 replaces the class and keeps the argument. The fix of AMP102 does the same for
`device` of `torch.cuda.amp.GradScaler`.

## Proof
The test programs raise before the fix, and run after it.

## References
- [torch.amp](https://docs.pytorch.org/docs/stable/amp.html)
- Signatures: torch/amp/autocast_mode.py, torch/amp/grad_scaler.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Edit, Finding, Fix, Severity
from amplint.fixes.device_choice import Choice, choose
from amplint.fixes.edits import add_last_argument, insert, line_end
from amplint.fixes.inherited_arguments import module_name
from amplint.fixes.rename import CODES, renames
from amplint.fixes.rename_use import rewrite_use
from amplint.model.names.version_guards import guarded, may_be_missing
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.key_parts import last_name
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.queries import IMPORTS
from amplint.model.syntax.scopes import UNBOUND
from amplint.model.torch_facts.deprecated_names import LEGACY
from amplint.model.torch_facts.names import AUTOCAST, OLD_AUTOCAST, OLD_SCALER, SCALER, SCALER_METHODS
from amplint.model.torch_facts.signatures import SIGNATURES
from amplint.registry.rule import Rule
from amplint.rules.shared.enabled_flags import constructions

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.syntax.positions import Span

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=("autocast", "GradScaler", "custom_fwd", "custom_bwd"),
    shown_by=("exception",),
    simulated=True,
)

_NEW = {f"torch.amp.{each.name}": each.since for each in LEGACY.values() if each.module == "torch.amp"}
# No release has these; the right name has to be one of torch.amp.
_MISSING = {f"torch.{device}.{new.rpartition('.')[2]}": new for device in ("cuda", "cpu", "mps") for new in _NEW} | {
    f"torch.{name}": f"torch.amp.{name}" for name in ("custom_fwd", "custom_bwd")
}
_CLASSES = (AUTOCAST, SCALER, *OLD_AUTOCAST, *OLD_SCALER)
# What is meant by methods that no scaler has.
_INSTEAD = {
    "clip_grad_norm_": "torch.nn.utils.clip_grad_norm_` after `{}.unscale_(optimizer)",
    "clip_grad_value_": "torch.nn.utils.clip_grad_value_` after `{}.unscale_(optimizer)",
    "clip_grad_norm": "torch.nn.utils.clip_grad_norm_` after `{}.unscale_(optimizer)",
    "unscale": "{}.unscale_(optimizer)",
    "unscale_gradients": "{}.unscale_(optimizer)",
    "backward": "{}.scale(loss).backward()",
    "scale_loss": "{}.scale(loss)",
    "update_scale": "{}.update()",
}
_MEANT = {
    "device": "device_type",
    "device_type": "device",
    "enable": "enabled",
    "cache": "cache_enabled",
    "amp_dtype": "dtype",
}


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Names first, then arguments."""
    yield from _missing_names(module)
    yield from _newer_names(module)
    yield from _unbound_names(module)
    for call in filter(module.is_own, module.calls_of(*_CLASSES)):
        name = module.names.only(call.func)
        if name is not None and name in _CLASSES:
            yield from _unknown_arguments(module, call, name)
    yield from _missing_methods(module)
    yield from _custom_without_device(module)


def _missing_names(module: Module) -> Iterator[Finding]:
    for statement in module.own.near("autocast", "GradScaler", "custom_fwd", "custom_bwd").statements:
        if isinstance(statement, ir.Import) and statement.module is not None:
            for alias in statement.aliases:
                full = f"{statement.module}.{alias.name}"
                if full in _MISSING and not _optional(module, statement, full):
                    home = _instead(module, full).rpartition(".")[0]
                    call = _with_device(f"{home}.{alias.name}", full).removeprefix(f"{home}.")
                    device = f", and call `{call}`" if "(" in call else ""
                    message = (
                        f"no release of torch has `{full}`: the import raises ImportError; import `{alias.name}` from "
                        f"`{home}`{device}"
                    )
                    yield rule.finding(module.layout.span(alias), message, fix=_import_fix(module, statement, full))
    for full in _MISSING:
        for value in module.references(full):
            if isinstance(value, ir.Attribute) and not _optional(module, value, full):
                instead = _instead(module, full)
                message = (
                    f"no release of torch has `{full}`: it raises AttributeError; use `{_with_device(instead, full)}`"
                )
                yield rule.finding(module.span(value), message, fix=_name_fix(module, value, full))


def _missing_methods(module: Module) -> Iterator[Finding]:
    """The calls of methods that torch's scaler doesn't have, in no release, on what surely is one."""
    made = [key for key in objects(module).scalers if objects(module).made_by(key)]
    for call in module.own.near(*map(last_name, made)).calls if made else ():
        func = call.func
        if not isinstance(func, ir.Attribute) or func.attr in SCALER_METHODS or func.attr.startswith("_"):
            continue
        if not constructions(module, func.base) or may_be_missing(call) or _may_be_set(module, func.attr):
            continue
        instead = _INSTEAD.get(func.attr)
        yield rule.finding(
            module.span(func),
            f"`GradScaler` has no method `{func.attr}`: the call raises AttributeError"
            + (f"; use `{instead.format(module.on_one_line(func.base))}`" if instead else "; remove it"),
        )


def _may_be_set(module: Module, name: str) -> bool:
    """Whether the file sets an attribute of a name, or speaks of it as a text: then a scaler may have it."""
    return any(
        (isinstance(each, ir.Attribute) and each.attr == name and ir.is_target(each))
        or (isinstance(each, ir.Constant) and each.value == name)
        for each in module.whole.near(name).values
    )


def _newer_names(module: Module) -> Iterator[Finding]:
    """The uses of names that no release has which the project admits."""
    for full, since in _NEW.items():
        old = f"torch.cuda.amp.{full.rpartition('.')[2]}"
        if not module.target.is_declared or module.target.reaches(since):
            continue
        others: list[ir.Node] = [*module.references(old)]
        for node, span, error in _uses(module, full):
            if not (guarded(module.names, node, others) or may_be_missing(node)):
                yield rule.finding(
                    span,
                    f"`{full}` needs torch {since}, and the project allows only older releases "
                    f"({module.target.origin}): torch raises {error}; use `{old}`, or require torch>={since}",
                    withheld="amplint can't tell whether to use the old name or to require a newer torch",
                    confidence=Confidence.LIKELY,
                )


def _uses(module: Module, full: str) -> Iterator[tuple[ir.Node, Span, str]]:
    """The reads of a name and its imports, each with its place and the error where torch doesn't have the name."""
    for value in module.references(full):
        if isinstance(value, ir.Attribute):
            yield value, module.span(value), "AttributeError"
    home, _, name = full.rpartition(".")
    for statement in module.own.near(name).imports:
        for alias in statement.aliases if statement.module == home else ():
            if alias.name == name:
                yield statement, module.layout.span(alias), "ImportError"


def _instead(module: Module, full: str) -> str:
    """The right name, in every release that the project admits: that for cuda, where there is none for every device."""
    new = _MISSING[full]
    return new if module.target.guarantees(_NEW[new]) else f"torch.cuda.amp.{new.rpartition('.')[2]}"


def _with_device(instead: str, full: str) -> str:
    """The right name, with the device that the wrong one says, where the right one takes a device."""
    device, name = full.split(".")[1], instead.rpartition(".")[2]
    if ".amp." not in instead or instead.startswith("torch.cuda.") or device not in ("cuda", "cpu", "mps"):
        return instead
    return f'{instead}(device_type="{device}")' if name.startswith("custom") else f'{instead}("{device}", ...)'


def _optional(module: Module, node: ir.Node, full: str) -> bool:
    """Whether the name is tried only, beside one that exists."""
    new = _MISSING[full]
    old = f"torch.cuda.amp.{new.rpartition('.')[2]}"
    others: list[ir.Node] = [*module.references(new), *module.references(old)]
    others += [each for each in module.own.near(IMPORTS).imports if each is not node]
    return guarded(module.names, node, others)


def _import_fix(module: Module, statement: ir.Import, full: str) -> Fix | None:
    if len(statement.aliases) != 1 or not module.target.guarantees(_NEW[_MISSING[full]]):
        return None
    edits = [Edit(*module.layout.import_module(statement), "torch.amp")]
    for value in module.references(full):
        if isinstance(value, ir.Name) and not value.bound:
            around = _argument_edits(module, value, full)
            if around is None:
                return None
            edits += around
    return Fix(
        Applicability.SAFE,
        "Import from `torch.amp`, and pass the device" if len(edits) > 1 else "Import from `torch.amp`",
        tuple(edits),
    )


def _name_fix(module: Module, value: ir.Attribute, full: str) -> Fix | None:
    torch, new = module_name(module, "torch"), _MISSING[full]
    around = _argument_edits(module, value, full)
    if torch is None or around is None or not module.target.guarantees(_NEW[new]):
        return None
    path = f"{torch}.{new.removeprefix('torch.')}"
    return Fix(
        Applicability.SAFE, f"Replace with `{_with_device(path, full)}`", (Edit(*module.span(value), path), *around)
    )


def _argument_edits(module: Module, value: ir.Value, full: str) -> tuple[Edit, ...] | None:
    """The edits that give a use of the new name its device, where it has none; None where that is unclear."""
    *said, name = full.split(".")[1:]
    call = value.parent
    if not said:  # torch.custom_fwd: the name says no device
        named = isinstance(call, ir.Call) and call.func is value and call.keyword("device_type") is not None
        return () if named else None
    if isinstance(call, ir.Call) and call.func is value and call.positional:
        first = call.positional[0]
        if isinstance(first, ir.Constant) and isinstance(first.value, str):
            return ()
    rewrite = rewrite_use(module, LEGACY[f"torch.cuda.amp.{name}"]._replace(device=said[0]), value)
    return None if rewrite.refusal or rewrite.doubt else rewrite.edits


def _unbound_names(module: Module) -> Iterator[Finding]:
    for word, new in (("autocast", AUTOCAST), ("GradScaler", SCALER)):
        for value in module.references(UNBOUND + word):
            called = value.parent if isinstance(value.parent, ir.Call) and value.parent.func is value else None
            decorates = isinstance(value.parent, ir.Function) and value in value.parent.decorators
            if (called is not None or decorates) and not may_be_missing(value) and not _binds_unseen(module):
                fix = _import_it(module, called, word, new) if called is not None else None
                home = "torch.amp" if module.target.guarantees(_NEW[new]) else "torch.cuda.amp"
                message = (
                    f"`{word}` is not imported or defined in this file: the call raises NameError; import `{word}` "
                    f"from `{home}`{_needed(called, new) if home == 'torch.amp' else ''}"
                )
                yield rule.finding(module.span(value), message, fix=fix)


def _needed(call: ir.Call | None, new: str) -> str:
    """What to do beside the import, where torch's autocast isn't given its device."""
    return ", and pass the device" if new == AUTOCAST and (call is None or not call.args) else ""


def _binds_unseen(module: Module) -> bool:
    return any(map(module.is_own, module.calls_of("builtins.exec", "builtins.globals", "builtins.setattr")))


def _import_it(module: Module, call: ir.Call, word: str, new: str) -> Fix | None:
    """Import the new class, where the call has its arguments and not the old class's."""
    first = argument(call, new, SIGNATURES[new][0])
    if not (isinstance(first, ir.Constant) and isinstance(first.value, str)) or not module.target.guarantees(_NEW[new]):
        return None
    last: ir.Import | None = None
    for statement in module.program.body.statements:
        if isinstance(statement, ir.Import):
            last = statement
        elif last is not None:
            break
    if last is None:
        return None
    end = line_end(module, module.span(last)[1])
    newline = module.source.newline
    if module.source.text[end - 1] not in "\r\n":
        return None
    at = insert(end, f"from torch.amp import {word}{newline}")
    return Fix(Applicability.SAFE, f"Import `{word}` from `torch.amp`", (at,))


def _unknown_arguments(module: Module, call: ir.Call, name: str) -> Iterator[Finding]:
    takes = SIGNATURES[name]
    short = name.removeprefix("torch.amp.")
    for arg in call.args:
        if arg.keyword is None or arg.keyword in takes:
            continue
        meant = _MEANT.get(arg.keyword)
        fix = None
        if meant in takes and call.keyword(meant) is None and not (meant == takes[0] and call.positional):
            fix = Fix(Applicability.SAFE, f"Rename to `{meant}=`", (Edit(*module.layout.keyword(arg), meant),))
        advice = _taken_by_new(module, call, name, arg.keyword)
        if meant in takes or advice is None:
            listed = ", ".join(f"`{each}`" for each in takes)
            advice = f"use `{meant}`" if meant in takes else f"use one of {listed}"
        message = f"`{short}` has no argument `{arg.keyword}` and raises TypeError; {advice}"
        yield rule.finding(module.layout.keyword(arg), message, fix=fix)


def _taken_by_new(module: Module, call: ir.Call, name: str, keyword: str) -> str | None:
    """What to do about an argument of the new class that an old one is given; None: it is not one, or there is no new
    one in all releases that the project admits."""
    legacy = LEGACY.get(name)
    new = f"{legacy.module}.{legacy.name}" if legacy is not None else ""
    if keyword not in SIGNATURES.get(new, ()) or new not in _NEW or not module.target.guarantees(_NEW[new]):
        return None
    code = CODES[legacy.kind] if legacy is not None else ""
    fixed = renames(module).fixes_call(call)
    return f"use `{new}`{f' (the fix of {code} does so)' if fixed else ''}"


def _custom_without_device(module: Module) -> Iterator[Finding]:
    for value in module.references("torch.amp.custom_fwd", "torch.amp.custom_bwd"):
        name = module.names.only(value)
        if name is None:
            continue
        parent = value.parent
        short = name.removeprefix("torch.amp.")
        device = choose(module, value) or Choice('"cuda"', Applicability.UNSAFE)
        message = f"`{short}` without `device_type` raises TypeError; use `{short}(device_type={device.text})`"
        if isinstance(parent, ir.Function) and value in parent.decorators:
            edit = insert(module.span(value)[1], f"(device_type={device.text})")
        elif isinstance(parent, ir.Call) and parent.func is value and not parent.unpacks("**"):
            if parent.keyword("device_type") is not None:
                continue
            edit = add_last_argument(module, parent, f"device_type={device.text}")
        else:
            continue
        yield rule.finding(
            module.span(value), message, fix=Fix(device.applicability, f"Pass `device_type={device.text}`", (edit,))
        )
