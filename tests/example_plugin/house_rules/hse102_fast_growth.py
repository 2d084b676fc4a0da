"""The loss scale grows again after so few steps that it overflows all the time.

## What it does
Finds a `GradScaler` whose `growth_interval` is a number below 100.

It is silent where the interval comes from a variable that is not a plain number.

## Why is this bad?
Each time the scale has grown too far, a step is skipped. With the default of 2,000 that costs one step in 2,000.

## Example
```python
scaler = torch.amp.GradScaler("cuda", growth_interval=10)
```

## Use instead
```python
scaler = torch.amp.GradScaler("cuda", growth_interval=2000)
```

## Fix safety
Unsafe: the scale takes longer to reach the size that the gradients need.

## Proof
The fixture compares the scales after four steps.

## References
- [GradScaler](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler)
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint.plugin_api import Applicability, Edit, Finding, Fix, Module, Rule, Severity, number

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    triggers=("GradScaler & growth_interval",),
    fixes=(Applicability.UNSAFE,),
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each scaler that is created with an interval of less than 100 steps."""
    for call in module.calls_of("torch.amp.GradScaler", "torch.cuda.amp.GradScaler"):
        value = call.keyword("growth_interval")
        steps = number(module, value)
        if value is None or steps is None or steps.value is None or not module.is_own(call):
            continue
        if steps.value < 100:
            said = f"the scale grows after {steps.value} steps, and each time that is too far a step is skipped"
            fix = Fix(Applicability.UNSAFE, "Use the default of 2000", (Edit(*module.span(value), "2000"),))
            yield rule.finding(module.span(value), said, fix=fix)
