"""The states of scalers and optimizers in checkpoints (AMP413, AMP423): what is saved, under which key, and loaded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.call_sites import called_back, callers, passed, passed_by
from amplint.model.calls.external_calls import function_named, inherits, local_function
from amplint.model.inference.values import held, parameter_read
from amplint.model.names.reaching_definitions import reaching
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.call_context import CallContext
from amplint.model.objects.key_parts import attribute_of, attribute_of_self, is_attribute, made_key, own_self, root_of
from amplint.model.objects.loop_sources import container_of, loop_source
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import arguments, given_to, with_defaults
from amplint.model.syntax.ir import Other, Scope, node_of
from amplint.model.syntax.scopes import NOTHING, UNKNOWN, class_of_self, owner_class
from amplint.model.torch_facts.signatures import GETS_STATES, SETS_STATES
from amplint.model.usage.whole_models import unwrapped
from amplint.rules.shared.scaler_keepers import SAVES, is_taken_unnamed, reads
from amplint.rules.shared.scaler_usage import ScalerUsage, given_as, holds_optimizers, scaler_usages

if TYPE_CHECKING:
    from amplint.model import Module

# Gives a model's state, and the optimizer's.
_MODELS_TOO = "torch.distributed.checkpoint.state_dict.get_state_dict"
_OF_MODULES = {"state_dict"}  # each has it, by whatever class
# What gives all that an object holds: of a named tuple, a dataclass, a dict.
_WHOLE = {"_asdict", "__dict__", "copy", "to_dict", "as_dict", "asdict"}
_COPIES = ("dataclasses.asdict", "dataclasses.replace", "copy.copy", "copy.deepcopy")
_HOOK = re.compile(r"(?i)^_?(on|pre|post|before|after)_|hook|callback")


class State(NamedTuple):
    """A call that takes or loads a state, `state_dict()` or `load_state_dict(...)`, of what, and the key of that."""

    call: ir.Call
    key: str
    of: ir.Value


class Slot(NamedTuple):
    """Where a checkpoint keeps a state: under which key, as an item of what, the item's key and value as nodes.

    `state` is the part of the value that is the state: of `optimizer.state_dict() if whole else None` the first arm.
    """

    key: str
    whole: ir.Mapping | ir.Call | ir.Assign
    name: ir.Value | None
    value: ir.Value
    state: ir.Value


# What makes a dict of its keywords, or adds them to one.
_TAKES_KEYS = {"dict", "OrderedDict", "update"}


def slot_of(module: Module, value: ir.Value, depth: int = 2) -> Slot | None:
    """The entry of a dict that a state is the value of, by itself or copied, or through a variable; None where it is
    none with a fixed key.
    """
    at = state = value
    while isinstance(at.parent, ir.Value):
        up = at.parent
        if _decides_key(up, at):
            return _entry(up, at, state)
        if isinstance(up, ir.Conditional) and up.test is at:
            return None
        if isinstance(up, ir.Sequence) and isinstance(up.parent, ir.Assign) and at in _unpacked(up.parent):
            break
        if not isinstance(up, (ir.Conditional, ir.Bool)):
            state = up
        at = up
    return _assigned_slot(module, at, state, depth)


def _assigned_slot(module: Module, value: ir.Value, state: ir.Value, depth: int) -> Slot | None:
    """The entry that an assignment of a value with a state in it makes: `checkpoint["scaler"] = ...`."""
    statement = ir.statement_of(value)
    if not isinstance(statement, ir.Assign) or not _is_assigned(statement, value):
        return None
    targets = _targets(statement, value, _place_in(module, value))
    target = targets[0] if len(targets) == 1 else None
    if isinstance(target, ir.Subscript) and isinstance(target.base, ir.Name):
        index = target.index
        if isinstance(index, ir.Constant) and isinstance(index.value, str):
            return Slot(index.value, statement, index, value, state)
    if isinstance(target, ir.Name) and depth:
        later = (each for each in _reads(module, target.scope.home(target.name), target.name) if each.id > target.id)
        slots = [slot for each in later if (slot := slot_of(module, each, depth - 1)) is not None]
        return slots[0] if len(slots) == 1 else None
    return None


def _decides_key(around: ir.Value, item: ir.Value) -> bool:
    """Whether a value says under which key an item of it is kept."""
    if isinstance(around, ir.Mapping):
        return any(value is item and key is not None for key, value in around.items)
    return _is_pair(around) or (isinstance(around, ir.Call) and ir.last_name(around.func) in _TAKES_KEYS)


def _entry(around: ir.Value, item: ir.Value, state: ir.Value) -> Slot | None:
    """The entry that an item of a dict, or of a call that makes one, is; None for one with a key of another kind."""
    if isinstance(around, ir.Mapping):
        name = next(key for key, value in around.items if value is item)
        text = name.value if isinstance(name, ir.Constant) else None
        return Slot(text, around, name, item, state) if isinstance(text, str) else None
    if not isinstance(around, ir.Call):
        return None
    keyword = next((arg.keyword for arg in around.args if arg.value is item), None)
    return Slot(keyword, around, None, item, state) if keyword is not None else None


def _is_assigned(statement: ir.Assign, value: ir.Value) -> bool:
    return value is statement.value or value in _unpacked(statement)


def _unpacked(statement: ir.Assign) -> list[ir.Value]:
    """What an assignment binds one by one: `a, b = first, second`."""
    several = isinstance(statement.value, ir.Sequence) and any(isinstance(t, ir.Sequence) for t in statement.targets)
    return list(statement.value.items) if several and isinstance(statement.value, ir.Sequence) else []


def _is_pair(value: ir.Value) -> bool:
    """Whether a value is a key with what belongs to it: `dict([("optimizer", optimizer.state_dict())])`."""
    return (
        isinstance(value, ir.Sequence)
        and value.kind == "tuple"
        and len(value.items) == 2
        and isinstance(value.items[0], ir.Constant)
    )


def why_no_slot(module: Module, call: ir.Call) -> str:
    """Why a state that is saved has no entry of a dict beside which the scaler's can be put; what to do instead."""
    at: ir.Value = call
    while isinstance(at.parent, ir.Value):
        at = at.parent
        if _is_pair(at):
            break
        if isinstance(at, ir.Sequence):
            return f"the states are saved in a {at.kind}; add and load the scaler's `state_dict()` by hand"
        if isinstance(at, ir.Mapping) and not any(key is None for key, _ in at.items):
            return "the key of the optimizer's state is not a literal; save the scaler's `state_dict()` by hand"
        if isinstance(at, ir.Call) and at.func is not call and SAVES.search(ir.last_name(at.func)):
            function = local_function(module, at.func)
            if function is not None:
                return (
                    f"`{module.on_one_line(at.func)}` on {module.line(at)} gets each state as an argument; "
                    "pass and load the scaler's state too"
                )
            return (
                "the optimizer's state is saved in a separate file; save and load the scaler's `state_dict()` by hand"
            )
    return "amplint can't follow the optimizer's state into the checkpoint; save the scaler's `state_dict()` by hand"


