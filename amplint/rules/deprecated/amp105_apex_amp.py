"""`apex.amp` is unmaintained; `torch.amp` does the same.

## What it does
Finds the uses of `apex.amp`, such as `initialize`, `scale_loss`, `master_params`, `state_dict` and its decorators. A
file gets one finding, at the first use. The finding names the lines of the other uses. The finding recommends only
names that exist in every release of torch that the project allows.

amplint reports nothing if the project allows only torch before 1.6, which has no AMP.

## Why is this bad?
`apex.amp` has been unmaintained since torch 1.6 got its own AMP. `apex.amp` replaces functions of torch when the
program runs, so a new release of torch can break it. apex also has to be built from source.

## Example
```python
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
with amp.scale_loss(loss, optimizer) as scaled_loss:
    scaled_loss.backward()
optimizer.step()
```

## Use instead
```python
scaler = torch.amp.GradScaler("cuda")
with torch.autocast("cuda", dtype=torch.float16):
    loss = criterion(model(batch), target)
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
```

For the other functions of `apex.amp`:

- `master_params`: call `scaler.unscale_(optimizer)`, then clip `model.parameters()`;
- `state_dict` and `load_state_dict`: call the scaler's `state_dict` and `load_state_dict`;
- `half_function`: call `.half()` on the inputs of the function (autocast alone casts only for operations on its list);
- `float_function`: decorate with `@torch.autocast("cuda", enabled=False)`, and call `.float()` on the inputs;
- `promote_function`: remove the call or the decorator, since autocast promotes by itself.

## Fix safety
There is no fix: `torch.autocast` has to enclose the forward pass, and code for `apex.amp` doesn't show where the
forward pass starts and ends.

## Proof
The test programs for `apex.amp` are not executed (`shows=none`), as they need apex. The code under "Use instead" is a
test program that is executed.

## References
- [From apex to torch.amp](https://amplint.github.io/amplint/from-apex/): each call, accumulation, validation, O0 to O3
- [torch.amp examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
- [apex](https://github.com/NVIDIA/apex)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Finding, Fix, Severity
from amplint.model.syntax import ir
from amplint.model.torch_facts.deprecated_names import FIRST, autocast_for, scaler_for
from amplint.registry.rule import Rule
from amplint.sources.source import lines

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(),
    triggers=("apex.amp", "apex import", "import apex"),
    not_shown="verify doesn't replace apex, which is a separate library",
)

# What torch has instead of each function of apex.amp, with its autocast and scaler.
_INSTEAD = {
    "initialize": "remove the call, run the forward pass and the loss under `{autocast}`, and create a `{scaler}`",
    "scale_loss": "call `scaler.scale(loss).backward()`, then `scaler.step(optimizer)` and `scaler.update()` "
    "instead of `optimizer.step()`",
    "master_params": "call `scaler.unscale_(optimizer)`, then clip `model.parameters()`",
    "state_dict": "save `scaler.state_dict()`",
    "load_state_dict": "call `scaler.load_state_dict(...)`",
    "half_function": "call `.half()` on the inputs",
    "float_function": "decorate with `@{off}`, and call `.float()` on the inputs",
    "promote_function": "remove the call, since autocast promotes by itself",
    "disable_casts": "use `{off}`",
}
_OTHERWISE = "use `{autocast}` and `{scaler}`"


class Use(NamedTuple):
    """A place where apex.amp is used: the name, and its span."""

    name: str
    span: tuple[int, int]


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """The first use of apex.amp's functions; where there are none, the import."""
    if not module.target.reaches(FIRST):
        return  # torch has nothing in its place
    found = sorted(dict.fromkeys(_uses(module)), key=lambda each: each.span) or list(_imports(module))
    if not found:
        return
    first, *others = found
    also = f" (`apex.amp` is also used on {lines(module.source, (each.span[0] for each in others))})" if others else ""
    since = "" if module.target.guarantees(FIRST) else f" (needs torch {FIRST})"
    message = (
        f"`{first.name}` is unmaintained, and a new release of torch can break it{also}; use torch's own AMP{since}"
    )
    yield rule.finding(first.span, message, fix=Fix(Applicability.DISPLAY, _title(module, found)))


def _uses(module: Module) -> Iterator[Use]:
    for value in module.references("apex.amp.*"):
        if not (isinstance(value, ir.Name) and value.bound):
            for name in sorted(module.names.of(value)):
                if name.startswith("apex.amp.") and name.count(".") == 2 and not name.endswith("__"):
                    yield Use(name, module.span(value))


def _imports(module: Module) -> Iterator[Use]:
    for statement in module.own.near("apex").statements:
        if isinstance(statement, ir.Import):
            for alias in statement.aliases:
                full = f"{statement.module}.{alias.name}" if statement.module is not None else alias.name
                if full == "apex.amp" or full.startswith("apex.amp."):
                    yield Use("apex.amp", module.layout.span(alias))


def _advice(module: Module, use: Use) -> str:
    """What a use becomes, by the names that torch has in every release that the project admits."""
    text = _INSTEAD.get(use.name.rpartition(".")[2], _OTHERWISE)
    names = {"autocast": autocast_for(module.target), "off": autocast_for(module.target, off=True)}
    return text.format(scaler=scaler_for(module.target), **names)


def _title(module: Module, found: list[Use]) -> str:
    """What all uses become."""
    names = dict.fromkeys((each.name.removeprefix("apex.amp."), _advice(module, each)) for each in found)
    if len(names) == 1:
        (_, text), *_ = names
        return text[0].upper() + text[1:]
    return "; ".join(f"`{name}`: {text}" for name, text in names)
