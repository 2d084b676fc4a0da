"""Learning rate schedulers (AMP412, AMP424): whose learning rate they set, and which of their steps belong together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.external_calls import MAKES_SCHEDULER, local_function
from amplint.model.flow.analysis import Flow
from amplint.model.inference.iterations import runs_once
from amplint.model.names.reaching_definitions import returned
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import Event
from amplint.model.objects.key_parts import last_name
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.nesting import exclusive, loop_of, loops_round
from amplint.model.syntax.scopes import NOTHING, owner_class
from amplint.model.usage.mentions_of import near_kept
from amplint.rules.shared.scaler_order import places, reached_events
from amplint.rules.shared.scaler_usage import argument_of

if TYPE_CHECKING:
    from amplint.model import Module

_TORCHS = "torch.optim.lr_scheduler."
_SWA = "torch.optim.swa_utils.SWALR"
# What it watches is a metric, not the optimizer's steps.
_BY_METRIC = _TORCHS + "ReduceLROnPlateau"
# What makes a number or a bool of another one.
_COUNTS = {"builtins.int", "builtins.float", "builtins.bool", "builtins.round"}
# How functions are called that make schedulers.
_MADE = re.compile(r"sched\w*\s*\(")


def makes_scheduler(name: str) -> bool:
    """Whether a call by this name makes a scheduler of the learning rate: torch's, or another library's."""
    return name.startswith(_TORCHS) or MAKES_SCHEDULER.fullmatch(name) is not None


def _is_known(name: str) -> bool:
    return name == _SWA or (makes_scheduler(name) and name != _BY_METRIC)


class Pair(NamedTuple):
    """A scheduler's step without arguments, and the scaler's step of the same iteration, for the same optimizer.

    `place` is that step in the scheduler's function, or the call there that leads to it. `by_name`: the scheduler is a
    parameter, called as torch's are elsewhere in the file.
    """

    call: ir.Call
    step: Event
    place: ir.Node
    by_name: bool = False


class Schedulers:
    """The schedulers of one module."""

    def __init__(self, module: Module) -> None:
        self._known = objects(module)
        self._module = module
        self._optimizers: dict[str, set[str]] = {}  # of those that are torch's, by the scheduler's key
        self._others: set[str] = set()  # kept where something else is kept too
        self._read_all(
            module.own.near(
                _MADE, *module.words(f"{_TORCHS}*", _SWA, "transformers.*get_*schedule*", "diffusers.*get_*schedule*")
            ).statements
        )
        self._read_all(near_kept(module, self._optimizers).statements)  # what else they are

    def _read_all(self, statements: list[ir.Statement]) -> None:
        for statement in filter(self._module.is_own, statements):
            if isinstance(statement, ir.Assign) and statement.value is not None:
                for key in map(self._known.key, statement.targets):
                    if key is not None:
                        self._read(key, statement.value)

    def _read(self, key: str, value: ir.Value) -> None:
        if isinstance(value, ir.Conditional):
            self._read(key, value.then)
            self._read(key, value.other)
            return
        names = self._module.names.of(value.func if isinstance(value, ir.Call) else value)
        given = self._given(value) if isinstance(value, ir.Call) else None
        optimizer = self._known.key(given) if given is not None else None
        if optimizer is not None:
            self._optimizers.setdefault(key, set()).add(optimizer)
        elif names != {NOTHING} and not ir.is_none(value):
            self._others.add(key)

    def _given(self, call: ir.Call) -> ir.Value | None:
        """The optimizer of one of torch's schedulers, by a call of its class, or of a function that returns one; None
        for what makes something else.
        """
        names = self._names_of(call.func)
        if names and all(_is_known(name) for name in names):
            return argument(call, "torch.optim.lr_scheduler.LRScheduler", "optimizer")
        function = local_function(self._module, call.func)
        made = [each.value for each in returned(function)] if function is not None else []
        inner = made[0] if len(made) == 1 else None
        if isinstance(inner, ir.Name):
            bound = self._module.names.bound_once(inner)
            inner = bound.value if bound is not None else None
        if function is None or not isinstance(inner, ir.Call) or local_function(self._module, inner.func) is not None:
            return None
        given = self._given(inner)
        return argument_of(self._module, function, call, given.name) if isinstance(given, ir.Name) else None

    def _names_of(self, func: ir.Value) -> Iterable[str]:
        """The names of a class, and of one that is taken out of its module: `getattr(lr_scheduler, "StepLR")`."""
        names = self._module.names
        if not isinstance(func, ir.Call) or names.only(func.func) != "builtins.getattr" or len(func.positional) != 2:
            return names.of(func)
        name = func.positional[1]
        return [f"{each}.{name.value}" for each in names.of(func.positional[0]) if isinstance(name, ir.Constant)]

    def optimizers_by_name(self, value: ir.Value) -> set[str]:
        """The names of the optimizers of a parameter that is called as only torch's schedulers are in this file."""
        if not isinstance(value, ir.Name) or ir.parameter_of(self._module.names.only_binding(value)) is None:
            return set()
        alike = [key for key in {*self._optimizers, *self._others} if last_name(key) == value.name]
        if not alike or any(key in self._others for key in alike):
            return set()
        return {last_name(each) for key in alike for each in self._optimizers[key]}

    def optimizers_of(self, value: ir.Value) -> set[str] | None:
        """The optimizers of an object that surely is one of torch's schedulers; None for another object."""
        key = self._known.key(value)
        return self._optimizers.get(key) if key is not None and key not in self._others else None

    def may_be_one(self, value: ir.Value) -> bool:
        """Whether an object is a scheduler by what it is called, and of no class that says otherwise."""
        made = self._known.classes(self._known.key(value) or "")
        named = "sched" in ir.last_name(value).lower()
        return named and not any(name.rpartition(".")[2].lstrip("_")[:1].isupper() for name in made)