def states(module: Module, method: str) -> list[State]:
    """The calls of `state_dict` or `load_state_dict` of objects that have a key, and those by which torch does that."""
    found = [
        (call, owner)
        for call in module.whole.near(method).calls
        if (owner := ir.called_on(call, method)) and not _is_looked_into(call)
    ]
    found += [(call, owner) for call, owner in torchs_states(module, gives=method == "state_dict")]
    owned = [(call, _without_wrapper(module, owner)) for call, owner in found]
    return [State(call, key, owner) for call, owner in owned for key in keys_of(module, owner)]


def keys_of(module: Module, owner: ir.Value) -> list[str]:
    """The keys that an object can have; of `getattr(self, name)` in a loop over names that of each attribute."""
    known = objects(module)
    if isinstance(owner, ir.Call) and module.names.of(owner.func) == {"builtins.getattr"}:
        base, *names = owner.positional
        root = known.key(base)
        source = loop_source(module, names[0]) if names and isinstance(names[0], ir.Name) else None
        items = held(module, source) if source is not None else None
        if root is not None and isinstance(items, ir.Sequence) and not items.unpacks():
            texts = [each.value for each in items.items if isinstance(each, ir.Constant)]
            return [attribute_of(root, each) for each in texts if isinstance(each, str)]
    key = known.key(owner)
    return [key] if key is not None else []


