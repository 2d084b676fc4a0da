"""Which autocast regions are open round any node: by the text, and by the file's calls that lead to it.

Flow analysis knows that for the events of a training step. This reader answers for everything else, going by the
structure: `with`s, decorators, the arms of ifs. It says what holds on some way to the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_sites import callers
from amplint.model.flow.open_regions import Regions
from amplint.model.flow.path_conditions import Conditions
from amplint.model.flow.state import State
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import Region, region_of
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_between

if TYPE_CHECKING:
    from amplint.model import Module

    Step = Callable[[State], State]
    # A state in which a node is reached, and the call of its function.
    _Way = tuple[State, ir.Call | None]

# Calls from one function to the next, from a region to what runs in it.
_DEEPEST = 4
_WAYS = 32
# Decorators that leave a function what it is, as far as regions go.
_PLAIN = ("torch.", "builtins.", "functools.", "abc.", "typing.")


class Inside(NamedTuple):
    """One way in which a node runs with autocast on, or perhaps on: the region, what enters it, and the last call."""

    region: Region
    entered: ir.Value
    site: ir.Call | None


class Around:
    """Reads the regions round the nodes of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._objects = objects(module)
        self._regions = Regions(module)
        self._conditions = Conditions(module)
        self._known: dict[tuple[int, int], list[_Way]] = {}

    def inside(self, node: ir.Node) -> Iterator[Inside]:
        """The ways in which a node runs with a region open, its own function's first."""
        for state, site in self._at(node, _DEEPEST):
            opened = self._regions.innermost(state, self._conditions)
            made = self._module.value(opened.call) if opened is not None else None
            region = region_of(self._module, made) if isinstance(made, ir.Call) else None
            if opened is not None and region is not None:
                yield Inside(region, self._module.value(opened.at), site)

    def _at(self, node: ir.Node, depth: int) -> list[_Way]:
        """The ways to a node."""
        function = ir.function_of(node)
        found: list[_Way] = [(State(), None)]
        if function is not None:
            found = self._entries(function, depth)
        for step in self._steps(node):
            found = [(step(state), site) for state, site in found]
        return found

    def _entries(self, function: ir.Function, depth: int) -> list[_Way]:
        """The ways into a function: called from anywhere, and from each region of this file."""
        known = self._known.get((function.id, depth))
        if known is None:
            inner = self._called(function, depth) if depth else {}
            own = self._regions.decorators(function)
            entries: list[_Way] = [(State(), None), *inner.values()]
            known = [(state.replace(regions=(*state.regions, *own)), site) for state, site in entries]
            self._known[function.id, depth] = known
        return known

    def _called(self, function: ir.Function, depth: int) -> dict[object, _Way]:
        """One way for each region from which the file calls a function."""
        found: dict[object, _Way] = {}
        # A generator runs when it isn't called; what another decorator does can't be seen.
        if function.is_generator or function.is_async or not all(map(self._is_plain, function.decorators)):
            return found
        for call in callers(self._module, function):
            own = ir.function_of(call) is function
            for state, _ in () if own else self._at(call, depth - 1):
                if state.regions and len(found) < _WAYS:
                    found.setdefault(state.regions, (state, call))
        return found

    def _is_plain(self, decorator: ir.Value) -> bool:
        called = decorator.func if isinstance(decorator, ir.Call) else decorator
        if isinstance(called, ir.Attribute) and called.attr in ("setter", "getter"):
            return True
        return all(name.startswith(_PLAIN) for name in self._module.names.of(called))

    # --- the way from a function's start to a node -------------------------------------------------------------------

    def _steps(self, node: ir.Node) -> list[Step]:
        """What changes the state on the way to a node, from the outside in."""
        found: list[Step] = []
        child, parent = node, node.parent
        while parent is not None:
            inner = [self._assumed(test, holds) for test, holds in conditions_between(child, parent)]
            if isinstance(parent, ir.With):
                inner = [*(self._entered(each) for each in self._before(parent, child)), *inner]
            found = [*inner, *found]
            if isinstance(parent, ir.Function):
                break
            child, parent = parent, parent.parent
        return found

    @staticmethod
    def _before(statement: ir.With, child: ir.Node) -> list[ir.Value]:
        """The contexts of a `with` that are open where its suite, or one of its later items, runs."""
        contexts = [item.context for item in statement.items]
        return contexts[: contexts.index(child)] if child in contexts else contexts

    def _entered(self, context: ir.Value) -> Step:
        return lambda state: self._regions.enter(context, state, self._conditions)

    def _assumed(self, test: ir.Value, holds: bool) -> Step:
        return lambda state: self._conditions.assume(test, holds, state)


def around(module: Module) -> Around:
    """The reader of a module."""
    return module.once(Around)
