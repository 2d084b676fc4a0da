"""CUDA graphs: what is captured in `with torch.cuda.graph(g):` runs again with each `g.replay()`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from amplint.model.calls.events import events
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import Event
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument

if TYPE_CHECKING:
    from amplint.model import Module

CAPTURES = "torch.cuda.graph"
_GRAPH_NAME = re.compile(r"(?i)graph")


class Graphs:
    """The captures of one module, and the calls that replay them."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._objects = objects(module)
        self._captures = [
            (each, item.context)
            for each in module.whole.near(*module.words(CAPTURES)).statements
            if isinstance(each, ir.With)
            for item in each.items
            if isinstance(item.context, ir.Call) and CAPTURES in module.names.of(item.context.func)
        ]

    def is_replay(self, call: ir.Call) -> bool:
        """Whether a call replays a graph: the file captures one, or the object is called so."""
        func = call.func
        if call.args or not isinstance(func, ir.Attribute) or func.attr != "replay":
            return False
        return bool(self._captures) or _GRAPH_NAME.search(ir.last_name(func.base)) is not None

    def replayed(self, call: ir.Call) -> list[Event] | None:
        """The backwards that a replay makes again; None where what it runs can't be told.

        That is known where the graph is captured once, in the same function, and its body makes them on every path.
        """
        assert isinstance(call.func, ir.Attribute)
        key = self._objects.key(call.func.base)
        own = [each for each, context in self._captures if key is not None and self._graph_of(context) == key]
        if len(own) != 1 or ir.function_of(own[0]) is not ir.function_of(call):
            return None
        found = list(events(self._module).below(own[0].body))
        plain = not any(isinstance(each, (ir.If, ir.For, ir.While, ir.Try)) for each in ir.walk_statements(own[0].body))
        if not plain or any(event.kind not in ("scale", "backward") for event in found):
            return None
        return [event for event in found if event.kind == "backward"]

    def _graph_of(self, context: ir.Call) -> str | None:
        graph = argument(context, "torch.cuda.graph", "cuda_graph")
        return self._objects.key(graph) if graph is not None else None
