"""Schedules that lower an optimizer's learning rate (AMP217): one that only warms up raises it, and leaves it there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from amplint.model.calls.external_calls import local_callable
from amplint.model.inference.numbers import number
from amplint.model.inference.values import held
from amplint.model.names.reaching_definitions import returned
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import upwards
from amplint.rules.shared.schedulers import makes_scheduler

if TYPE_CHECKING:
    from amplint.model import Module

_SCHEDULE = re.compile(r"(?i)lr_?sched|schedule|(LR|Restarts)\(")
_TORCHS = "torch.optim.lr_scheduler."
# What the first steps are called in which a rate rises.
_WARM = re.compile(r"(?i)warm|ramp")
_LESS = ("LessThan", "LessThanEqual")
_DEEP = 8


def is_lowered(module: Module, optimizer: set[str]) -> bool:
    """Whether the code lowers the learning rate of an optimizer: by a scheduler, or by rates that it sets in a loop."""
    known = objects(module)
    for call in module.whole.near(_SCHEDULE).calls:
        given = [*call.positional[:1], *(each for each in [call.keyword("optimizer")] if each is not None)]
        if schedules(module, call) and any(known.key(each) in optimizer for each in given):
            if not _only_raises(module, call):
                return True
    return any(
        isinstance(each, ir.For)
        and isinstance(each.iter, ir.Attribute)
        and each.iter.attr == "param_groups"
        and known.key(each.iter.base) in optimizer
        and any(_lowers(module, inside) for inside in ir.walk_statements(each.body, into=False))
        for each in module.whole.near("param_groups").statements
    )


def schedules(module: Module, call: ir.Call) -> bool:
    """Whether a call makes a scheduler of the learning rate, and no optimizer."""
    return any(map(makes_scheduler, module.names.of(call.func)))


def _only_raises(module: Module, scheduler: ir.Call) -> bool:
    """Whether a scheduler surely raises the rate to what the optimizer was given, and leaves it there."""
    name = (module.names.only(scheduler.func) or "").rpartition(".")[2]
    if name == "LinearLR":
        end = scheduler.keyword("end_factor")
        kind = number(module, end) if end is not None else None
        return len(scheduler.positional) < 3 and (end is None or (kind is not None and kind.value == 1))
    if name == "LambdaLR":
        given = scheduler.positional[1] if len(scheduler.positional) > 1 else scheduler.keyword("lr_lambda")
        factor = local_callable(module, held(module, given)) if given is not None else None
        return factor is not None and _has_rising_results(module, factor)
    return name.startswith("get_constant_schedule") or name == "ConstantLR"


def _has_rising_results(module: Module, factor: ir.Function) -> bool:
    """Whether all that a function of the step gives rises to 1."""
    if factor.is_generator or len(factor.params) != 1:
        return False
    step, results = factor.params[0].name, [each.value for each in returned(factor)]
    return bool(results) and all(each is not None and _rises_to_one(module, each, step) for each in results)


def _lowers(module: Module, statement: ir.Statement) -> bool:
    """Whether a statement, `group["lr"] = ...`, may lower the rate."""
    targets = statement.targets if isinstance(statement, ir.Assign) else ()
    sets = any(
        isinstance(each, ir.Subscript) and isinstance(each.index, ir.Constant) and each.index.value == "lr"
        for each in targets
    )
    return sets and isinstance(statement, ir.Assign) and not _warms_up(module, statement)


def _warms_up(module: Module, statement: ir.Assign) -> bool:
    """Whether a rate is set in the first steps alone, `if step < warmup_steps`, or has a factor that rises to 1."""
    for each in upwards(statement):
        test = each.parent.test if isinstance(each.parent, ir.If) and each.block is each.parent.then else None
        if isinstance(test, ir.Compare) and test.ops[0] in _LESS and _WARM.search(module.text(test.rights[0])):
            return True
    value = statement.value
    factors = list(_factors(value)) if value is not None else []
    return any(_rises_to_one(module, held(module, each), None, named=True) for each in factors)


def _factors(value: ir.Value) -> Iterator[ir.Value]:
    if isinstance(value, ir.Binary) and value.op == "Multiply":
        yield from _factors(value.left)
        yield from _factors(value.right)
    else:
        yield value


def _rises_to_one(
    module: Module, value: ir.Value, step: str | None, depth: int = _DEEP, *, named: bool = False
) -> bool:
    """Whether a factor is 1, or rises to it: `min(1, step / warmup)`, `step / warmup if step < warmup else 1`.

    `step`: the variable that counts. `named`: 1 alone, which leaves what the other factor makes, is none.
    """
    if not depth:
        return False
    if isinstance(value, ir.Conditional):
        return all(_rises_to_one(module, each, step, depth - 1) for each in (value.then, value.other))
    if isinstance(value, ir.Constant):
        return not named and value.value == 1
    if isinstance(value, ir.Call) and ir.last_name(value.func) == "min" and len(value.positional) == 2:
        return all(_rises_to_one(module, each, step, depth - 1) for each in value.positional)
    return _is_share(module, value, step)


def _is_share(module: Module, value: ir.Value, step: str | None) -> bool:
    """Whether a value grows with the steps: a quotient with those above, and what is called a warm-up below."""
    if isinstance(value, ir.Call) and ir.last_name(value.func) == "float" and len(value.positional) == 1:
        return _is_share(module, value.positional[0], step)
    if not isinstance(value, ir.Binary) or value.op != "Divide":
        return False
    above = list(ir.walk_values(value.left))
    if any(each.op not in ("Add", "Multiply") for each in above if isinstance(each, ir.Binary)):
        return False
    if step is None:
        return any(isinstance(each, ir.Name) for each in above) and bool(_WARM.search(module.text(value.right)))
    return _reads(above, step) and not _reads(ir.walk_values(value.right), step)


def _reads(values: Iterable[ir.Value], name: str) -> bool:
    return any(isinstance(each, ir.Name) and each.name == name for each in values)