def is_of_optimizer(module: Module, state: State) -> bool:
    """Whether a state is that of an optimizer."""
    known = objects(module)
    return known.is_optimizer(state.of) is not None or known.is_optimizers(state.key)


def _without_wrapper(module: Module, owner: ir.Value) -> ir.Value:
    """`optimizer`, for a variable that holds `accelerator.unwrap_model(optimizer)`; else the value itself."""
    wrapped = held(module, owner)
    inner = unwrapped(module, wrapped)
    return owner if inner is wrapped else inner


def _is_looked_into(call: ir.Call) -> bool:
    """Whether one entry of a state is read: `optimizer.state_dict()["param_groups"][0]["lr"]`."""
    return isinstance(call.parent, ir.Subscript) and call.parent.base is call


def torchs_states(module: Module, *, gives: bool) -> Iterator[tuple[ir.Call, ir.Value]]:
    """The calls of torch's functions that give, or load, the state of optimizers, with what they are given as such."""
    for name in sorted(GETS_STATES if gives else SETS_STATES):
        for call in module.calls_of(name):
            given = arguments(call, name)
            owner = given.get("optim", given.get("optimizers"))
            if owner is not None:
                yield call, owner


def loaded_by(call: ir.Call) -> ir.Value | None:
    """The state that a call loads: an optimizer's, where it loads a model's too."""
    if call.keywords.get("optim_state_dict") is not None:
        return call.keywords["optim_state_dict"]
    place = 0 if ir.called_on(call, "load_state_dict") is not None else 2
    return call.args[place].value if place < len(call.args) else None


def states_unclear(module: Module, usage: ScalerUsage) -> bool:
    """Whether a state may be that of a scaler, though it is not seen to be: by its name, or taken without one."""
    return module.once(_may_be_anyones) or _is_taken_unnamed(module, usage)


def _is_taken_unnamed(module: Module, usage: ScalerUsage) -> bool:
    attr = attribute_of_self(usage.scaler)
    kept = [*usage.holders, *([(usage.keeper, attr)] if usage.keeper is not None else [])]
    return any(is_taken_unnamed(module, cls, each) for cls, each in kept)


def _may_be_anyones(module: Module) -> bool:
    """Whether a state is one of a scaler by its name, and of none that the file makes."""
    followed = {key for usage in scaler_usages(module) for key in usage.keys}
    known = objects(module)
    for value in module.whole.near("state_dict").values:
        if not (isinstance(value, ir.Attribute) and value.attr in ("state_dict", "load_state_dict")):
            continue
        if known.key(value.base) in followed or is_of_none(module, value.base):
            continue
        words = [ir.last_name(each).lower() for each in ir.walk_values(value.base)]
        if any("scal" in word or "amp" in word.split("_") for word in words):
            return True
    return False


def is_of_none(module: Module, base: ir.Value) -> bool:
    """Whether an object is a parameter for which each call of the function gives None."""
    only = reaching(module.names, base) if isinstance(base, ir.Name) else []
    function = only[0].node if len(only) == 1 and isinstance(only[0], Other) else None
    if not isinstance(base, ir.Name) or not isinstance(function, ir.Function):
        return False
    values = [
        value for _, value in (*passed_by(module, function, base.name), *_passed_by_name(module, function, base.name))
    ]
    return bool(values) and all(ir.is_none(each) for each in values)


def is_saved(module: Module, value: ir.Value) -> bool:
    """Whether a value is written to a file, by itself or in a dict, and nobody out of sight may add to that."""
    return saved_by(module, value) is not None


def saved_by(module: Module, value: ir.Value, seen: set[object] | None = None) -> ir.Call | None:
    """The call that writes a value to a file, by itself or in a dict; None where somebody out of sight may add to that.

    `seen`: the variables and functions that it was followed through.
    """
    seen = set() if seen is None else seen
    at: ir.Value = value
    while isinstance(at.parent, ir.Value):
        up = at.parent
        if isinstance(up, ir.Call) and up.func is not at:
            name = ir.last_name(up.func)
            if _HOOK.search(name):
                return None
            if name != "dumps" and (SAVES.search(name) or SAVES.search(_run_by(up))):
                return up  # `dumps` gives a text, which may only be printed
            if name in ("update", "setdefault") and isinstance(up.func, ir.Attribute):
                return _saved_as(module, up.func.base, seen)
        at = up
    return _saved_behind(module, at, value, seen)


