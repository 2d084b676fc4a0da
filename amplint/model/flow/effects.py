"""Which expressions can change a state of flow analysis: most can't, and paths come by them again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.calls.events import events
from amplint.model.flow.gradient_reads import read_of
from amplint.model.syntax import ir

if TYPE_CHECKING:
    from amplint.model import Module


class Acting:
    """Judges the expressions of one module, whatever the path."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._unseen = events(module).unseen
        self._acts: dict[ir.Value, bool] = {}
        self._of: dict[ir.Value, list[ir.Value]] = {}

    def acts(self, value: ir.Value) -> bool:
        """Whether an expression can change a state at all, by itself or by an operand."""
        if value not in self._acts:
            self._acts[value] = (
                isinstance(value, (ir.Call, ir.Walrus, ir.Suspend))
                or (isinstance(value, ir.Compare) and read_of(self._module, value) is not None)
                or (isinstance(value, ir.Attribute) and self._unseen.runs_by_reading(value))
                or any(map(self.acts, value.children()))
            )
        return self._acts[value]

    def of(self, value: ir.Value) -> list[ir.Value]:
        """The operands of an expression that can."""
        if value not in self._of:
            self._of[value] = [each for each in value.children() if self.acts(each)]
        return self._of[value]
