"""A vendor's own autocast or scaler is used instead of `torch.amp` with the device.

## What it does
Finds:

- `autocast`, `GradScaler`, `custom_fwd` and `custom_bwd` of `torch.xpu.amp`, `torch.mlu.amp`, `torch.musa.amp` and
  `intel_extension_for_pytorch.xpu.amp`;
- `autocast`, `custom_fwd` and `custom_bwd` of `torch.npu.amp`.

amplint reports nothing:

- under an `if` that checks the release of torch or calls `hasattr`, or in a `try` that catches ImportError or
  AttributeError;
- if the project allows torch before 2.4;
- about `torch.npu.amp.GradScaler`, which is still needed: on some NPUs an overflow gives no inf, and this scaler
  detects the overflow in another way.

## Why is this bad?
Since torch 2.4 `torch.amp` also supports the vendors' devices (with the vendor's extension), and most of the
vendors' classes only pass their arguments on to `torch.amp`.

- For xpu the finding is a warning: `torch.xpu.amp` comes with Intel's extension, which is retired. Without the
  extension the code raises AttributeError.
- For mlu, musa and npu the finding is a note: the vendor's classes still work, and are not needed.

## Example
```python
scaler = torch.xpu.amp.GradScaler()
with torch.xpu.amp.autocast(enabled=use_amp):
    loss = criterion(model(batch), target)
```

## Use instead
```python
scaler = torch.amp.GradScaler("xpu")
with torch.amp.autocast("xpu", enabled=use_amp, dtype=torch.bfloat16):
    loss = criterion(model(batch), target)
```

## Fix safety
Unsafe: amplint doesn't know which release of the vendor's package is installed. The fix turns positional arguments into
keyword arguments. For `torch.xpu.amp.autocast` without a dtype, the fix writes `dtype=torch.bfloat16`, which is the
default of that class.

There is no fix:

- for names that are imported (`from torch.xpu.amp import autocast`);
- for arguments that are unpacked with `*` or `**`;
- for positional arguments of `torch.npu.amp.autocast`, whose order depends on the release.

## Proof
Without Intel's extension, the test programs for xpu raise before the fix, and train after it. The test programs for
other vendors are not executed (`shows=none`), as they need the vendors' packages.

## References
- [torch.amp](https://docs.pytorch.org/docs/stable/amp.html)
- Source code on which this rule is based: intel_extension_for_pytorch/xpu/amp, torch_npu/npu/amp, torch_mlu/mlu/amp,
  torch_musa/core/amp
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Edit, Finding, Fix, Severity
from amplint.fixes.edits import add_first_argument, add_last_argument, insert
from amplint.fixes.inherited_arguments import module_name
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import arguments
from amplint.model.syntax.queries import IMPORTS, is_false
from amplint.model.torch_facts.signatures import OLD_ORDER
from amplint.registry.rule import Rule
from amplint.rules.shared.framework_releases import depends_on_release

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING, fixes=(Applicability.UNSAFE,),
    triggers=(
        "xpu & amp & autocast", "xpu & amp & GradScaler", "xpu & amp & custom_fwd", "xpu & amp & custom_bwd",
        "mlu & amp & autocast", "mlu & amp & GradScaler", "mlu & amp & custom_fwd", "mlu & amp & custom_bwd",
        "musa & amp & autocast", "musa & amp & GradScaler", "musa & amp & custom_fwd", "musa & amp & custom_bwd",
        "npu & amp & autocast",
    ),
    not_shown="your step needs the vendor's library, which verify doesn't replace",
)  # fmt: skip

_SINCE = "2.4"
_HOMES = {
    "torch.xpu.amp": "xpu",
    "intel_extension_for_pytorch.xpu.amp": "xpu",
    "torch.mlu.amp": "mlu",
    "torch_mlu.mlu.amp": "mlu",
    "torch.musa.amp": "musa",
    "torch_musa.core.amp": "musa",
    "torch.npu.amp": "npu",
    "torch_npu.npu.amp": "npu",
}
_NAMES = ("autocast", "autocast_mode.autocast", "GradScaler", "custom_fwd", "custom_bwd")
_VENDORS = {
    f"{home}.{name}": device
    for home, device in _HOMES.items()
    for name in _NAMES
    if (name, device) != ("GradScaler", "npu")  # its devices can saturate instead of overflowing, and its scaler knows
}


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Imports of a vendor's names, and calls and decorators that get there from a module."""
    if not module.target.guarantees(_SINCE):
        return  # the vendor's is the only one there
    for alias, name in _imported(module):
        why = f"each call must also pass the device; import `{alias.name}` from `torch.amp`, and add the device by hand"
        yield _finding(module.layout.span(alias), name, None, why)
    for value in module.references(*_VENDORS):
        name_of = module.names.only(value)
        if name_of is None or not isinstance(value, ir.Attribute) or depends_on_release(module, value):
            continue
        decorates = isinstance(value.parent, ir.Function) and value in value.parent.decorators
        if decorates or (isinstance(value.parent, ir.Call) and value.parent.func is value):
            fix, withheld = _fix(module, value, name_of)
            yield _finding(module.span(value), name_of, fix, withheld)


