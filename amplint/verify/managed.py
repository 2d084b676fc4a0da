"""The AMP events of a step as verify sees them: PyTorch's own, and accelerate's, which scales by itself.

What `accelerate` does is as of its release 1.15 (accelerate/accelerator.py, accelerate/optimizer.py).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from amplint.model import ir
from amplint.model.events import Event, Events
from amplint.model.scopes import Assigned

if TYPE_CHECKING:
    from amplint.model import Module

ACCELERATORS = {"accelerate.Accelerator", "accelerate.accelerator.Accelerator"}
LIBRARY, _NAME = "accelerate", "accelerator"
_KINDS = {"clip_grad_norm_": "clip", "clip_grad_value_": "clip", "unscale_gradients": "unscale_"}


class StepEvents(Events):
    """Recognises the events of one module, those of an Accelerator too."""

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self._recognised: dict[int, Event | None] = {}
        self._steppers: dict[ir.Function | None, list[ir.Value]] | None = None
        self._imported = any(
            name.partition(".")[0] == LIBRARY
            for each in module.statements
            if isinstance(each, ir.Import)
            for name in ([each.module] if each.module else [alias.name for alias in each.aliases])
        )

    def of(self, call: ir.Call) -> Event | None:
        """The event that a call is, if it is one."""
        if call.id not in self._recognised:
            self._recognised[call.id] = self._managed(call) or super().of(call)
        return self._recognised[call.id]

    def _managed(self, call: ir.Call) -> Event | None:
        func = call.func
        if not self._imported or not isinstance(func, ir.Attribute) or not self.is_accelerator(func.base):
            return None
        subject = call.args[0].value if call.args else None
        if func.attr == "backward" and subject is not None:
            return Event("backward", call, subject=subject, how=LIBRARY)
        if func.attr in _KINDS:
            return Event(_KINDS[func.attr], call, subject=subject, how=LIBRARY)
        return None

    def is_accelerator(self, value: ir.Value) -> bool:
        """Whether a value is an Accelerator, by how it is made or called in a file that imports accelerate."""
        if not self._imported:
            return False
        if ir.last_name(value).lower().lstrip("_") == _NAME:
            return True
        bindings = self._module.names.bindings(value) if isinstance(value, ir.Name) else []
        made = bindings[0].value if len(bindings) == 1 and isinstance(bindings[0], Assigned) else None
        return isinstance(made, ir.Call) and bool(self._module.names.of(made.func) & ACCELERATORS)

    def steppers(self, function: ir.Function | None) -> list[ir.Value]:
        """The optimizers that a function steps itself, as it writes them."""
        if self._steppers is None:
            self._steppers = {}
            for call in self._module.calls:
                event = self.of(call)
                if event is not None and event.kind == "optimizer_step" and isinstance(call.func, ir.Attribute):
                    self._steppers.setdefault(ir.function_of(call), []).append(call.func.base)
        return self._steppers.get(function, [])

    @cached_property
    def mixes(self) -> bool:
        """Whether the file has backwards that are no Accelerator's."""
        found = [each for call in self._module.calls if (each := self.of(call)) is not None and each.kind == "backward"]
        return any(each.how != LIBRARY for each in found)

    @cached_property
    def prepares(self) -> bool:
        """Whether the file hands anything to `accelerator.prepare`."""
        return any(
            isinstance(each.func, ir.Attribute)
            and each.func.attr.startswith("prepare")
            and self.is_accelerator(each.func.base)
            for each in self._module.calls
        )
