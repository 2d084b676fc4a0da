"""A rule of amplint failed on this file.

## What it does
Reports:

- that one of amplint's rules, or amplint's parser, raised an exception on this file. The message names the rule, the
  exception and the place in amplint;
- that a fix was not written, because Python can't parse the fixed code. The message names the rule of the fix;
- under flake8, in editors and from `amplint.check`: that the file is too large;
- under flake8: that the configuration can't be used.

For the last two, the command prints an error instead.

If a rule fails, amplint still checks the file with all other rules, and the exit code is 2.

## Why is this bad?
The rule that failed did not check the whole file, so the file may contain the misuse that the rule looks for. An
exception in amplint is a bug in amplint, never in your code.

## Example
The rule for `GradScaler` state raises `KeyError` on an import form that no test covers:

```text
train.py:1:1: AMP000 AMP401 failed with KeyError at rules/amp401_clip_without_unscale.py:57: 'scaler'
```

## Use instead
Report the message together with the statement that causes it. To find that statement, delete parts of a copy of the
file until the message goes away. Until the bug is fixed, disable the rule (`--ignore AMP401`), or skip the file (`#
amplint: ignore-file` on a line of its own).

## Fix safety
There is no fix.

## Proof
None: this is about amplint, not about your program. amplint's tests let a rule raise, and check that the other rules
still report.

## References
- `amplint rule AMP001`, for files that can't be parsed
"""

from __future__ import annotations

from amplint.base.findings import Severity
from amplint.registry.rule import Rule

rule = Rule(__name__, __doc__, severity=Severity.ERROR, fixes=(), trial=False, not_shown="it is about amplint itself")