def _run_by(call: ir.Call) -> str:
    """The name of what a call has another thread run: `Thread(target=save, args=...)`, `pool.submit(save, state)`."""
    function = call.keyword("target")
    if function is None and ir.last_name(call.func) in ("submit", "apply_async", "run_in_executor"):
        function = next((each for each in call.positional if isinstance(each, (ir.Name, ir.Attribute))), None)
    return ir.last_name(function) if function is not None else ""


def _saved_behind(module: Module, top: ir.Value, value: ir.Value, seen: set[object]) -> ir.Call | None:
    """The same, of what a statement assigns or returns: a value, in the expression `top`."""
    statement = top.parent
    if isinstance(statement, ir.Assign) and top is statement.value:
        return _first(_saved_as(module, each, seen) for each in _targets(statement, value, _place_in(module, value)))
    function = ir.function_of(statement) if isinstance(statement, ir.Return) else None
    if function is None or function.id in seen:
        return None
    seen.add(function.id)
    graph = module.once(CallGraph)
    calls = [each for each in module.whole.near(function.name).calls if graph.may_run(each, function, _OF_MODULES)]
    place = top.items.index(value) if isinstance(top, ir.Sequence) and value in top.items else None
    return _first(_saved_result(module, call, place, seen) for call in calls)


def _saved_result(module: Module, call: ir.Call, place: int | None, seen: set[object]) -> ir.Call | None:
    """The same, of what a call gives, or of the item of it at a place where that is unpacked."""
    made = call.parent
    if place is None or not isinstance(made, ir.Assign) or not isinstance(made.targets[0], ir.Sequence):
        return saved_by(module, call, seen)
    return _first(_saved_as(module, each, seen) for each in _targets(made, call, place))


def _place_in(module: Module, value: ir.Value) -> int | None:
    """At which place of what a call gives the optimizer's state is, where it gives a model's too."""
    gives_both = isinstance(value, ir.Call) and _MODELS_TOO in module.names.of(value.func)
    return 1 if gives_both else None


def _first(calls: Iterable[ir.Call | None]) -> ir.Call | None:
    return next((each for each in calls if each is not None), None)


def _targets(statement: ir.Assign, value: ir.Value, place: int | None = None) -> list[ir.Value]:
    """What an assignment binds to a value: with a tuple on each side, the target in the same place.

    `place`: that of the value in the tuple that is assigned.
    """
    found: list[ir.Value] = []
    for target in statement.targets:
        if place is not None and isinstance(target, ir.Sequence):
            found += target.items[place : place + 1]
            continue
        if isinstance(target, ir.Sequence) and isinstance(statement.value, ir.Sequence):
            found += [one for one, other in zip(target.items, statement.value.items, strict=False) if other is value]
        else:
            found.append(target)
    return found


def _saved_as(module: Module, target: ir.Value, seen: set[object]) -> ir.Call | None:
    first = target.id if isinstance(target, ir.Name) and target.bound else 0  # before, the name is another value's
    while isinstance(target, ir.Subscript):
        target = target.base
    if isinstance(target, ir.Attribute):
        return _saved_attribute(module, target, seen)
    if not isinstance(target, ir.Name):
        return None
    variable = target.scope.home(target.name), target.name
    if (*variable, first) in seen:
        return None
    seen.add((*variable, first))
    reads = [each for each in _reads(module, *variable) if each.id > first and each is not target]
    if any(isinstance(each.parent, ir.Call) and _adds(module, each, each.parent) for each in reads):
        return None
    return _first(saved_by(module, each, seen) for each in reads)


def _saved_attribute(module: Module, target: ir.Attribute, seen: set[object]) -> ir.Call | None:
    """The same, of what is assigned to an attribute: `self.state = {...}`, then `torch.save(self.state, path)`."""
    known = objects(module)
    key = known.key(target)
    if key is None or key in seen:
        return None
    seen.add(key)
    read = [
        each for each in known.with_key(module.whole.near(target.attr), key) if each is not target and _is_whole(each)
    ]
    if any(isinstance(each.parent, ir.Call) and _adds(module, each, each.parent) for each in read):
        return None
    return _first(saved_by(module, each, seen) for each in read)


