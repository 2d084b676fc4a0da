"""A comment silences an AMP rule that reports nothing on its statement.

## What it does
Finds `# noqa: AMP401` and `# amplint: ignore[AMP401]` comments in which some or all codes silence nothing on their
statement, and codes in them that are not rules of amplint. Also finds:

- `# amplint: off[AMP4]`, if nothing is silenced and no fix is prevented up to its end;
- `# amplint: on`, if nothing is off;
- `# amplint: off` or `# amplint: on` after code on the same line, where it has no effect.

A code is judged only if its rule ran on the file. A prefix such as `AMP4` means all rules that begin with it, and an
`off` without codes means all rules that are on by default. A bare `# noqa`, other tools' codes and `# amplint:
ignore-file` are never reported.

## Why is this bad?
The comment says that something is wrong with a line that is fine, and it will hide the next real mistake: a
`clip_grad_norm_` before `scaler.unscale_` that someone adds later is not reported, and training clips gradients that
are 65,536 times too large.

## Example
```python
scaler.unscale_(optimizer)
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # noqa: E501, AMP401
```

## Use instead
```python
scaler.unscale_(optimizer)
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # noqa: E501
```

To keep a comment that looks unused, name this rule in it: `# noqa: AMP401, AMP002`.

## Fix safety
Safe: only a comment changes. The codes that silence nothing are removed. If no code is left, the whole comment is
removed with its reason, and its line if nothing else is on it. With an `off`, an `on` that ends nothing else is
removed, too. Other comments on the line (`# type: ignore`) and other tools' codes stay.

Under flake8, which handles `noqa` itself, the comments are judged in the same way.

## Proof
None needed: a comment has no effect on what a program does.

## References
- `amplint rule --all`, for the codes that there are
"""

from __future__ import annotations

from amplint.base.findings import Applicability, Severity
from amplint.registry.rule import Rule

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.SAFE,),
    trial=False,
    not_shown="it is about a comment",
)
