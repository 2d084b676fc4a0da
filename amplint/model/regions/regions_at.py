"""Which autocast regions are open at a node: by its function, and by the file's calls that lead to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from amplint.model.calls.call_sites import CallSites, callers
from amplint.model.calls.external_calls import class_made, method
from amplint.model.calls.gradients_off import never_has_gradients
from amplint.model.inference.formulas import FALSE, TRUE, Formula, both, contradict
from amplint.model.inference.value_sets import decided
from amplint.model.regions.openers import Open, openers
from amplint.model.syntax import ir

if TYPE_CHECKING:
    from amplint.model import Module

# Calls from one function to the next, from a region to what runs in it.
_DEEPEST = 4
_WAYS = 32
_CALLED = ("forward", "__call__")  # what the call of an object runs
# Decorators that leave a function what it is, as far as regions go.
_PLAIN = ("torch.", "builtins.", "functools.", "abc.", "typing.")


def regions_at(module: Module, node: ir.Node) -> list[Open]:
    """The regions of which one decides whether autocast is on at a node, its own function's first.

    A region that is switched off is one of them: nothing further out counts in it.
    """
    return module.once(_Reader).at(node, _DEEPEST)


def trained_regions_round(module: Module, function: ir.Function, sites: Mapping[int, list[ir.Call]]) -> list[Open]:
    """The regions in which the file calls a function for a result that has gradients; its own regions don't count.

    `sites`: the calls that matter of functions, by their ids; of a function that isn't among them all of the file's.
    """
    return _TrainingReader(module, sites).round(function, _DEEPEST)


def enabled_at(module: Module, node: ir.Node) -> list[Open]:
    """The regions in which a node can run with autocast on."""
    return [each for each in regions_at(module, node) if _can_be_on(module, each, node)]


def _can_be_on(module: Module, opened: Open, node: ir.Node) -> bool:
    known = decided(module)
    on = known.of(opened.region.enabled)
    if on == FALSE or opened.when is None:
        return on != FALSE
    return not contradict(opened.when, on, known.inside(node))


class _Reader:
    """Follows the calls of one module from the regions to what runs in them."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._openers = openers(module)
        self._decided = decided(module)
        self._known: dict[tuple[int, int], list[Open]] = {}

    def at(self, node: ir.Node, depth: int) -> list[Open]:
        """The regions that are open at a node, through so many calls."""
        found, _, left = self._openers.deciding(node)
        function = ir.function_of(node)
        if function is None or left == FALSE or not depth:
            return found
        for each in self.round(function, depth):
            when = both(left, each.when) if each.when is not None else None
            if when != FALSE:
                found.append(each._replace(when=when))
        return found

    def round(self, function: ir.Function, depth: int) -> list[Open]:
        """The regions in which the file calls a function: one way to each."""
        if (function.id, depth) not in self._known:
            self._known[function.id, depth] = []  # what calls itself comes from nowhere else
            self._known[function.id, depth] = self._round_calls(function, depth)
        return self._known[function.id, depth]

    def _round_calls(self, function: ir.Function, depth: int) -> list[Open]:
        # A generator runs when it isn't called; what another decorator does can't be seen.
        if function.is_generator or function.is_async or not self._is_plain(function):
            return []
        found: dict[tuple[int, int], Open] = {}
        for call, chosen in self._ways(function):
            own = ir.function_of(call) is function
            for each in () if own else self.at(call, depth - 1):
                when = both(each.when, chosen, self._decided.inside(call)) if each.when is not None else None
                if when != FALSE and len(found) < _WAYS:
                    found.setdefault((each.region.call.id, each.entered.id), each._replace(when=when, site=call))
        return list(found.values())

    def _ways(self, function: ir.Function) -> list[tuple[ir.Call, Formula]]:
        """The calls of a function that matter, each with what has to hold for it to be one."""
        sure = callers(self._module, function)
        return [*((each, TRUE) for each in sure), *self._chosen(function, {each.id for each in sure})]

    def _chosen(self, function: ir.Function, sure: set[int]) -> Iterator[tuple[ir.Call, Formula]]:
        """The calls of what may be one of several objects, or is passed as an argument, that may run a method:
        `criterion = A() if args.a else B()`.
        """
        if function.cls is None or function.name not in _CALLED:
            return
        for call in self._module.once(CallSites).of(function):
            found = self._decided.alternatives(call.func) if call.id not in sure else []
            for each in found:
                cls = class_made(self._module, each.value)
                if cls is not None and method(self._module, cls, function.name) is function:
                    yield call, each.when

    def _is_plain(self, function: ir.Function) -> bool:
        regions = {each.context.id for each in self._openers.decorating(function)}
        return all(each.id in regions or self._is_known(each) for each in function.decorators)

    def _is_known(self, decorator: ir.Value) -> bool:
        called = decorator.func if isinstance(decorator, ir.Call) else decorator
        if isinstance(called, ir.Attribute) and called.attr in ("setter", "getter"):
            return True
        return all(name.startswith(_PLAIN) for name in self._module.names.of(called))


class _TrainingReader(_Reader):
    """The same, for what has gradients; through some of the calls of some functions, by their ids."""

    def __init__(self, module: Module, sites: Mapping[int, list[ir.Call]]) -> None:
        super().__init__(module)
        self._through = sites

    def _ways(self, function: ir.Function) -> list[tuple[ir.Call, Formula]]:
        calls = self._through.get(function.id)
        found = [(each, TRUE) for each in calls] if calls else super()._ways(function)
        return [each for each in found if not never_has_gradients(self._module, each[0])]
