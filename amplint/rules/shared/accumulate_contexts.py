"""Gradients that are cleared inside of `with accelerator.accumulate(...)`, before the backward pass (AMP427).

As of accelerate 1.15 (accelerate/optimizer.py): a prepared optimizer clears and steps on the last micro step alone. A
clear before the backward pass of that one takes the gradients of all micro steps before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.inference.numbers import number
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import conditions, loop_of, upwards
from amplint.model.usage.accelerators import accelerators

if TYPE_CHECKING:
    from amplint.model import Module


class EarlyClear(NamedTuple):
    """A clear in such a context, the step behind its backward pass, and the number of micro steps.

    `period`: what the Accelerator is made with; None where another file makes it. `is_number`: it is one in the code.
    """

    call: ir.Call
    step: ir.Call
    period: ir.Value | None
    is_number: bool


def early_clears(module: Module) -> Iterator[EarlyClear]:
    """The clears of prepared optimizers in such contexts that a backward pass and their step follow."""
    for clear in module.own.called("zero_grad") if accelerators(module).is_used else ():
        optimizer = ir.called_on(clear, "zero_grad")
        context = _context(module, clear)
        if optimizer is None or context is None or not _is_prepared(module, optimizer):
            continue
        entered, accelerator = context
        step = _step_behind(module, entered, clear, optimizer)
        periods = _periods(module, accelerator)
        count = number(module, periods[0]) if len(periods) == 1 else None
        if step is not None and len(periods) == 1 and (count is None or count.value != 1):
            yield EarlyClear(clear, step, periods[0], count is not None)


def _context(module: Module, node: ir.Node) -> tuple[ir.With, ir.Value] | None:
    """The innermost `with accelerator.accumulate(...)` round a node, and the Accelerator."""
    for each in upwards(ir.statement_of(node)):
        for item in each.parent.items if isinstance(each.parent, ir.With) else ():
            accelerator = ir.called_on(item.context, "accumulate")
            if accelerator is not None and accelerators(module).owns(accelerator):
                assert isinstance(each.parent, ir.With)
                return each.parent, accelerator
    return None


def _is_prepared(module: Module, optimizer: ir.Value) -> bool:
    """Whether an optimizer is one that an Accelerator in sight has prepared."""
    known = objects(module)
    key = known.key(optimizer)
    given = (arg.value for call in accelerators(module).prepared() for arg in call.args)
    return key is not None and key in {known.key(each) for each in given}


def _periods(module: Module, accelerator: ir.Value) -> list[ir.Value | None]:
    """The periods that the Accelerators are made with that a value can be; none where they don't accumulate."""
    known = accelerators(module)
    made = known.made(accelerator)
    return [each for call in made if (each := known.period(call)) is not None] if made else [None]


def _step_behind(module: Module, entered: ir.With, clear: ir.Call, optimizer: ir.Value) -> ir.Call | None:
    """The step of an optimizer in a context, if the backward passes there come between a clear and that."""
    inside = [each for each in ir.calls_below(entered.body) if loop_of(each) is loop_of(clear)]
    backwards = [each for each in inside if ir.last_name(each.func) == "backward"]
    if not backwards or any(each.id < clear.id for each in backwards) or conditions(clear, backwards[0]):
        return None
    key = objects(module).key(optimizer)
    for each in inside:
        base = ir.called_on(each, "step")
        stepped = each.positional[0] if base is not None and each.positional else base
        if stepped is not None and objects(module).key(stepped) == key and each.id > backwards[-1].id:
            return each
    return None
