"""A rule of amplint failed on this file.

## What it does
Reports that one of amplint's rules, or amplint's reading of the file, raised an exception. The message names the rule,
the exception and the place in amplint. All other rules and files are still checked; the exit code is 2. flake8, editors
and `amplint.check` also report a file that is too large under this code, and the message says so; for the command that
is an error.

## Why is this bad?
The rule that failed did not check the file: the misuse that it looks for may be in it. This is never your code's fault.

## Example
The rule for `GradScaler` state raises `KeyError` on an import form that no test covers:

```text
train.py:1:1: AMP000 AMP401 failed with KeyError at rules/amp401_clip_without_unscale.py:57: 'scaler'
```

## Use instead
Report the message with the statement that causes it. To find it, delete parts of a copy of the file until the message
goes away. Until it is fixed, disable the rule (`--ignore AMP401`), or skip the file (`# amplint: ignore-file` on a line
of its own).

## Fix safety
No fix. This code also reports a fix of another rule that was not written, because Python could not parse the result.

## Proof
None: this is about amplint, not about your program. The tests let a rule raise, and check that the others still report.

## References
- `amplint rule AMP001`, for files that can't be parsed
"""

from __future__ import annotations

from amplint.base.findings import Severity
from amplint.registry.rule import Rule

rule = Rule(__name__, __doc__, severity=Severity.ERROR, fixes=(), trial=False, not_shown="it is about amplint itself")
