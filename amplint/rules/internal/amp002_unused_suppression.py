"""A comment silences an AMP rule that reports nothing there.

## What it does
Finds `# noqa: AMP401` and `# amplint: ignore[AMP401]` comments of which some code, or all, silence nothing on their
statement, and codes in them that are no rule of amplint. So too `# amplint: off[AMP4]` where nothing is silenced up to
its end, and no fix kept out; `# amplint: on` where nothing is off; and either behind code, where it has no effect.

A code is judged only if its rule ran on the file; for a prefix such as `AMP4`, all rules below it; for an `off`
without codes, all rules that are on by default. A bare `# noqa`, other tools' codes and `# amplint: ignore-file` are
never reported.

## Why is this bad?
The comment was right once, or never was. It says that something is wrong with the line where nothing is, and it will
hide the next real mistake of the kind: a `clip_grad_norm_` before `scaler.unscale_` that someone adds later goes
through unseen, and training clips gradients that are 65,536 times too large.

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
Safe: only a comment changes. The codes that silence nothing go; if no code is left, the comment goes with its reason,
an own line with it, and with an `off` the `on` that ends nothing else. Other comments on the line (`# type: ignore`)
and other tools' codes stay.

Under flake8, which does its own `noqa`, the comments are judged in the same way.

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
