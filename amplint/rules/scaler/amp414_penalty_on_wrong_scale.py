"""A gradient penalty is computed from gradients at the wrong scale.

## What it does
Finds `torch.autograd.grad(..., create_graph=True)`, if a penalty is computed from the result and added to a loss that a
scaler scales:

- gradients of a scaled loss, if nothing divides them by the scale: the finding is an error;
- gradients of the unscaled loss, if it was computed in float16: the finding is a warning. Small gradients become 0, and
  so does the penalty.

amplint reports nothing:

- if the function reads the scale, or passes the scaler to another function;
- about unscaled gradients of scores and other outputs that are not losses, as WGAN-GP takes them;
- if only the direction of the gradients is used (`g / g.norm()`);
- about an unscaled loss in bfloat16 or float32;
- if amplint can't see where the gradients go.

## Why is this bad?
A penalty of scaled gradients is too large by the scale, or by its square, and changes whenever the scale does. At the
initial scale, the gradients in the penalty are 65,536 times too large.

Without a scale, most gradients below 6e-8 become 0 in float16. In a test with a loss of 1e-5 times its usual size, the
penalty was 0.

If `1.0 / scaler.get_scale()` raises ZeroDivisionError, the scale has fallen to 0: gradients overflow at every scale.

## Example
```python
grads = torch.autograd.grad(scaler.scale(loss), model.parameters(), create_graph=True)
penalty = torch.stack([g.pow(2).sum() for g in grads]).sum().sqrt()
scaler.scale(loss + penalty).backward()
```

## Use instead
```python
scaled_grads = torch.autograd.grad(scaler.scale(loss), model.parameters(), create_graph=True)
inv_scale = 1.0 / scaler.get_scale()
grads = [g * inv_scale for g in scaled_grads]
penalty = torch.stack([g.pow(2).sum() for g in grads]).sum().sqrt()
scaler.scale(loss + penalty).backward()
```

## Fix safety
There is no fix: the division belongs between the gradients and the penalty, and amplint can't tell on which line.

## Proof
The test programs are compared with a float32 reference step. The SGD update of the wrong programs differs from it, and
the update of the corrected programs agrees with it.

## References
- [Gradient penalty](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-penalty)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Finding, Severity
from amplint.model.flow.analysis import Flow, flows
from amplint.model.flow.value_uses import ValueUses, named_after_scale
from amplint.model.inference.value_sets import decided
from amplint.model.inference.values import values_of
from amplint.model.names.reaching_definitions import reaching
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import Region
from amplint.model.regions.regions_at import regions_at
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.queries import is_false
from amplint.registry.rule import Rule
from amplint.rules.shared.loss_origin import Origin
from amplint.rules.shared.scale_reports import uses_scale
from amplint.rules.shared.scaler_order import always_off, reached_events

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(),
    triggers=("create_graph & .scale( & grad(",),
    shown_by=("gradient", "update"),
)


_WHERE = "amplint can't tell on which line the penalty is computed from the gradients"


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each gradient of a penalty that has the wrong scale."""
    calls = module.calls_of("torch.autograd.grad")
    for flow in flows(module) if calls else ():
        for call in calls:
            if flow.contains(call) and _is_in_sight(module, call):
                losses = _losses_with(module, flow, call)
                outputs, start = (argument(call, "torch.autograd.grad", name) for name in ("outputs", "grad_outputs"))
                if not losses or outputs is None:
                    continue
                if _is_scaled(module, outputs) or _is_scaled(module, start):
                    yield rule.finding(
                        module.span(call),
                        "the gradients of this call are still multiplied by the loss scale; divide the "
                        "gradients by `get_scale()` before the gradient penalty is computed",
                        withheld=_WHERE,
                    )
                elif start is None and _is_loss(module, outputs, losses):
                    yield rule.finding(
                        module.span(call),
                        "small gradients of an unscaled loss become 0 in float16, and the gradient penalty with them; "
                        "pass the scaled loss to this call, and divide the gradients by `get_scale()`",
                        withheld=_WHERE,
                        severity=Severity.WARNING,
                    )


