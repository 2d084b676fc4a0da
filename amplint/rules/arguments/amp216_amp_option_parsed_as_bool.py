"""A command-line option for AMP has `type=bool`: every value turns the option on, even `False`.

## What it does
Finds `add_argument("--amp", type=bool)` of argparse, if the name of the option contains a word for mixed precision:
`amp`, `fp16`, `bf16`, `half`, `autocast` or `mixed_precision`.

## Why is this bad?
argparse calls `bool` with the string from the command line, and `bool("False")` is True. So `--amp False` turns AMP on.
Only an empty string (`--amp ""`) turns AMP off. A run that should be the float32 reference then trains in float16.

## Example
```python
parser.add_argument("--fp16", type=bool, default=True)
```

## Use instead
```python
parser.add_argument("--fp16", type=lambda text: text.lower() in ("true", "yes", "1"), default=True)
```

Or, with Python 3.9 or newer, and if command lines such as `--fp16 True` can change,
`action=argparse.BooleanOptionalAction`: `--fp16` and `--no-fp16`.

## Fix safety
Unsafe: a value that turned the option on, such as `--fp16 on`, turns it off after the fix.

## Proof
The test programs are not executed (`shows=none`): the mistake shows only on a command line. A test of amplint parses
`--fp16 False` with argparse, and gets True.

## References
- [argparse: type](https://docs.python.org/3/library/argparse.html#type)
- [argparse.BooleanOptionalAction](https://docs.python.org/3/library/argparse.html#argparse.BooleanOptionalAction)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Edit, Finding, Fix, Severity
from amplint.model.syntax import ir
from amplint.registry.rule import Rule
from amplint.rules.shared.precision_tests import names_amp

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.UNSAFE,),
    triggers=(
        "add_argument & type=bool & amp",
        "add_argument & type=bool & fp16",
        "add_argument & type=bool & bf16",
        "add_argument & type=bool & half",
        "add_argument & type=bool & mixed",
    ),
    not_shown="verify parses no command line",
)


_COMPARES = 'lambda text: text.lower() in ("true", "yes", "1")'


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each option of AMP whose text is turned into a bool."""
    for call in module.own.called("add_argument"):
        names = [
            each.value for each in call.positional if isinstance(each, ir.Constant) and isinstance(each.value, str)
        ]
        kind = call.keyword("type")
        if kind is None or module.names.of(kind) != {"builtins.bool"}:
            continue
        name = next((each for each in names if names_amp(each)), None)
        if name is not None:
            what = f"`{name} False` turns the option on" if name.startswith("-") else '"False" becomes True'
            message = f"`type=bool` makes every non-empty string True: {what}; use `type={_COMPARES}`"
            edit = Edit(*module.span(kind), _COMPARES)
            yield rule.finding(
                module.span(kind),
                message,
                fix=Fix(Applicability.UNSAFE, 'Compare the string with "true", "yes" and "1"', (edit,)),
            )
