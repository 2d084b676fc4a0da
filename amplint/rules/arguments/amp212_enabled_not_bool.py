"""autocast's `enabled` is not a bool.

## What it does
Finds an `enabled` of `torch.autocast`, or of the old classes, that is clearly not a bool: a literal, a number, a
string, a value from `os.environ`, a `numpy.bool`, a GradScaler, an option that the file's own command line parses as an
int or a string. Silent if the value comes from elsewhere.

## Why is this bad?
Entering the region raises `TypeError: set_autocast_enabled(): argument 'enabled' (position 2) must be bool, not int`.
The scaler accepts the same flag silently: `GradScaler(enabled=1)` is enabled, and so is `GradScaler(enabled="False")`.

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
Safe for the literals 0, 1 and None, which become False and True. Unsafe for `bool(...)` around anything else. No fix
for strings: `bool("False")` is True.

## Proof
The fixtures raise on entering the region before, and train after.

## References
- [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Edit, Finding, Fix, Severity
from amplint.model.inference.python_types import OPEN, kinds
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
    SCALER: "a GradScaler",
    **{name: f"a {name}" for name in ("list", "tuple", "dict", "set", "bytes")},
}
# Types of which `bool(...)` makes what is meant.
_TRUTHS = {"bool", "int", "float", "None", "numpy.bool", SCALER}


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
        fix, withheld = _fix(module, value, held)
        verb = "is" if held == wrong else "can be"
        what = " or ".join(_WORDS[each] for each in sorted(wrong))
        yield rule.finding(
            module.span(value),
            f"`enabled={module.text(value)}` {verb} {what}: entering the region raises TypeError; pass a bool",
            fix=fix,
            withheld=withheld,
        )


def _fix(module: Module, value: ir.Value, held: frozenset[str]) -> tuple[Fix | None, str | None]:
    span = module.layout.outer(value)
    if isinstance(value, ir.Constant) and value.value in (0, 1, None) and type(value.value) is not float:
        text = str(bool(value.value))
        return Fix(Applicability.SAFE, f"Replace with `{text}`", (Edit(*span, text),)), None
    if not held - {OPEN} <= _TRUTHS:
        return None, "amplint can't tell which strings mean enabled" if "str" in held else None
    text = f"bool({module.text(value)})"
    return Fix(Applicability.UNSAFE, f"Replace with `{text}`", (Edit(*span, text),)), None
