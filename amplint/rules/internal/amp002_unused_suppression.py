"""A comment silences an AMP rule that reports nothing on its statement, or silences more than it names.

## What it does
Finds:

- `# noqa: AMP401` and `# amplint: ignore[AMP401]`, if one of the codes silences nothing on the statement, or is not a
  rule;
- `# amplint: off[AMP4]`, if the comment silences no finding and prevents no fix;
- `# amplint: on`, if nothing is off;
- `# amplint: off` and `# amplint: on` after code on the same line, where they have no effect;
- `# noqa: clip-without-unscale`, with a rule's name, or something like it, in place of a code. `noqa` takes only codes:
  without one it silences all rules, both for amplint and for flake8. (ruff ignores such a comment.)

A prefix such as `AMP4` means all rules that begin with `AMP4`. `# amplint: off` without codes means all rules that are
on by default. A code is reported only if all rules that the code means ran on the file.

amplint never reports a bare `# noqa`, codes of other tools in `# noqa`, or `# amplint: ignore-file`.

## Why is this bad?
The comment hides the next real mistake on its line. In the example, if someone removes `scaler.unscale_` later, amplint
doesn't report it, and training clips gradients that are 65,536 times too large.

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
Safe: only comments change. The fix removes the codes that silence nothing. If no code is left, the fix removes the
whole comment with its reason, and the line if nothing else is on it. If the fix removes an `off`, it also removes the
`on` that ends only this `off`. Other comments on the line (`# type: ignore`) and codes of other tools stay. In a `noqa`
the fix replaces names by their codes; findings of other rules on the statement are reported then.

flake8 handles `noqa` itself; amplint reports unused codes under flake8 too.

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