def _is_in_sight(module: Module, call: ir.Call) -> bool:
    """Whether a gradient is differentiated again, and nothing in its function can divide it by the scale unseen."""
    graph = argument(call, "torch.autograd.grad", "create_graph")
    if not (isinstance(graph, ir.Constant) and graph.value is True) or uses_scale(module, call):
        return False
    known, function = objects(module), ir.function_of(call)
    return not any(
        known.is_scaler(arg.value) is not None
        for each in module.whole.within(function).calls
        if ir.function_of(each) is function
        for arg in each.args
    )


def _losses_with(module: Module, flow: Flow, call: ir.Call) -> list[ir.Value]:
    """The losses that are scaled for backward, and that the gradients go into."""
    found = []
    for reached in reached_events(flow, "scale"):
        scale, subject = reached.event.call, reached.event.subject
        if subject is None or always_off(flow, reached):
            continue
        origin = Origin(module, flow, subject)
        if call in origin.values and not _meets_scale(module, flow, origin, call):
            if "backward" in ValueUses(module, scale).found:
                found.append(subject)
    made = call.parent if isinstance(call.parent, ir.Subscript) else call
    return [] if ValueUses(module, made).found & {"divisor", "compensated", "lost"} else found


def _meets_scale(module: Module, flow: Flow, origin: Origin, call: ir.Call) -> bool:
    """Whether a loss is made with the scale, but for what a scaler scaled and the gradients of that."""
    known = objects(module)
    for value in origin.values:
        if isinstance(value, (ir.Name, ir.Attribute)) and named_after_scale(value) and not _is_scaled(module, value):
            scales = isinstance(value, ir.Attribute) and value.attr == "scale" and known.is_scaler(value.base)
            # Of a variable that is made of the gradients, what else it is made of is among these values itself.
            if not scales and not (isinstance(value, ir.Name) and call in Origin(module, flow, value).values):
                return True
    return False


def _is_scaled(module: Module, value: ir.Value | None) -> bool:
    """`scaler.scale(loss)`, or a variable that holds nothing else."""
    if isinstance(value, ir.Name):
        found = values_of(module, value)
        return found.is_closed and all(
            each.value is not value and _is_scaled(module, each.value) for each in found.leaves
        )
    if isinstance(value, ir.Sequence) and len(value.items) == 1:
        return _is_scaled(module, value.items[0])
    return (
        isinstance(value, ir.Call)
        and isinstance(value.func, ir.Attribute)
        and value.func.attr == "scale"
        and objects(module).is_scaler(value.func.base) is not None
    )


# --- unscaled losses ------------------------------------------------------------------------------------------------


def _is_loss(module: Module, outputs: ir.Value, losses: list[ir.Value]) -> bool:
    """Whether gradients are taken of a term of the loss itself, computed in float16."""
    if not isinstance(outputs, ir.Name):
        return False
    known = objects(module)
    key = known.own_key(outputs)
    bindings = reaching(module.names, outputs)
    made = [each.value for each in bindings if isinstance(each, Assigned)]
    if not made or len(made) != len(bindings) or not all(_is_half(module, each) for each in made):
        return False
    return any(key in _terms(module, loss, set()) for loss in losses)


def _terms(module: Module, loss: ir.Value, seen: set[str]) -> set[str]:
    """The variables that a loss is a sum of, weights aside."""
    known = objects(module)
    if isinstance(loss, ir.Binary) and loss.op in ("Add", "Subtract", "Multiply", "Divide"):
        return _terms(module, loss.left, seen) | _terms(module, loss.right, seen)
    if isinstance(loss, ir.Name) and (key := known.own_key(loss)) not in seen:
        seen.add(key)
        return {key}.union(*(_terms(module, each, seen) for each in known.sources(loss)))
    return set()


def _is_half(module: Module, value: ir.Value) -> bool:
    """Whether a value is computed in a region that is surely one of float16."""
    found = [each.region for each in regions_at(module, value) if each.site is None]
    return bool(found) and all(_is_float16(module, each) for each in found)


def _is_float16(module: Module, region: Region) -> bool:
    return not is_false(region.enabled) and all(
        each.name == "float16" for each in decided(module).region_dtypes(region)
    )