def _imported(module: Module) -> Iterator[tuple[ir.Alias, str]]:
    """The vendors' names that the file imports by themselves, with what they stand for."""
    for statement in module.own.near("autocast", "GradScaler", "custom_fwd", "custom_bwd").near(IMPORTS).statements:
        if isinstance(statement, ir.Import) and statement.module is not None:
            for alias in statement.aliases:
                name = f"{statement.module}.{alias.name}"
                if name in _VENDORS and not depends_on_release(module, statement):
                    yield alias, name


def _finding(span: tuple[int, int], name: str, fix: Fix | None, withheld: str | None) -> Finding:
    device, last = _VENDORS[name], name.rpartition(".")[2]
    instead = f"use `torch.amp.{last}({_given(device, last)})`"
    if device == "xpu":
        needs = "raises AttributeError without" if name.startswith("torch.") else "is part of"
        message = f"`{name}` {needs} the retired Intel Extension for PyTorch; {instead}"
    else:
        message = f"`{name}` is not needed: `torch.amp` supports {device} too; {instead}"
    return rule.finding(span, message, fix=fix, withheld=withheld, severity=None if device == "xpu" else Severity.NOTE)


def _given(device: str, last: str) -> str:
    """The arguments of torch's own, for a message."""
    return f'device_type="{device}"' if last.startswith("custom") else f'"{device}", ...'


def _fix(module: Module, value: ir.Attribute, name: str) -> tuple[Fix | None, str | None]:
    torch, device, last = module_name(module, "torch"), _VENDORS[name], name.rpartition(".")[2]
    if torch is None:
        return None, "the fix needs `import torch`, which this file lacks; add that import, and run amplint again"
    call = value.parent if isinstance(value.parent, ir.Call) else None
    if last.startswith("custom"):
        given = f'device_type="{device}"'
        bare = insert(module.span(value)[1], f"({given})")
        edits: list[Edit] | None = [add_last_argument(module, call, given) if call is not None else bare]
    elif call is None:
        edits = [insert(module.span(value)[1], f'("{device}")')]
    elif last == "GradScaler":
        edits = [add_first_argument(module, call, f'"{device}"')]
    else:
        edits = _as_keywords(module, call, device, torch)
    if edits is None:
        return None, "`torch.amp` takes the arguments in another order; pass keywords"
    renamed = Edit(*module.span(value), f"{torch}.amp.{last}")
    return Fix(
        Applicability.UNSAFE,
        f"Replace with `{torch}.amp.{last}({_given(device, last)})`",
        tuple(sorted([renamed, *edits])),
    ), None


def _as_keywords(module: Module, call: ir.Call, device: str, torch: str) -> list[Edit] | None:
    """The arguments of a vendor's autocast for torch's."""
    given, named = call.positional, arguments(call, "torch.cuda.amp.autocast")
    dtype = "dtype" in named or is_false(named.get("enabled"))  # which has no use for one
    open_dtype = device == "xpu" and not dtype
    if (device == "npu" and given) or (open_dtype and call.unpacks("**")) or not _can_be_named(call):
        return None
    pinned = f"dtype={torch}.bfloat16" if open_dtype else ""
    if not call.args:
        return [add_first_argument(module, call, f'"{device}"' + (f", {pinned}" if pinned else ""))]
    edits = [
        insert(module.layout.outer(value)[0], f"{name}=" if index else f'"{device}", {name}=')
        for index, (name, value) in enumerate(zip(OLD_ORDER, given, strict=False))
    ]
    if not given:
        edits.append(add_first_argument(module, call, f'"{device}"'))
    if pinned:
        edits.append(add_last_argument(module, call, pinned))
    return edits


def _can_be_named(call: ir.Call) -> bool:
    """Whether the positional arguments of an old autocast can be written as keywords."""
    given = call.positional
    if call.unpacks("*") or len(given) > len(OLD_ORDER):
        return False
    return not any(isinstance(each, ir.Walrus) for each in given)