def pairs(module: Module, flow: Flow, *, certain: bool) -> Iterator[Pair]:
    """The steps of schedulers in a function, each with the first step of the scaler in the same innermost loop.

    `certain`: of torch's schedulers only, whose optimizer is known; the step may be one of many that a function makes.
    """
    schedulers = module.once(Schedulers)
    steps = [reached.event for reached in reached_events(flow, "step")]
    for call, base in _steps(module, flow) if steps else ():
        optimizers = schedulers.optimizers_of(base)
        by_name = schedulers.optimizers_by_name(base) if optimizers is None and certain else set()
        if optimizers is None and not by_name and (certain or not schedulers.may_be_one(base)):
            continue
        for step in steps:
            if by_name:
                fits = step.optimizer is not None and last_name(step.optimizer) in by_name
            else:
                fits = optimizers is None or step.optimizer in optimizers
            if fits:
                every = places(flow, step.call, call) if certain else _led_to_once(module, flow, step.call, call)
                place = next((each for each in every if _is_beside(each, call)), None)
                if place is not None:
                    yield Pair(call, step, place, by_name=bool(by_name))
                    break


def _steps(module: Module, flow: Flow) -> Iterator[tuple[ir.Call, ir.Value]]:
    """The calls of `step()` in a function, without arguments, with what is stepped."""
    for call in module.own.near("step").calls:
        func = call.func
        if isinstance(func, ir.Attribute) and func.attr == "step" and not call.args and flow.contains(call):
            yield call, func.base


def _led_to_once(module: Module, flow: Flow, node: ir.Node, other: ir.Node, depth: int = 4) -> Iterator[ir.Node]:
    """A node, or the calls that lead to it once, in the function of another one: `train_one_epoch()` steps often."""
    if ir.function_of(node) is ir.function_of(other):
        yield node
    elif depth and all(runs_once(module, each) for each in loops_round(node)):
        for site in flow.call_sites(node):
            yield from _led_to_once(module, flow, site, other, depth - 1)


def _is_beside(place: ir.Node, call: ir.Call) -> bool:
    """Whether two calls are made equally often: in the same innermost loop, and not in different arms."""
    return loop_of(place) is loop_of(call) and not exclusive(call, place)


def asks_for(module: Module, test: ir.Value, call: ir.Call) -> bool:
    """Whether a test asks no more than whether there is a scheduler: `if scheduler:`, `if scheduler is not None:`."""
    assert isinstance(call.func, ir.Attribute)
    known = objects(module)
    if isinstance(test, ir.Compare):
        nothing = test.rights[-1]
        if test.ops != ("IsNot",) or not (isinstance(nothing, ir.Constant) and nothing.value is None):
            return False
        test = test.left
    return known.key(test) is not None and known.key(test) == known.key(call.func.base)


def stays(module: Module, test: ir.Value, call: ir.Call) -> bool:
    """Whether a test comes out the same in each iteration of the loop that a scheduler steps in: `epoch >= start`."""
    loop = loop_of(call)
    if loop is None:
        return False
    unsure = {None, *objects(module).assigned_in(loop)}
    for each in ir.walk_values(test):
        if isinstance(each, ir.Call) and not module.names.of(each.func) <= _COUNTS:
            return False
        if (
            isinstance(each, ir.Attribute)
            and owner_class(each) is not None
            and not isinstance(each.parent, ir.Attribute)
        ):
            return False  # a method that the loop calls may set it
        if isinstance(each, (ir.Name, ir.Attribute, ir.Subscript)) and objects(module).own_key(each) in unsure:
            return False
    return True
