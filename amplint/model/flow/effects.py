"""Which expressions can change a state of flow analysis: most can't, and paths come by them again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.calls.events import events
from amplint.model.flow.gradient_reads import read_of
from amplint.model.syntax import ir

if TYPE_CHECKING:
    from amplint.model import Module


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
