"""Which tensors are half at a line. A forward dataflow over a function's variables, region by region.

It starts in the functions that open a region, and follows their calls into functions, methods and modules of the file,
so that a `forward` counts as under autocast where the file shows that it is. What can't be told is unknown. Each
operation that is met is kept as `Seen`, with what is known of its operands and where it runs; the rules read these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from amplint.model.calls.call_sites import CallSites, calls_among
from amplint.model.calls.external_calls import local_class, local_function, method
from amplint.model.flow.open_regions import Regions
from amplint.model.flow.path_conditions import Conditions
from amplint.model.flow.state import State
from amplint.model.half.eval_statements import Run
from amplint.model.inference.constructions import constructions
from amplint.model.inference.tensor_types import Kind
from amplint.model.names.reaching_definitions import returned
from amplint.model.regions.openers import entered_by
from amplint.model.syntax import ir
from amplint.model.torch_facts.names import AUTOCAST, OLD_AUTOCAST

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.half.observations import Seen

    _Container = ir.Function | ir.Program


def half(module: Module) -> list[Seen]:
    """What the functions with regions do, and what they call."""
    return module.once(_half)


def leading_to(module: Module, start: int) -> ir.Value | None:
    """The last call of the file itself that leads to an operation elsewhere, on half operands if some way has such.

    `start` is where the operation stands; nothing is found where `half` wasn't asked for.
    """
    met = [each for each in module.known(_half) or () if each.sites and module.span(each.node)[0] == start]
    met.sort(key=lambda each: not any(kind.names for _, kind in each.tensors()))
    sites = (module.value(site) for each in met for site in reversed(each.sites))
    return next(filter(module.is_own, sites), None)


def returned_kind(module: Module, function: ir.Function, given: Mapping[str, Kind]) -> Kind:
    """What a function returns for some arguments, by name, where no region is open but its own."""
    return module.once(_returned_kind, function, tuple(sorted(given.items())))


def _returned_kind(module: Module, function: ir.Function, given: tuple[tuple[str, Kind], ...]) -> Kind:
    return Run(module, Regions(module), Conditions(module)).called(function, dict(given))


def _half(module: Module) -> list[Seen]:
    if not module.meaning(AUTOCAST, *OLD_AUTOCAST):
        return []
    opens = _Opens(module)
    run = Run(module, opens.regions, opens.conditions)
    opening = {each.id: each for each in opens.may_open() if opens.a_region(each)}
    entered = {**opening, **_callers(module, opening.values())}
    for _, each in sorted(entered.items()):
        if module.is_own(each):
            run.enter(each)
    return run.seen


def _callers(module: Module, opening: Iterable[_Container]) -> dict[int, _Container]:
    """What calls a function that opens a region, or a layer whose forward does, and its callers."""
    sites = module.once(CallSites)
    found: dict[int, _Container] = {}
    todo = list(opening)
    while todo:
        function = todo.pop()
        for call in sites.of(function) if isinstance(function, ir.Function) else ():
            caller = _container(module, call)
            if caller.id not in found and any(each is function for each in may_run(module, call)):
                found[caller.id] = caller
                todo.append(caller)
    return {number: each for number, each in found.items() if not isinstance(each.parent, ir.Lambda)}


def _container(module: Module, node: ir.Node) -> _Container:
    return ir.function_of(node) or module.program


def may_run(module: Module, call: ir.Call) -> Iterator[ir.Function]:
    """The functions that a call may run, as far as that is in sight: of modules their `forward`."""
    function = local_function(module, call.func)
    if function is not None:
        yield function
    elif isinstance(call.func, (ir.Name, ir.Attribute)):
        for made in constructions(module, call.func):
            cls = local_class(module, made.func)
            forward = method(module, cls, "forward") if cls is not None else None
            if forward is not None:
                yield forward


def _gives(function: ir.Function) -> bool:
    """Whether a function may give a context: a generator, or one that returns something."""
    return function.is_generator or any(each.value is not None for each in returned(function))


class _Opens:
    """Which functions open a region."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self.regions = Regions(module)
        self.conditions = Conditions(module)

    def may_open(self) -> Iterable[_Container]:
        """Where a region, what holds one, or a call of what gives one stands."""
        module, sites = self._module, self._module.once(CallSites)
        classes = sites.reached(module.meaning(AUTOCAST, *OLD_AUTOCAST))
        held = sites.reached(calls_among(classes))
        around = {each.id: each for value in held if (each := ir.function_of(value)) is not None}
        given = sites.reached(call for each in around.values() if _gives(each) for call in sites.of(each))
        found = (_container(module, each) for each in (*held, *given))
        return {each.id: each for each in found if not isinstance(each.parent, ir.Lambda)}.values()

    def a_region(self, container: ir.Function | ir.Program) -> bool:
        """Whether the function's decorators or its own statements open one."""
        if isinstance(container, ir.Function) and self.regions.decorators(container):
            return True
        return any(self._enters(each) for each in ir.walk_statements(container.body, into=False))

    def _enters(self, statement: ir.Statement) -> bool:
        contexts = [item.context for item in statement.items] if isinstance(statement, ir.With) else []
        if isinstance(statement, ir.Expr) and isinstance(statement.value, ir.Call):
            entered = entered_by(statement.value)
            contexts = [entered] if entered is not None else []
        return any(self.regions.enter(each, State(), self.conditions).regions for each in contexts)
