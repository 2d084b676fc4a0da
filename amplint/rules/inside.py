"""What AMP301 and AMP302 share: events inside an open autocast region, and the fix that ends it before them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.findings import Applicability, Fix
from amplint.model import ir
from amplint.model.dtypes import is_false, region_of
from amplint.model.events import Event
from amplint.model.flow import flows
from amplint.model.objects import objects
from amplint.model.state import Opened
from amplint.rules.dedent import Refused, enclosing_with, end_region, top_statement

if TYPE_CHECKING:
    from amplint.model import Module

BACKWARD = ("backward",)
STEPS = ("step", "optimizer_step")
# torch.optim's optimizers whose step is elementwise: autocast changes nothing in it (measured; Adafactor uses matmul).
_ELEMENTWISE = {
    f"torch.optim.{name}"
    for name in ("SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "Adagrad", "Adadelta", "ASGD")
}


class Inside(NamedTuple):
    """An event that some path reaches with a region open."""

    event: Event
    region: Opened


def inside(module: Module, kinds: tuple[str, ...]) -> Iterator[Inside]:
    """The events of some kinds that run inside a region, in the order of the text."""
    for each in module.once(_all_inside):
        if each.event.kind in kinds:
            yield each


def _all_inside(module: Module) -> list[Inside]:
    found = []
    for flow in flows(module):
        for visit in flow.visits.values():
            if visit.event.kind in (*BACKWARD, *STEPS):
                found_open = (flow.regions.innermost(state, flow.conditions) for state in visit.states)
                opened = next((each for each in found_open if each is not None), None)
                if opened is not None:
                    found.append(Inside(visit.event, opened))
    return sorted(found, key=lambda each: each.event.call.id)


def region_row(module: Module, region: Opened) -> int:
    """The line of the place where the region is entered."""
    return module.row(_value_with_id(module, region.at))


def fix(module: Module, found: Inside) -> tuple[Fix | None, str | None]:
    """The fix that ends the region before its first backward or step, or why there is none."""
    holder = enclosing_with(found.event.call, lambda item: item.context.id == found.region.at)
    if holder is None:
        return (
            None,
            "the region is a decorator or entered by hand: restructure it, so that it holds the forward and the loss",
        )
    region, item = holder
    within = [each for each in module.once(_all_inside) if each.region.at == found.region.at]
    tops = {statement.id: statement for each in within for statement in [top_statement(each.event.call, region)]}
    safe = not _has_bare_function(module) and all(_is_safe_step(module, each.event) for each in within)
    result = end_region(module, region, item, [tops[number] for number in sorted(tops)], safe=safe)
    if isinstance(result, Refused):
        return None, result.reason
    if result.applicability is Applicability.UNSAFE and not _has_bare_function(module):
        return result._replace(message=f"{result.message}; the optimizer may rely on the region"), None
    return result, None


def _is_safe_step(module: Module, event: Event) -> bool:
    """A step without a closure, by an optimizer whose arithmetic no region changes."""
    if event.kind not in STEPS:
        return True
    assert isinstance(event.call, ir.Call)
    if len(event.call.args) > (1 if event.kind == "step" else 0) or event.optimizer is None:
        return False
    made = objects(module).classes.get(event.optimizer, set())
    return bool(made) and made <= _ELEMENTWISE


def _has_bare_function(module: Module) -> bool:
    """Whether the file defines an autograd.Function without custom_fwd: its backward may need the region."""
    return any(True for _ in bare_functions(module))


def bare_functions(module: Module) -> Iterator[ir.Class]:
    """The file's `torch.autograd.Function`s that custom_fwd and custom_bwd don't decorate."""
    for statement in module.statements:
        if isinstance(statement, ir.Class) and any(
            "torch.autograd.Function" in module.names.of(base.value)
            or "torch.autograd.function.Function" in module.names.of(base.value)
            for base in statement.bases
        ):
            decorators = [
                name
                for method in statement.body.statements
                if isinstance(method, ir.Function)
                for value in method.decorators
                for name in module.names.of(value.func if isinstance(value, ir.Call) else value)
            ]
            if not any(name.endswith(("custom_fwd", "custom_bwd")) for name in decorators):
                yield statement


def has_island(module: Module, found: Inside) -> bool:
    """Whether a part of the region is switched off, so that backward inside computes it in another dtype."""
    holder = enclosing_with(found.event.call, lambda item: item.context.id == found.region.at)
    if holder is None:
        return False
    for statement in ir.walk_statements(holder[0].body, into=False):
        if isinstance(statement, ir.With):
            for item in statement.items:
                region = region_of(module, item.context) if isinstance(item.context, ir.Call) else None
                if region is not None and is_false(region.enabled):
                    return True
    return False


def _value_with_id(module: Module, number: int) -> ir.Value:
    return next(value for value in module.values if value.id == number)
