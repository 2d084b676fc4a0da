"""Events in functions that a call leads to, where no path of the caller gets to them: each raises before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.events import events
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.call_context import CallContext, Callee
from amplint.model.objects.event import Event
from amplint.model.syntax import ir

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from amplint.model import Module
    from amplint.model.flow.event_states import EventStates


class UnreachedEvents:
    """What the paths of one function don't come to: calls of functions, one level deep, and events in those they do."""

    def __init__(
        self, module: Module, body: ir.Block, followed: Collection[int], event_states: Mapping[int, EventStates]
    ) -> None:
        self._calls, self._objects, self._recogniser = module.once(CallGraph), objects(module), events(module)
        self.sites: dict[int, list[ir.Call]] = {}  # by the callee's id
        self.events: dict[int, Event] = {}  # by their calls' ids, with the caller's objects
        for call in ir.calls_below(body):
            callee = self._calls.callee(call)
            if callee is not None and callee.function.id not in followed:
                self._note_call(call, callee)
        for function in map(module.function, sorted(followed)):
            if function is not None:
                self._note_rest(function, event_states)

    def _note_call(self, call: ir.Call, callee: Callee) -> None:
        """A call that no path comes to: its parameters are what it is given."""
        given = self._calls.arguments(call, callee)
        if given is not None:
            self.sites.setdefault(callee.function.id, []).append(call)
            own = {name: self._objects.raw_variable(callee.function.scope, name) for name in given}
            keys = {own[name]: self._objects.key(value) for name, value in given.items() if value}
            self._note(
                callee.function, CallContext({own: key for own, key in keys.items() if key is not None}).translate
            )

    def _note_rest(self, function: ir.Function, event_states: Mapping[int, EventStates]) -> None:
        """A function that paths come to, and end in: its parameters are what they are in the events that were met."""
        every = [each for each in self._recogniser.below(function.body) if each.call.id in event_states]
        met = [(each, event_states[each.call.id].event) for each in every]
        names = {own.scaler: each.scaler for own, each in met} | {own.optimizer: each.optimizer for own, each in met}
        self._note(function, lambda own: names.get(own) or own)

    def _note(self, function: ir.Function, translate: Callable[[str], str]) -> None:
        for event in self._recogniser.below(function.body):
            scaler = translate(event.scaler) if event.scaler is not None else None
            optimizer = translate(event.optimizer) if event.optimizer is not None else None
            self.events[event.call.id] = event._replace(scaler=scaler, optimizer=optimizer)