def _reads(module: Module, home: Scope | None, name: str) -> list[ir.Name]:
    """The reads of a whole variable, not of its items and attributes."""
    return [each for each in reads(module, home, name) if _is_whole(each)]


def _is_whole(value: ir.Value) -> bool:
    """Whether a value is read as a whole, and not one of its items or attributes."""
    up = value.parent
    if isinstance(up, ir.Attribute):
        return up.attr in _WHOLE
    return not isinstance(up, ir.Subscript)


def _adds(module: Module, value: ir.Value, call: ir.Call) -> bool:
    """Whether a call that is given a checkpoint may add to it, out of sight."""
    name = ir.last_name(call.func)
    if call.func is value or any(each.startswith(("builtins.", *_COPIES)) for each in module.names.of(call.func)):
        return False
    return bool(_HOOK.search(name)) or not (SAVES.search(name) or function_named(module, name))


def from_file(module: Module, value: ir.Value) -> bool:
    """Whether a state may come from a file: it was loaded, or given to the function; and not kept in memory."""
    while isinstance(value, (ir.Subscript, ir.Attribute)):
        value = value.base
    if isinstance(value, ir.Call):
        if isinstance(value.func, ir.Attribute) and value.func.attr in ("get", "pop"):
            return from_file(module, value.func.base)
        return "load" in ir.last_name(value.func)
    if not isinstance(value, ir.Name):
        return False
    source = loop_source(module, value)
    if source is not None:
        return from_file(module, ir.called_on(source, "items", "values") or source)
    for binding in module.names.bindings(value):
        if isinstance(binding, Other) and isinstance(binding.node, ir.Function):
            return True
        node = node_of(binding)
        statement = ir.statement_of(node) if node is not None else None
        if isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Call):
            if "load" in ir.last_name(statement.value.func):
                return True
    return False


def optimizer_at(module: Module, state: State) -> list[tuple[str, ir.Node]]:
    """The keys of the optimizer whose state a call takes, with the place where it is known under that key.

    An optimizer that is taken out of a container has the container's key, too. Where one of the two is a parameter of a
    function of this file, or an attribute of one, those places are the function's calls. A function that is given to
    another one as a callback is called there.
    """
    known = objects(module)
    base = state.of
    own_keys = _optimizers_of(module, base) or ([state.key] if is_of_optimizer(module, state) else [])
    found: list[tuple[str, ir.Node]] = [(each, state.call) for each in own_keys]
    found += _given_by_calls(module, state)
    found += _given_to_object(module, base)
    found += [(key, call) for key, call in given_as(module, [key for key, _ in found]).items() if call is not None]
    found += [
        (own_self(cls) + key.removeprefix(root_of(key)), place)
        for key, place in found
        if is_attribute(key, root_of(key)) and (cls := known.instance(root_of(key))) is not None
    ]
    return [*found, *_known_where_called_back(module, state, found), *_known_where_called(module, state, found)]


def _given_by_calls(module: Module, state: State) -> Iterator[tuple[str, ir.Node]]:
    """The optimizers that calls give for the parameter whose state is taken, with those calls."""
    known = objects(module)
    for own, parameter in _parameters_of(module, state):
        calls = [
            *passed_by(module, *parameter),
            *_passed_back(module, *parameter),
            *_passed_by_name(module, *parameter),
        ]
        for call, value in calls:
            given = _given_key(module, value) if value is not None else None
            with known.within(CallContext({own: given} if given is not None else {})):
                keys = _optimizers_of(module, state.of)
            yield from ((key, call) for key in keys if given is not None)


def _given_to_object(module: Module, base: ir.Value) -> Iterator[tuple[str, ir.Node]]:
    """The optimizers that an object is given where it is made, with that call: `Checkpointer(model, optimizer)`."""
    cls = owner_class(base) if isinstance(base, ir.Attribute) else None
    for value in cls.stored(base.attr) if cls is not None and isinstance(base, ir.Attribute) else ():
        parameter = parameter_read(module, value) if value is not None else None
        if parameter is not None and parameter[0].cls is cls and parameter[0].name == "__init__":
            for call, given in passed_by(module, parameter[0], parameter[1].name):
                key = objects(module).is_optimizer(given) if given is not None else None
                if key is not None:
                    yield key, call


