"""Updates of a scaler where an exception has skipped the step that they would be for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.events import events
from amplint.model.objects.event import Event
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import handler_of

if TYPE_CHECKING:
    from amplint.model import Module

_CHECKS = ("step", "unscale_")


class HandledUpdate(NamedTuple):
    """An `update()` in a handler, and the step of its `try`, before which the exception can come."""

    call: ir.Call
    step: ir.Value


def handled_updates(module: Module) -> Iterator[HandledUpdate]:
    """The updates in handlers of a `try` that runs a scaled backward and the step, with no step of their own before."""
    for call in module.whole.called("update"):
        event = events(module).of(call)
        handler = handler_of(call)
        if event is None or event.kind != "update" or call.args or handler is None:
            continue
        tried = handler.owner
        assert isinstance(tried, ir.Try)
        inside = _of(module, tried.body, event)
        step = next((each for each in inside if each.kind in _CHECKS), None)
        before = any(each.kind == "scale" and step and each.call.id < step.call.id for each in inside)
        own = [each for each in _of(module, handler, event) if each.kind in _CHECKS and each.call.id < call.id]
        if step is not None and before and not own:
            yield HandledUpdate(call, step.call)


def _of(module: Module, block: ir.Block, update: Event) -> list[Event]:
    """The events of the scaler of an update in a suite."""
    return [each for each in events(module).below(block) if each.scaler == update.scaler]
