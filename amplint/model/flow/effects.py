"""What can change a state of flow analysis, going by the text: expressions, and the arms of conditions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.events import events, is_grad
from amplint.model.flow.gradient_reads import read_of
from amplint.model.objects.amp_objects import objects
from amplint.model.regions.openers import BY_HAND
from amplint.model.syntax import ir

if TYPE_CHECKING:
    from amplint.model import Module


def _touches(values: Iterable[ir.Value]) -> bool:
    """Whether any of some values is a gradient, or enters or leaves a region by hand."""
    return any(isinstance(each, ir.Attribute) and (each.attr in BY_HAND or is_grad(each)) for each in values)


class Effects:
    """Judges the expressions of one module, whatever the path."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._external_calls = events(module).external_calls
        self._has_effects: dict[ir.Value, bool] = {}
        self._operands: dict[ir.Value, list[ir.Value]] = {}

    def has_effects(self, value: ir.Value) -> bool:
        """Whether an expression can change a state at all, by itself or by an operand."""
        if value not in self._has_effects:
            self._has_effects[value] = (
                isinstance(value, (ir.Call, ir.Walrus, ir.Suspend))
                or (isinstance(value, ir.Compare) and read_of(self._module, value) is not None)
                or (isinstance(value, ir.Attribute) and self._external_calls.runs_by_reading(value))
                or any(map(self.has_effects, value.children()))
            )
        return self._has_effects[value]

    def operands(self, value: ir.Value) -> list[ir.Value]:
        """The operands of an expression that can."""
        if value not in self._operands:
            self._operands[value] = [each for each in value.children() if self.has_effects(each)]
        return self._operands[value]


class Arms:
    """Reads the arms of one module's conditions."""

    def __init__(self, module: Module) -> None:
        self._events = events(module)
        self._objects = objects(module)
        self._calls = module.once(CallGraph)
        self._deciding: dict[int, bool] = {}
        self._unscaling: dict[int, bool] = {}
        self._behind: dict[int, bool] = {}

    def decides(self, statement: ir.If) -> bool:
        """Whether anything that matters to the scaler or the gradients depends on a condition."""
        known = self._deciding
        if statement.id not in known:
            known[statement.id] = any(map(self._is_decided, statement.blocks()))
        return known[statement.id]

    def _is_decided(self, arm: ir.Block) -> bool:
        calls = self._calls
        if _touches(ir.values_below(arm)):
            return True
        if any(map(self._is_effect, ir.walk_statements(arm, into=False))):
            return True
        return calls.trains(arm) or any(calls.callee(each) is not None for each in ir.calls_below(arm))

    def _is_effect(self, statement: ir.Statement) -> bool:
        """Whether a statement, its calls aside, leaves its suite, enters a context, or sets a flag or an object."""
        if isinstance(statement, ir.Jump):
            return statement.kind != "pass"
        if isinstance(statement, ir.Assert):  # it ends the paths on which there is a scaler, or none
            return any(map(self._is_kept, ir.walk_values(statement.test)))
        if not isinstance(statement, ir.Assign):
            return isinstance(statement, (ir.Return, ir.Raise, ir.With))
        flag = isinstance(statement.value, (ir.Constant, ir.Bool, ir.Compare, ir.Unary))
        return flag or any(is_grad(target) or self._is_kept(target) for target in statement.targets)

    def _is_kept(self, value: ir.Value) -> bool:
        """Whether a value is what keeps a scaler or an optimizer."""
        key = self._objects.key(value) if isinstance(value, (ir.Name, ir.Attribute)) else None
        return key is not None and (self._objects.is_scalers(key) or self._objects.is_optimizers(key))

    def has_events(self, block: ir.Block) -> bool:
        """Whether anything in a suite can matter to the scaler or the gradients, where it can't be seen too."""
        if any(True for _ in self._events.below(block)) or self._calls.trains(block):
            return True
        if any(isinstance(each, ir.Attribute) and is_grad(each) for each in ir.values_below(block)):
            return True
        contexts = (
            item.context
            for each in ir.walk_statements(block, into=False)
            if isinstance(each, ir.With)
            for item in each.items
        )
        return any(map(self._events.external_calls.runs_by_entering, contexts))

    def may_train(self, statement: ir.Statement) -> bool:
        """Whether anything in a compound statement, its tests and contexts included, may matter to them."""
        if any(True for _ in self._events.in_statement(statement)) or any(map(self.has_events, statement.blocks())):
            return True
        own = [each for value in statement.values() for each in ir.walk_values(value)]
        if _touches(own) or any(_touches(ir.values_below(block)) for block in statement.blocks()):
            return True
        called = (self._calls.callee(each) for each in own if isinstance(each, ir.Call))
        if any(callee is not None and self._calls.trains(callee.function.body) for callee in called):
            return True
        contexts = [item.context for item in statement.items] if isinstance(statement, ir.With) else []
        return any(map(self._events.external_calls.runs_by_entering, contexts))

    def unscales(self, arm: ir.Block | None) -> bool:
        """Whether a suite holds what could unscale gradients."""
        return arm is not None and any(self._may_unscale(each) for each in arm.statements)

    def _may_unscale(self, statement: ir.Statement) -> bool:
        if statement.id not in self._unscaling:
            self._unscaling[statement.id] = not isinstance(statement, (ir.Function, ir.Class)) and (
                any(event.kind in ("unscale_", "opaque") for event in self._events.in_statement(statement))
                or any(self.unscales(block) for block in statement.blocks())
            )
        return self._unscaling[statement.id]

    def unscales_behind(self, statement: ir.Statement) -> bool:
        """Whether what runs behind a statement, up to the end of the loop or function, could unscale gradients."""
        if statement.id not in self._behind:
            owner = statement.block.owner
            inner = isinstance(owner, ir.Statement) and not isinstance(owner, (ir.Function, ir.Class, ir.For, ir.While))
            found = inner and isinstance(owner, ir.Statement) and self.unscales_behind(owner)
            for each in reversed(statement.block.statements):
                self._behind[each.id] = found
                found = found or self._may_unscale(each)
        return self._behind[statement.id]
