"""Events in functions that a call leads to, where no path of the caller gets there: each raises before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model import ir
from amplint.model.calls import Calls
from amplint.model.events import Event, events
from amplint.model.frames import Frame
from amplint.model.objects import objects

if TYPE_CHECKING:
    from collections.abc import Container

    from amplint.model import Module


class Unmet:
    """The calls of one function whose callees its paths don't come to, one level deep."""

    def __init__(self, module: Module, body: ir.Block, followed: Container[int]) -> None:
        calls, known, recogniser = module.once(Calls), objects(module), events(module)
        self.sites: dict[int, list[ir.Call]] = {}  # by the callee's id
        self.events: dict[int, Event] = {}  # by their calls' ids, with the caller's objects
        for call in (each for each in ir.values_below(body) if isinstance(each, ir.Call)):
            callee = calls.callee(call)
            given = calls.arguments(call, callee) if callee is not None and callee.function.id not in followed else None
            if callee is None or given is None:
                continue
            scope = callee.function.scope
            keys = {known.raw_variable(scope, name): known.key(value) for name, value in given.items() if value}
            frame = Frame({own: key for own, key in keys.items() if key is not None})
            self.sites.setdefault(callee.function.id, []).append(call)
            for event in recogniser.below(callee.function.body):
                scaler = frame.translate(event.scaler) if event.scaler is not None else None
                optimizer = frame.translate(event.optimizer) if event.optimizer is not None else None
                self.events[event.call.id] = event._replace(scaler=scaler, optimizer=optimizer)
