"""accelerate's `mixed_precision` is not one of the names that accelerate knows.

## What it does
Finds `Accelerator(mixed_precision=...)` with

- a bool: a literal, a field of a configuration, or a command-line option that is parsed as a bool
  (`action="store_true"`, `type=bool`, `str2bool`);
- a string other than "no", "fp16", "bf16" and "fp8", such as "fp32", "float16" or "16-mixed";
- an option whose `choices`, or whose `Literal` type, allow such a string.

amplint reports nothing if it can't see what is passed.

## Why is this bad?
accelerate turns the value into text and compares it with these four names: `Accelerator(mixed_precision=True)` raises
"ValueError: Unknown mixed_precision mode: True". The program ends before it trains.

## Example
```python
parser.add_argument("--fp16", action="store_true")
args = parser.parse_args()

accelerator = Accelerator(mixed_precision=args.fp16)
```

## Use instead
```python
parser.add_argument("--fp16", action="store_true")
args = parser.parse_args()

accelerator = Accelerator(mixed_precision="fp16" if args.fp16 else "no")
```

## Fix safety
- A literal that is another name of one of the four ("fp32" for "no", "float16", "bfloat16"): the fix writes
  accelerate's name. Safe.
- A bool: the fix passes "fp16" if the value is true (or "bf16" if its name says so), and else "no". Unsafe, as another
  precision may be intended.

There is no fix for an option that allows a string other than the four names.

## Proof
The test programs use a small replacement for accelerate, which checks the value as accelerate 1.15 does. The wrong
programs raise ValueError; the corrected programs run to their end.

## References
- [The Accelerator](https://huggingface.co/docs/accelerate/package_reference/accelerator)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Edit, Finding, Fix, Severity
from amplint.model.inference.declared_choices import declared_choices
from amplint.model.inference.formulas import possible
from amplint.model.inference.python_types import is_bool
from amplint.model.inference.value_sets import decided
from amplint.model.inference.values import Doubt, option_read, values_of
from amplint.model.syntax import ir
from amplint.model.torch_facts.names import ACCELERATE
from amplint.registry.rule import Rule

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.SAFE, Applicability.UNSAFE),
    triggers=("Accelerator & mixed_precision",),
    not_shown="the program ends when it creates the Accelerator, before any step",
)

_KNOWN = ("no", "fp16", "bf16", "fp8")
_MEANT = {
    **dict.fromkeys(("fp32", "float32", "full", "none", "32", "32-true"), "no"),
    **dict.fromkeys(("float16", "half", "16", "16-mixed"), "fp16"),
    **dict.fromkeys(("bfloat16", "bf16-mixed"), "bf16"),
}


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each Accelerator with a precision that accelerate refuses."""
    for call in module.calls_of(*ACCELERATE):
        value = call.keyword("mixed_precision")
        if value is not None and module.is_own(call):
            found = _judge(module, value)
            if found is not None:
                yield found


def _judge(module: Module, value: ir.Value) -> Finding | None:
    text = module.on_one_line(value)
    if is_bool(module, value):
        message = f'`mixed_precision={text}` passes a bool: accelerate raises ValueError; pass "fp16", "bf16" or "no"'
        return rule.finding(module.span(value), message, fix=_chosen(module, value))
    wrong = [each for each in _texts(module, value) if each not in _KNOWN and _can_be(module, value, each)]
    if not wrong:
        return None
    if isinstance(value, ir.Constant):
        message = f"accelerate does not know `mixed_precision={text}` and raises ValueError; "
    else:
        message = f'`{text}` can be "{wrong[0]}", for which accelerate raises ValueError; '
    meant = _MEANT.get(wrong[0].lower())
    if meant is not None:
        message += (
            "for float32, " if meant == "no" else "for that value, " if not isinstance(value, ir.Constant) else ""
        )
    fix = None
    if meant is not None and isinstance(value, ir.Constant):
        fix = Fix(Applicability.SAFE, f'Replace with `"{meant}"`', (Edit(*module.span(value), f'"{meant}"'),))
    return rule.finding(module.span(value), f'{message}pass "{meant}"' if meant else f"{message}{_advice()}", fix=fix)


def _texts(module: Module, value: ir.Value) -> Iterator[str]:
    """The texts that a value can be; where it is set again elsewhere, only what it surely can be."""
    for each in values_of(module, value).leaves:
        if isinstance(each.value, ir.Constant) and not each.is_open and each.doubt is not Doubt.REPLACED:
            if isinstance(each.value.value, str):
                yield each.value.value
    option = option_read(module, value) if isinstance(value, ir.Attribute) else None
    if option is None or not option.changed:
        yield from (each for each in declared_choices(module, value) if each is not None)


def _can_be(module: Module, value: ir.Value, text: str) -> bool:
    """Whether the tests around a value let it be a text."""
    known = decided(module)
    return isinstance(value, ir.Constant) or possible(known.around(value), known.equals(value, text)) is not None


def _advice() -> str:
    return f"pass {', '.join(map(_quoted, _KNOWN[:-1]))} or {_quoted(_KNOWN[-1])}"


def _quoted(name: str) -> str:
    return f'"{name}"'


def _chosen(module: Module, value: ir.Value) -> Fix | None:
    """The fix that chooses a precision by a bool."""
    text = module.text(value)
    name = "bf16" if "bf" in text.lower() else "fp16"
    if isinstance(value, ir.Constant):
        new = f'"{name}"' if value.value else '"no"'
    elif isinstance(value, (ir.Name, ir.Attribute, ir.Subscript, ir.Call)):
        new = f'"{name}" if {text} else "no"'
    else:
        return None
    return Fix(Applicability.UNSAFE, f"Replace with `{new}`", (Edit(*module.span(value), new),))
