"""A rule of amplint failed on this file.

## What it does
Reports that one of amplint's rules, or amplint's reading of the file, raised an exception. The message names the rule,
the exception and the place in amplint. Every other rule and every other file is still done; the exit code is 2.
In flake8, in an editor and from `amplint.check` a file that is too large to be linted is reported here as well, and the
message says so; the command has an error for that.

## Why is this bad?
The file was not checked by the rule that failed: misuse that this rule looks for may be in it. Your code isn't at
fault, whatever it holds.

## Example
The rule for `GradScaler` state raises `KeyError` on an import form that nobody had written before:

```text
train.py:1:1: AMP000 AMP401 failed with KeyError at rules/amp401_clip_without_unscale.py:57: 'scaler'
```

## Use instead
Report the message with the statement that causes it; deleting parts of a copy of the file until the message goes away
finds it fast. Until it is mended, leave the rule out for this run (`--ignore AMP401`), or the file
(`# amplint: ignore-file` on a line of its own).

## Fix safety
There is no fix. A fix of another rule that would leave text which Python can't parse is not written, and is reported
here.

## Proof
None: this is about amplint, not about your program. The tests let a rule raise and see that the others still report.

## References
- `amplint rule AMP001`, for files that can't be parsed
"""

from __future__ import annotations

from amplint.base.findings import Severity
from amplint.registry.rule import Rule

rule = Rule(__name__, __doc__, severity=Severity.ERROR, fixes=(), trial=False, not_shown="it is about amplint itself")
