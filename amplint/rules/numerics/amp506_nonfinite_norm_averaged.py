"""The gradient norms of steps that the scaler skips go into a running mean.

## What it does
Finds the norm that a clip or `get_total_norm` returned, in a training step with a scaler that may be enabled, if the
norm goes into one of these:

- a meter (`meter.update(norm)`);
- a sum, or a list whose mean is computed;
- a moving average (`average = 0.9 * average + 0.1 * norm`).

Meters, sums and lists are *suspicions*: they usually start again with each epoch, and are only shown.

amplint reports nothing:

- if NaN and infinity are checked or replaced on the way, or in the meter's `update`;
- if none of the autocast regions that amplint sees can run in float16;
- if the scaler is disabled, or amplint can see no scaler.

## Why is this bad?
When gradients overflow, their norm is infinite or NaN, and the scaler skips the step. The first steps often overflow,
as the scale starts at 65,536. One such step makes the mean of its epoch infinite or NaN. A moving average stays so from
then on. The log is useless, and so are decisions based on the mean (a bound that follows the norms, early stopping).

## Example
```python
scaler.unscale_(optimizer)
norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
scaler.update()
total_norm += norm.item()
```

## Use instead
```python
scaler.unscale_(optimizer)
norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
scaler.update()
if torch.isfinite(norm):
    total_norm += norm.item()
    counted += 1  # the divisor of the mean
```

## Fix safety
There is no fix: the divisor of the mean has to change too.

## Proof
The test programs print the mean as a whole number, which Python refuses for infinity and NaN: the wrong programs raise,
and the corrected programs print it.

## References
- [Gradient clipping](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping)
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.model.flow.value_uses import reads_of
from amplint.model.objects.amp_objects import objects
from amplint.model.project.importers import in_reach, surely_lack
from amplint.model.syntax import ir
from amplint.registry.rule import Rule
from amplint.rules.shared.clips import FINITE
from amplint.rules.shared.finite_checks import gradients_in, made_of
from amplint.rules.shared.scaler_usage import overflows
from amplint.rules.shared.skipped_steps import is_plain, step_round

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(),
    triggers=(
        "clip_grad & .scale( & backward",
        "clip_grad & scaler & step(",
        "get_total_norm & .scale( & backward",
        "get_total_norm & scaler & step(",
    ),
    not_shown="verify doesn't follow what happens to reported numbers",
)

_METER = re.compile(r"(?i)meter|avg|average|running|metric_logger|log_buffer|(^|_)ema(_|$)")
_MEANS = {"average", "fmean", "mean", "sum", "fsum"}
_REPLACES = re.compile(r"nan_to_num|nanmean|masked|torch\.where|\binf\b|\bskip")
# A clip to infinity, which measures alone, asks for nothing.
_CLIPS = re.compile(r"clip_grad_norm_?\([^\n]*")


# A method of a meter that asks for NaN and infinity within a few lines.
_CAREFUL = re.compile(rb"\bdef update\b(?:[^\n]*\n){1,8}?[^\n]*\b(?:isfinite|isnan|isinf)\b")


class Averaged(NamedTuple):
    """A place where a number goes into a mean."""

    at: ir.Node
    number: ir.Value


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each norm that goes into a mean as it is."""
    for at, number in (*_collected(module), *_added(module)) if overflows(module) else ():
        norm = _norm_here(module, at, number)
        if norm is None or norm.id > number.id or _is_looked_at(module, norm, at):
            continue
        found = step_round(module, norm)
        if found is not None and not is_plain(found[0], norm):
            yield rule.finding(
                module.span(at),
                f"the norm on {module.line(norm)} is inf or NaN when the scaler skips a step, and then "
                "the mean of all norms is inf or NaN too; use only finite norms",
                fix=Fix(Applicability.DISPLAY, "Test the norm with `math.isfinite` or `torch.isfinite`"),
                # A moving average stays infinite; other means start again, and are usually only shown.
                confidence=None if isinstance(at, ir.Assign) else Confidence.SUSPICION,
            )


def _norm_here(module: Module, at: ir.Node, number: ir.Value) -> ir.Call | None:
    """The call, in the function of a mean, that clips or measures, or runs a function of the file that does."""
    source = gradients_in(module, number)
    made = made_of(module, number) if isinstance(source, ir.Call) else []
    here = [each for each in made if isinstance(each, ir.Call) and ir.function_of(each) is ir.function_of(at)]
    return next((each for each in reversed(here) if gradients_in(module, each) is source), None)


def _collected(module: Module) -> Iterator[Averaged]:
    """The numbers that a meter or a list of which the mean is taken is given."""
    for call in module.whole.near("update", "append").calls:
        func = call.func
        if isinstance(func, ir.Attribute) and call.args:
            if func.attr == "update" and _METER.search(ir.last_name(func.base)):
                given = call.args if not module.once(_meters_are_careful) else ()
                yield from (Averaged(call, arg.value) for arg in given if not arg.star)
            elif func.attr == "append" and _is_averaged(module, func.base):
                yield Averaged(call, call.args[0].value)


def _meters_are_careful(module: Module) -> bool:
    """Whether a method `update`, here or in another file of the program, looks at what it is given:
    `if math.isfinite(value):`.
    """
    filename = module.source.filename
    if _CAREFUL.search(module.source.text.encode()):
        return True
    return bool(in_reach(os.path.abspath(filename), b"def update")) and not surely_lack(filename, _CAREFUL)


def _added(module: Module) -> Iterator[Averaged]:
    """The numbers that an assignment adds to a sum or a moving average."""
    for statement in module.whole.near("+").statements:
        if isinstance(statement, ir.AugAssign) and statement.op == "Add":
            yield Averaged(statement, statement.value)
        elif isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Binary):
            if _is_moving(module, statement):
                yield Averaged(statement, statement.value)


def _is_moving(module: Module, statement: ir.Assign) -> bool:
    """`average = 0.9 * average + 0.1 * norm`, and so of one of several: `average[i] = ...`."""
    known = objects(module)
    value = statement.value
    if not isinstance(value, ir.Binary) or value.op != "Add" or len(statement.targets) != 1:
        return False
    target = statement.targets[0]
    if isinstance(target, ir.Subscript):
        written = module.text(target)
        return any(isinstance(each, ir.Subscript) and module.text(each) == written for each in ir.walk_values(value))
    key = known.render(target)
    return key is not None and any(
        known.render(each) == key for each in ir.walk_values(value) if isinstance(each, (ir.Name, ir.Attribute))
    )


def _is_averaged(module: Module, kept: ir.Value) -> bool:
    """Whether the mean of a list is taken: `sum(norms) / len(norms)`, `np.mean(norms)`."""
    known = objects(module)
    key = known.own_key(kept) if isinstance(kept, ir.Name) else known.key(kept)
    for read in reads_of(module, key) if key is not None else ():
        up: ir.Node | None = read.parent
        while isinstance(up, ir.Value):
            if isinstance(up, ir.Call) and ir.last_name(up.func) in _MEANS:
                return True
            up = up.parent
    return False


def _is_looked_at(module: Module, norm: ir.Node, at: ir.Node) -> bool:
    """Whether NaN and infinity are asked for, or replaced, between the clip and the mean."""
    between = _CLIPS.sub("", module.source.text[module.span(norm)[1] : module.span(at)[1]])
    return bool(FINITE.search(between) or _REPLACES.search(between))
