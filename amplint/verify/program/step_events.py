"""The AMP events of a step as verify sees them: PyTorch's own, and accelerate's, which scales by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from amplint.model.calls.events import Events
from amplint.model.objects.event import OF_SCALER, Event
from amplint.model.syntax import ir
from amplint.model.usage.accelerators import LIBRARY, accelerators

if TYPE_CHECKING:
    from amplint.model import Module


class StepEvents(Events):
    """Recognises the events of one module, those of an Accelerator too."""

    def __init__(self, module: Module, is_imported_scaler: Callable[[ir.Value], bool]) -> None:
        super().__init__(module)
        self._is_imported_scaler = is_imported_scaler
        self._has_asked = False
        self._recognised: dict[int, Event | None] = {}
        self._steppers: dict[ir.Function | None, list[ir.Value]] | None = None

    def of(self, call: ir.Call) -> Event | None:
        """The event that a call is, if it is one."""
        if not self._has_asked:
            self._has_asked = True
            self._read_imported()
        if call.id not in self._recognised:
            self._recognised[call.id] = self._managed(call) or super().of(call)
        return self._recognised[call.id]

    def _read_imported(self) -> None:
        """Know the scalers that other files make, by what calls do with them."""
        for call in self._module.calls:
            func = call.func
            if isinstance(func, ir.Attribute) and func.attr in OF_SCALER and self._is_imported_scaler(func.base):
                if (key := self._objects.key(func.base)) is not None:
                    self._objects.scalers.add(key)

    def _managed(self, call: ir.Call) -> Event | None:
        kind = accelerators(self._module).kind(call)
        subject = call.args[0].value if call.args else None
        return Event(kind, call, subject=subject, how=LIBRARY) if kind is not None else None

    def is_accelerator(self, value: ir.Value) -> bool:
        """Whether a value is an Accelerator, by how it is made or called in a file that imports accelerate."""
        return accelerators(self._module).owns(value)

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
