"""autocast's `enabled` is not a bool.

## What it does
Finds an `enabled` of `torch.autocast`, `torch.cuda.amp.autocast` or `torch.cpu.amp.autocast` that is not a bool:

- a number, a string or None;
- a value from `os.environ`, which is a string;
- an option that the file parses as an int or a string (`type=int`);
- a `numpy.bool`, a `torch.dtype` or a GradScaler.

amplint reports nothing if the file doesn't show the type of the value.

## Why is this bad?
Entering the region raises `TypeError: set_autocast_enabled(): argument 'enabled' (position 2) must be bool, not int`.
(A scaler doesn't raise for the same value: `GradScaler(enabled=1)` is enabled, and so is
`GradScaler(enabled="False")`.)

## Example
```python
parser.add_argument("--amp", type=int, default=1)
args = parser.parse_args()
with torch.autocast("cuda", enabled=args.amp):
    loss = criterion(model(batch), target)
```

## Use instead
```python
with torch.autocast("cuda", enabled=bool(args.amp)):
    loss = criterion(model(batch), target)
```

## Fix safety
- Safe: the literals 0, 1 and None become False, True and False.
- Unsafe: other values become `bool(...)`.
- Unsafe: a GradScaler becomes `scaler.is_enabled()`, because `bool(scaler)` is True for a disabled scaler too.

There is no fix:

- for strings, because `bool("False")` is True;
- for dtypes, because amplint can't tell what should enable the region;
- if the value is a GradScaler on some paths, and something else than None on others.

## Proof
The test programs raise before the fix, when the region is entered, and train after it.

## References
- [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Edit, Finding, Fix, Severity
from amplint.model.inference.python_types import DTYPE, OPEN, is_bool, kinds
from amplint.model.objects.autocast_objects import regions
from amplint.model.syntax import ir
from amplint.model.torch_facts.names import SCALER
from amplint.registry.rule import Rule

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=("autocast",),
    shown_by=("exception",),
)

_WORDS = {
    "int": "an int",
    "float": "a float",
    "str": "a string",
    "None": "None",
    "numpy.bool": "a numpy.bool",
    DTYPE: "a torch.dtype",
    SCALER: "a GradScaler",
    **{name: f"a {name}" for name in ("list", "tuple", "dict", "set", "bytes")},
}
# Types of which `bool(...)` makes what is meant.
_TRUTHS = {"bool", "int", "float", "None", "numpy.bool", SCALER}
_WITHHELD = {
    "str": "amplint can't tell for which strings autocast should be enabled",
    DTYPE: "amplint can't tell what should enable the region",
}


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Regions whose `enabled` raises, or does so on some path."""
    for region in regions(module):
        value = region.enabled
        held = kinds(module, value) if value is not None else frozenset()
        wrong = held & _WORDS.keys()
        # A default of None stands for "not given", and is mostly replaced.
        if value is None or not wrong or (wrong == {"None"} and held != wrong):
            continue
        if DTYPE in wrong and region.dtype is not None and is_bool(module, region.dtype):
            continue  # AMP211's: the two have changed places
        fix, withheld = _fix(module, value, held)
        verb = "passes" if held == wrong else "can pass"
        what = " or ".join(_WORDS[each] for each in sorted(wrong))
        to_do = "pass the dtype as `dtype=`, and a bool as `enabled`" if wrong == {DTYPE} else "pass a bool"
        if SCALER in wrong:
            to_do += ", such as the scaler's `is_enabled()`"
        yield rule.finding(
            module.span(value),
            f"`enabled={module.text(value)}` {verb} {what}, not a bool: entering the region raises TypeError; {to_do}",
            fix=fix,
            withheld=withheld,
        )


def _truth(text: str, held: frozenset[str]) -> str | None:
    """The bool that is meant, if that can be told: an object of GradScaler is true whether it is enabled or not."""
    if SCALER not in held:
        return f"bool({text})"
    if held == {SCALER}:
        return f"{text}.is_enabled()"
    return f"{text} is not None and {text}.is_enabled()" if held == {SCALER, "None"} else None


def _fix(module: Module, value: ir.Value, held: frozenset[str]) -> tuple[Fix | None, str | None]:
    span = module.layout.outer(value)
    if isinstance(value, ir.Constant) and value.value in (0, 1, None) and type(value.value) is not float:
        literal = str(bool(value.value))
        return Fix(Applicability.SAFE, f"Replace with `{literal}`", (Edit(*span, literal),)), None
    if not held - {OPEN} <= _TRUTHS:
        return None, next((why for kind, why in _WITHHELD.items() if kind in held), None)
    text = _truth(module.text(value), held)
    if text is None:
        return None, "amplint can't tell for which of these values autocast should be enabled"
    return Fix(Applicability.UNSAFE, f"Replace with `{text}`", (Edit(*span, text),)), None