def _known_where_called(
    module: Module, state: State, found: list[tuple[str, ir.Node]]
) -> Iterator[tuple[str, ir.Node]]:
    """The optimizers of an object, in the methods that have their state taken, those of inheriting classes too."""
    function = ir.function_of(state.call)
    if function is None or function.cls is None:
        return
    own, functions = own_self(function.cls), [function]
    kept = [key for key, place in found if place is state.call and is_attribute(key, own)]
    for each in functions if kept else ():  # grows
        for call in (*callers(module, each), *_called_on_self(module, each.name)):
            caller = ir.function_of(call)
            cls = caller.cls if caller is not None else None
            if caller is None or cls is None or caller in functions:
                continue
            if cls is function.cls or inherits(module, cls, function.cls):
                functions.append(caller)
                yield from ((own_self(cls) + key.removeprefix(own), call) for key in kept)


def _called_on_self(module: Module, name: str) -> Iterator[ir.Call]:
    """The calls of a method of `self`, which a class that inherits may override."""
    for call in module.whole.near(name).calls:
        owner = ir.called_on(call, name)
        if owner is not None and _is_self(owner):
            yield call


def _is_self(value: ir.Value) -> bool:
    return isinstance(value, ir.Name) and class_of_self(value) is not None


def _passed_back(module: Module, function: ir.Function, name: str) -> Iterator[tuple[ir.Call, ir.Value | None]]:
    """The calls of a function as a callback, with what each gives for a parameter."""
    for call in called_back(module, function):
        if not call.unpacks():
            yield call, given_to(function.params, call.positional, call.keywords).get(name)


def _passed_by_name(module: Module, function: ir.Function, name: str) -> Iterator[tuple[ir.Call, ir.Value | None]]:
    """The calls that may run a method, with what each gives for a parameter."""
    for call in module.whole.called(function.name) if function.cls is not None else ():
        if is_by_name(module, call, function) and not call.unpacks():
            params = function.params[1:]
            yield call, with_defaults(params, given_to(params, call.positional, call.keywords)).get(name)


def is_by_name(module: Module, call: ir.Node, function: ir.Function | None) -> bool:
    """Whether a call may run a method of an object out of sight: `self.manager.save(...)`, where only one class in
    sight has a method of that name.
    """
    if not isinstance(call, ir.Call) or not isinstance(call.func, ir.Attribute) or function is None:
        return False
    if function.cls is None or call.func.attr != function.name or _is_self(call.func.base):
        return False
    made_by = objects(module).classes_of(objects(module).key(call.func.base)) - {UNKNOWN, NOTHING}
    unseen = not made_by and module.names.of(call.func) <= {UNKNOWN, NOTHING}
    return unseen and module.once(CallGraph).find(call) is None and len(module.whole.defined(function.name)) == 1


def _known_where_called_back(
    module: Module, state: State, found: list[tuple[str, ir.Node]]
) -> Iterator[tuple[str, ir.Node]]:
    """The optimizers of a callback's own scope, as the function that calls it back was given them."""
    known = objects(module)
    for call in called_back(module, ir.function_of(state.call)):
        taker = ir.function_of(call)
        if taker is None:
            continue
        for param in taker.params:
            given = {known.key(each) for each in passed(module, taker, param.name) if each is not None}
            if given & {key for key, place in found if place is state.call}:
                yield known.variable(taker.scope, param.name), call


def _optimizers_of(module: Module, base: ir.Value) -> list[str]:
    """The key of an optimizer, and the one of the container of optimizers that it is taken out of."""
    container = container_of(module, base)
    found = [objects(module).is_optimizer(base), container if holds_optimizers(module, container) else None]
    return [each for each in found if each is not None]


def _parameters_of(module: Module, state: State) -> Iterator[tuple[str, tuple[ir.Function, str]]]:
    """The parameters that an optimizer or its container is, or is an attribute of: key, function and name of each."""
    container = container_of(module, state.of)
    for own in {root_of(each): None for each in (state.key, container) if each is not None}:
        if (parameter := objects(module).parameter_of(own)) is not None:
            yield own, parameter


def _given_key(module: Module, value: ir.Value) -> str | None:
    """The key of what a call gives, of an object too that is made right there."""
    key = objects(module).key(value)
    return made_key(value.id) if key is None and isinstance(value, ir.Call) else key
