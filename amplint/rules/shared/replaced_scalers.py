"""Scalers whose state is loaded, and that a new one then replaces (AMP413)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.syntax import ir
from amplint.model.syntax.nesting import dominates
from amplint.model.torch_facts.names import SCALER_METHODS, SCALERS

if TYPE_CHECKING:
    from amplint.model import Module

_RESTORES = re.compile(r"(?i)load|restore|resume")
_LOADS = "load_state_dict"


class Replaced(NamedTuple):
    """A call that creates a scaler, in the place of one whose state `load` has loaded.

    `surely`: by `load_state_dict`; else by what a call gives that loads, by its name.
    """

    made: ir.Call
    load: ir.Call
    surely: bool


def replaced_scalers(module: Module) -> Iterator[Replaced]:
    """The scalers of the file that are created after a state was loaded, which is lost by that."""
    for made in module.calls_of(*SCALERS):
        statement = ir.statement_of(made)
        if not module.is_own(made) or not isinstance(statement, ir.Assign) or len(statement.targets) != 1:
            continue
        target = statement.targets[0]
        if statement.value is not made or not isinstance(target, (ir.Name, ir.Attribute)):
            continue
        function, text = ir.function_of(made), module.text(target)
        calls = [each for each in module.whole.within(function).calls if ir.function_of(each) is function]
        if any(each.id > made.id and _is_called_on(module, each, text, (_LOADS,)) for each in calls):
            continue  # the state goes to the new one
        before = [each for each in calls if each.id < made.id and dominates(each, made)]
        loads = [each for each in before if _is_loaded_by(module, each, text)]
        last = loads[-1] if loads else None
        used = (*SCALER_METHODS, "state_dict")
        if last is not None and not any(
            last.id < each.id and each is not last and _is_called_on(module, each, text, used) for each in before
        ):
            yield Replaced(made, last, ir.last_name(last.func) == _LOADS)


def _is_called_on(module: Module, call: ir.Call, text: str, methods: tuple[str, ...]) -> bool:
    base = ir.called_on(call, *methods)
    return base is not None and module.text(base) == text


def _is_loaded_by(module: Module, call: ir.Call, text: str) -> bool:
    """Whether a call loads a scaler's state, or takes the scaler and gives it back with its state."""
    if _is_called_on(module, call, text, (_LOADS,)):
        return True
    statement = ir.statement_of(call)
    if not isinstance(statement, ir.Assign) or statement.value is not call:
        return False
    if not _RESTORES.search(ir.last_name(call.func)) or all(module.text(arg.value) != text for arg in call.args):
        return False
    targets = [part for each in statement.targets for part in ir.walk_values(each)]
    return any(module.text(each) == text for each in targets)
