"""A run that goes on from what another one saved: which switches differ between runs, and what the loads ask before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.call_sites import callers, passed
from amplint.model.calls.external_calls import local_class
from amplint.model.inference.constructions import constructions
from amplint.model.inference.formulas import TRUE, Formula, World, bearing_on, both, fact, negated, possible, worlds
from amplint.model.inference.value_sets import ON_CUDA, decided
from amplint.model.inference.values import asked, parameter_read, values_of
from amplint.model.names.reaching_definitions import reaching, returned
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round, unpacked_from
from amplint.model.syntax.ir import Assigned, Imported, Other
from amplint.model.syntax.nesting import loop_of, upwards
from amplint.model.syntax.scopes import owner_class
from amplint.rules.shared.checkpoints import Slot, slot_of
from amplint.rules.shared.finite_checks import ends_program
from amplint.rules.shared.said_of_runs import (
    EVERYTHING,
    Setting,
    are_related,
    beside,
    kept_under,
    settings_of,
    step_of,
)
from amplint.rules.shared.scaler_usage import ScalerUsage, flags_in

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.objects.terms import Term

# What reads something that a run is given: the command line, a configuration, the environment, the machine.
_READS = re.compile(
    r"(?i)from_?(file|cli|json|yaml)|^cli$|pars|load|read|env|conf|args|opts?$|option|setup|get$|capab|supported"
)
_OUTSIDE = {"os.environ", "sys.argv"}
# What a file imports as its settings: `from config import cfg`, `from config import train`.
_SETTINGS = re.compile(
    r"(?i)(^|[._])(configs?|conf|cfg|args|opts?|options|flags|hparams|hyper_?params|settings)(\.\w+)?$"
)
_CHECKPOINTS = re.compile(r"(?i)load|resume|restore|checkpoint|ckpt|ckp|latest")
_IN_MEMORY = re.compile(r"io\.|tempfile\.")
_CONVERTS = {"builtins.int", "builtins.float", "builtins.str", "builtins.bool"}
# What a `try` may wait for that a scaler doesn't raise where the state is empty.
_OTHER_ERRORS = {
    "AttributeError", "FileNotFoundError", "IOError", "ImportError", "IndexError", "KeyError", "OSError", "TypeError",
    "ValueError",
}  # fmt: skip
_FOLLOW = 8
(CUDA,) = ON_CUDA.facts()


class Entry(NamedTuple):
    """A state that is read from a checkpoint: its key there, the checkpoint, and what is given or assigned on the way
    to the load, each with the place where it is, the load first.
    """

    key: str
    checkpoint: ir.Value
    given: tuple[tuple[ir.Value, ir.Value], ...]


def entries(module: Module, load: ir.Call) -> Iterator[Entry]:
    """Where the state comes from that a call of `load_state_dict()` is given, through variables and parameters."""
    if load.args:
        yield from _entries(module, load.args[0].value, ((load.args[0].value, load),), _FOLLOW)


def _entries(
    module: Module, value: ir.Value, given: tuple[tuple[ir.Value, ir.Value], ...], depth: int
) -> Iterator[Entry]:
    taken = _taken_by_name(value)
    if taken is not None:
        name, checkpoint = taken
        if isinstance(name, ir.Constant) and isinstance(name.value, str):
            yield Entry(name.value, checkpoint, given)
    elif isinstance(value, ir.Name) and depth:
        for source, place in _given_as(module, value):
            yield from _entries(module, source, (*given, (source, place)), depth - 1)


def whole_files(module: Module, load: ir.Call) -> Iterator[Entry]:
    """The files that hold just the state that a call of `load_state_dict()` is given; their names are the keys."""
    for leaf in values_of(module, load.args[0].value).leaves if load.args else ():
        call = leaf.value if isinstance(leaf.value, ir.Call) and not leaf.is_open else None
        name = file_name(call.positional[0]) if call is not None and call.positional else ""
        if call is not None and name and _reads_file(call):
            yield Entry(name, call, ((load.args[0].value, load),))


def file_name(path: ir.Value) -> str:
    """The name of a file, as far as its path is written out, `f"{folder}/scaler.pt"`; "" if it isn't."""
    texts = [each.value for each in ir.walk_values(path) if isinstance(each, ir.Constant)]
    last = texts[-1] if texts and isinstance(texts[-1], str) else ""
    return last.rpartition("/")[2] if "." in last else ""


def _taken_by_name(value: ir.Value) -> tuple[ir.Value | None, ir.Value] | None:
    """Under which name a value is taken out of what: `checkpoint["scaler"]`, `checkpoint.get("scaler")`."""
    if isinstance(value, ir.Subscript):
        return value.index, value.base
    if isinstance(value, ir.Call) and isinstance(value.func, ir.Attribute) and value.func.attr in ("get", "pop"):
        return next(iter(value.positional), None), value.func.base
    return None


def _given_as(module: Module, value: ir.Name) -> Iterator[tuple[ir.Value, ir.Value]]:
    """What is assigned to a variable, or given for a parameter, each with the place where it is."""
    bindings = reaching(module.names, value)
    for each in bindings:
        if isinstance(each, Assigned):
            yield each.value, each.value
    only = bindings[0] if len(bindings) == 1 else None
    if isinstance(only, Other) and isinstance(only.node, ir.Function):
        for call, passed_on in zip(callers(module, only.node), passed(module, only.node, value.name), strict=True):
            if passed_on is not None:
                yield passed_on, call


def is_of_another_run(module: Module, load: ir.Call, save: ir.Value, entry: Entry) -> bool:
    """Whether what is loaded may be what another run saved: not what this one did, to go back to it."""
    function = ir.function_of(load)
    if loop_of(load) is not None or (ir.function_of(save) is function and save.id < load.id):
        return False
    calls = callers(module, function)
    if calls and all(loop_of(each) is not None for each in calls):
        return False
    return _is_read(module, entry.checkpoint)


def _is_read(module: Module, value: ir.Value) -> bool:
    """Whether a checkpoint comes from a file, or from whoever calls the function."""
    while isinstance(value, (ir.Subscript, ir.Attribute)):
        value = value.base
    return any(
        parameter_read(module, leaf.value) is not None if leaf.is_open else asked(module, _reads, leaf.value, False)
        for leaf in values_of(module, value).leaves
    )


def _reads(module: Module, value: ir.Value) -> bool:
    """Whether what makes a checkpoint reads it from a file."""
    if isinstance(value, (ir.Subscript, ir.Attribute)):
        return _is_read(module, value)
    if not isinstance(value, ir.Call):
        return False
    if isinstance(value.func, ir.Attribute) and value.func.attr in ("get", "pop"):
        return _is_read(module, value.func.base)
    names = module.names.of(value.func)
    kept = any(_is_in_memory(module, each) for each in value.positional[:1])
    return bool(_CHECKPOINTS.search(ir.last_name(value.func))) and not kept and "builtins.dict" not in names


def _is_in_memory(module: Module, value: ir.Value) -> bool:
    """Whether the program itself makes the file that it reads: a buffer, or a temporary one."""
    return any(
        asked(module, _is_made_in_memory, each, False)
        for leaf in values_of(module, value).leaves
        for each in (leaf.value, *_taken(module, leaf.value))
    )


def _taken(module: Module, value: ir.Value) -> Iterator[ir.Value]:
    """What a loop's variable, or that of a `with`, takes its values from."""
    for binding in reaching(module.names, value) if isinstance(value, ir.Name) else ():
        source = unpacked_from(binding)
        if source is not None:
            yield from source.items if isinstance(source, ir.Sequence) else (source,)


def _is_made_in_memory(module: Module, value: ir.Value) -> bool:
    if isinstance(value, ir.Name):
        return _is_in_memory(module, value)
    return isinstance(value, ir.Call) and any(map(_IN_MEMORY.match, module.names.of(value.func)))


# --- switches that a run is given ------------------------------------------------------------------------------------


class Lost(NamedTuple):
    """Why a checkpoint has no state of a scaler that is on: the world in which it is saved so, what decides, and what
    is saved: "empty" or "None". `device`: the runs differ in nothing but the device.
    """

    world: World
    formula: Formula
    what: str
    device: bool


class Resumed(NamedTuple):
    """A scaler whose state one run saves, and another one loads.

    `save` is the call that takes the state, or the scaler itself, as it is given to what saves each object's state.
    """

    usage: ScalerUsage
    save: ir.Value
    load: ir.Call
    entry: Entry


def off_in_another_run(module: Module, resumed: Resumed) -> Lost | None:
    """Under what a run saves the state of a scaler that is off, and another one loads it into the same, on.

    None where both take their switch from the code itself, or from what the checkpoint has and is compared with what
    the run has; or only from whether there is cuda, without which any scaler is off.
    """
    enabled, save, known = resumed.usage.made.enabled, resumed.save, decided(module)
    if enabled is None or _asks_for_switch(module, resumed.usage, save):
        return None
    saved = both(where_made(module, resumed.usage), known.around(save))
    return _lost(module, resumed, (negated(known.of(enabled)), saved), [enabled], "empty")


def none_of_another_run(module: Module, resumed: Resumed) -> Lost | None:
    """Under what a run saves None, or an empty dict, in the place of a state that another one loads."""
    slot, known = slot_of(module, resumed.save), decided(module)
    if slot is None:
        return None
    for value, when in _in_its_place(module, slot, resumed.save):
        place = slot.whole if isinstance(slot.whole, (ir.Mapping, ir.Call)) else value
        tests = [known.tests[each] for each in when.facts() if each in known.tests]
        found = _lost(module, resumed, (when, known.around(place)), tests, _value_said(value))
        if found is not None:
            return found
    return None


def _value_said(value: ir.Value) -> str:
    """What stands in the place of a state, in a word."""
    return "None" if ir.is_none(value) else "empty"


def _in_its_place(module: Module, slot: Slot, save: ir.Value) -> Iterator[tuple[ir.Value, Formula]]:
    """What a checkpoint may have in the place of a state, and when: `scaler.state_dict() if scaler else None`."""
    known = decided(module)
    for value in (slot.value, *(each for _, each in beside(module, slot))):
        if (
            isinstance(value, ir.Bool)
            and value.op == "and"
            and any(each is save for each in ir.walk_values(value.right))
        ):
            yield ir.Constant(value.id, value.node, value.parent, None), negated(known.of(value.left))
        for leaf in values_of(module, value).leaves:
            if ir.is_none(leaf.value) or _is_empty(module, leaf.value):
                yield leaf.value, both(known.when(leaf), known.inside(leaf.value))


def _is_empty(module: Module, value: ir.Value) -> bool:
    """Whether a value is `{}`, or `dict()`."""
    if isinstance(value, ir.Mapping):
        return not value.items
    return isinstance(value, ir.Call) and not value.args and "builtins.dict" in module.names.of(value.func)


def _lost(
    module: Module, resumed: Resumed, saved: tuple[Formula, Formula], switches: list[ir.Value], what: str
) -> Lost | None:
    """How two runs differ of which one loads, and the other saves nothing: `saved` says when, and when it saves at all.

    What they compare is the same in both. If they can be on the same device, they are.
    """
    compared = compared_before(module, resumed.entry, resumed.save, what)
    if EVERYTHING in compared:
        return None
    usage, known = resumed.usage, decided(module)
    loaded = both(known.of(usage.made.enabled), where_made(module, usage), known.around(resumed.load))
    off = saved[0]
    loaded = bearing_on(loaded, off)
    at_all = bearing_on(saved[1], off, loaded)
    facts = off.facts() | loaded.facts()
    same = [each for each in facts if are_related(_settings_of(module, each, switches), compared)]
    may_differ = bool(off.facts() - ON_CUDA.facts()) and any(_differs(module, each) for each in switches)
    device_may = any(_is_given_device(module, each) for each in switches)
    for world in worlds(loaded) if may_differ or device_may else ():
        fixed = both(*(fact(term) if world[term] else negated(fact(term)) for term in same if term in world))
        found = possible(off, at_all, fixed, ON_CUDA) if may_differ else None
        if found is None and device_may:
            found = possible(off, at_all, fixed)
        if found is not None:
            return Lost(found, off, what, device=not found.get(CUDA, True))
    return None


def _settings_of(module: Module, term: Term, switches: list[ir.Value]) -> set[Setting]:
    """The settings that decide a fact."""
    if term == CUDA:
        tests = [test for each in switches for test in _device_tests(module, each, set())]
    else:
        tests = [decided(module).tests[term]] if term in decided(module).tests else []
    return set[Setting]().union(*(settings_of(module, each, origins=True) for each in tests))


def _is_given_device(module: Module, switch: ir.Value) -> bool:
    """Whether a switch asks for a device that a run is given."""
    return any(_differs(module, each) for each in _device_tests(module, switch, set()))


def _device_tests(module: Module, value: ir.Value, seen: set[int]) -> Iterator[ir.Value]:
    """The parts of a switch that ask whether a device is cuda."""
    if value.id in seen or not ON_CUDA.facts() & decided(module).of(value).facts():
        return
    seen.add(value.id)
    leaves = [leaf.value for leaf in values_of(module, value).leaves if leaf.value is not value]
    if isinstance(value, ir.Compare):
        yield value
    elif isinstance(value, (ir.Bool, ir.Unary, ir.Conditional, ir.Call)) and not leaves:
        for each in value.children():
            if isinstance(each, ir.Value):
                yield from _device_tests(module, each, seen)
    for each in leaves:
        yield from _device_tests(module, each, seen)


def where_made(module: Module, usage: ScalerUsage) -> Formula:
    """What has to hold for a scaler to be made: where it isn't, it has no state to save or load.

    Tests whether it is there already say nothing of later: by then it is.
    """
    tests = [test for test, _ in conditions_round(usage.made.call)]
    if any(flags_in(module, test) & usage.keys for test in tests):
        return TRUE
    return decided(module).around(usage.made.call)


def _asks_for_switch(module: Module, usage: ScalerUsage, save: ir.Value) -> bool:
    """Whether a test round a save asks for the switch, whatever object it is read of, or for more of the scaler than
    whether there is one.
    """
    assert usage.made.enabled is not None
    words = {name.rpartition(".")[2].rpartition(":")[2] for name in flags_in(module, usage.made.enabled)}
    key = objects(module).key
    for test, _ in conditions_round(save):
        for each in ir.walk_values(test):
            if isinstance(each, (ir.Name, ir.Attribute)) and ir.last_name(each) in words:
                return True
            if isinstance(each, ir.Attribute) and key(each.base) in usage.keys:
                return True
    return False


def _differs(module: Module, value: ir.Value) -> bool:
    """Whether one run may be given another value than the next: by the command line, a configuration, a caller."""
    found = set(_sources(module, value, set()))
    return True in found and None not in found


def _sources(module: Module, value: ir.Value, seen: set[int]) -> Iterator[bool | None]:
    """What a value comes from: whether it is outside of the code; None for what the checkpoint itself says."""
    if value.id in seen:
        return
    seen.add(value.id)
    if isinstance(value, ir.Name):
        yield from _of_name(module, value, seen)
    elif not (isinstance(value, ir.Attribute) and owner_class(value)) and module.names.of(value) & _OUTSIDE:
        yield True
    elif isinstance(value, ir.Call):
        yield from _of_call(module, value, seen)
    else:
        read, made = _read_by(module, value)
        for each in read:
            yield from _sources(module, each, seen)
        for call in made if len(made) > 1 else ():
            yield from _deciding(module, call, seen)


def _read_by(module: Module, value: ir.Value) -> tuple[list[ir.Value], list[ir.Call]]:
    """The values that another one is made of: what an attribute is set to or made with, else its object; and the calls
    that make the objects of the attribute.
    """
    if not isinstance(value, ir.Attribute):
        return [each for each in value.children() if isinstance(each, ir.Value)], []
    if owner_class(value) is not None:
        return [each for each in module.names.stored(value) if each is not None], []
    if written := _written(module, value):
        return written, []
    made = _made_with(module, value)
    return [given for _, given in made] or [value.base], [call for call, _ in made]


def _written(module: Module, value: ir.Attribute) -> list[ir.Value]:
    """What a setting is set to by the file's top level, where nothing else sets it: `cfg.amp = True`."""
    near = module.whole.near(value.attr).statements
    sets = [each for each in near if isinstance(each, ir.Assign) and any(_is_named(to, value) for to in each.targets)]
    if not all(ir.function_of(each) is None and not conditions_round(each) for each in sets):
        return []
    return [each.value for each in sets if each.value is not None]


def _is_named(target: ir.Value, value: ir.Attribute) -> bool:
    """Whether a target is an attribute with the name of another one, of an object with the same name."""
    return (
        isinstance(target, ir.Attribute)
        and target.attr == value.attr
        and ir.last_name(target.base) == ir.last_name(value.base)
    )


def _made_with(module: Module, value: ir.Attribute) -> list[tuple[ir.Call, ir.Value]]:
    """The calls that make an attribute's objects, each with what it gives for it; nothing where one doesn't show it."""
    found = []
    for made in constructions(module, value.base):
        cls = local_class(module, made.func)
        given = objects(module).kept_values(made, cls).get(value.attr) if cls is not None else None
        if given is None:
            return []
        found.append((made, given))
    return found


def _of_name(module: Module, value: ir.Name, seen: set[int]) -> Iterator[bool | None]:
    bindings = reaching(module.names, value)
    for binding in bindings:
        if isinstance(binding, Assigned):
            yield from _sources(module, binding.value, seen)
            if len(bindings) > 1:
                yield from _deciding(module, binding.target, seen)
        elif isinstance(binding, Imported):
            yield _SETTINGS.search(binding.name) is not None
        elif isinstance(binding, Other) and isinstance(binding.node, ir.Function):
            given = passed(module, binding.node, value.name)
            if not given:
                yield True
            for each in given:
                if each is None:
                    yield True
                else:
                    yield from _sources(module, each, seen)
        elif (source := unpacked_from(binding)) is not None:
            yield from _sources(module, source, seen)


def _deciding(module: Module, node: ir.Node, seen: set[int]) -> Iterator[bool | None]:
    """What outside of the code decides whether one of several values is taken, by the tests around it."""
    for test, _ in conditions_round(node):
        yield from filter(None, _sources(module, test, seen))


def _of_call(module: Module, call: ir.Call, seen: set[int]) -> Iterator[bool | None]:
    names = module.names.of(call.func)
    if names & {"torch.load", "torch.cuda.is_available"}:
        yield None if "torch.load" in names else False
        return
    callee = module.once(CallGraph).find(call)
    if callee is not None and local_class(module, call.func) is None:
        for each in returned(callee.function):
            if each.value is not None:
                yield from _sources(module, each.value, seen)
            yield from _deciding(module, each, seen)
        return
    if local_class(module, call.func) is None and _READS.search(ir.last_name(call.func)):
        yield True
    for part in (call.func.base if isinstance(call.func, ir.Attribute) else None, *(arg.value for arg in call.args)):
        if part is not None:
            yield from _sources(module, part, seen)


# --- guards ----------------------------------------------------------------------------------------------------------


def is_asked_for(module: Module, entry: Entry) -> bool:
    """Whether something on the way to a load asks whether the state is empty, or catches the error."""
    return EVERYTHING in compared_before(module, entry, None)


def compared_before(module: Module, entry: Entry, save: ir.Value | None, what: str = "empty") -> set[Setting]:
    """The settings that are asked for on the way to a load, as a checkpoint has them: everything, where that is whether
    there is a state, or can't be told, or where the error is caught.
    """
    found = set[Setting]()
    for value, place in entry.given:
        is_safe = _catches(module, place, what) or _is_replaced(module, value)
        found |= {EVERYTHING} if is_safe else _compared_at(module, entry, place, save, what)
    return found


def _is_replaced(module: Module, value: ir.Value) -> bool:
    """Whether a variable gets another state, going by a test of the one that it has: `if state is None: state = ...`"""
    return isinstance(value, ir.Name) and any(
        flags_in(module, test) & flags_in(module, value)
        for each in reaching(module.names, value)
        if isinstance(each, Assigned)
        for test, _ in conditions_round(each.value)
    )


def _compared_at(module: Module, entry: Entry, place: ir.Value, save: ir.Value | None, what: str) -> set[Setting]:
    held = (entry.checkpoint, *(value for value, _ in entry.given))
    # What a call reads the state with, a path, is no part of it.
    state = set[str]().union(*(flags_in(module, each) for each in held if not _reads_file(each)))
    tests = [test for test, _ in conditions_round(place)]
    function = ir.function_of(place)
    tests += [
        each.test
        for each in module.whole.within(function).statements
        if each.id < place.id and ir.function_of(each) is function and isinstance(each, (ir.Assert, ir.If))
        if isinstance(each, ir.Assert) or any(map(_leaves, ir.walk_statements(each.then, into=False)))
    ]
    atoms = [atom for test in tests for atom in _atoms(test) if _asks_for_more(module, atom, entry, state, what)]
    return set[Setting]().union(*(_compared(module, atom, entry, state, save) for atom in atoms))


def _reads_file(value: ir.Value) -> bool:
    return isinstance(value, ir.Call) and _CHECKPOINTS.search(ir.last_name(value.func)) is not None


def _leaves(statement: ir.Statement) -> bool:
    return isinstance(statement, (ir.Raise, ir.Return))


def _compared(module: Module, atom: ir.Value, entry: Entry, state: set[str], save: ir.Value | None) -> set[Setting]:
    """The settings that a test asks a checkpoint for: what the save keeps there."""
    slot = slot_of(module, save) if save is not None else None
    key = objects(module).key
    found = set[Setting]()
    for each in ir.walk_values(atom):
        bound = module.names.bound_once(each) if isinstance(each, ir.Name) else None
        if key(each) in state:
            read = each.parent
            if isinstance(read, ir.Attribute) and isinstance(read.parent, ir.Call):
                read = read.parent
        elif bound is not None and _reads_any(module, bound.value, state):
            read = _unconverted(module, bound.value)
        else:
            continue
        step = step_of(read) if isinstance(read, ir.Value) else None
        kept = kept_under(module, slot, step[1]) if slot is not None and step is not None else None
        is_other = (
            kept is not None and step is not None and key(step[0]) == key(entry.checkpoint) and step[1] != entry.key
        )
        found |= settings_of(module, kept, origins=False) if kept is not None and is_other else {EVERYTHING}
    return found


def _unconverted(module: Module, value: ir.Value) -> ir.Value:
    """`checkpoint["epoch"]` of `int(checkpoint["epoch"])`."""
    converts = isinstance(value, ir.Call) and bool(module.names.of(value.func) & _CONVERTS)
    return value.positional[0] if converts and isinstance(value, ir.Call) and len(value.positional) == 1 else value


def _atoms(test: ir.Value) -> Iterator[ir.Value]:
    """The tests that a test is made of."""
    if isinstance(test, ir.Bool):
        yield from _atoms(test.left)
        yield from _atoms(test.right)
    elif isinstance(test, ir.Unary) and test.op == "Not":
        yield from _atoms(test.operand)
    else:
        yield test


def _asks_for_more(module: Module, test: ir.Value, entry: Entry, state: set[str], what: str) -> bool:
    """Whether a test asks a state or checkpoint for more than whether it is there: an empty one is there as well.

    Where None may be in its place, that it isn't None is more than that it is there.
    """
    if isinstance(test, ir.Compare) and len(test.ops) == 1:
        if test.ops[0] in ("Is", "IsNot") and ir.is_none(test.rights[0]):
            if what == "empty" or objects(module).key(test.left) == objects(module).key(entry.checkpoint):
                return False
        elif test.ops[0] in ("In", "NotIn") and isinstance(test.left, ir.Constant):
            return False
    if isinstance(test, ir.Call) and module.names.of(test.func) & {"builtins.isinstance", "builtins.hasattr"}:
        about = objects(module).key(test.args[0].value) if test.args else None
        if what == "empty" or about == objects(module).key(entry.checkpoint):
            return False
    key = objects(module).key
    if isinstance(test, (ir.Name, ir.Attribute)) and key(test) is not None:
        return key(test) in state and key(test) != key(entry.checkpoint)
    for each in ir.walk_values(test):
        bound = module.names.bound_once(each) if isinstance(each, ir.Name) else None
        if key(each) in state or (bound is not None and _reads_any(module, bound.value, state)):
            return True
    return False


def _reads_any(module: Module, value: ir.Value, keys: set[str]) -> bool:
    return any(objects(module).key(each) in keys for each in ir.walk_values(value))


def _catches(module: Module, place: ir.Value, what: str) -> bool:
    """Whether a `try` or `with` round a place catches what a scaler raises, TypeError of None, and goes on."""
    for each in upwards(ir.statement_of(place)):
        up = each.parent
        if isinstance(up, ir.Try) and each.block is up.body:
            if any(_may_catch(one, what) and not _gives_up(module, one) for one in up.handlers):
                return True
        if isinstance(up, ir.With) and any(
            isinstance(item.context, ir.Call) and ir.last_name(item.context.func) == "suppress" for item in up.items
        ):
            return True
    return False


def _gives_up(module: Module, handler: ir.Handler) -> bool:
    """Whether a handler ends the program, or raises again, at its end."""
    last = handler.body.statements[-1] if handler.body.statements else None
    if isinstance(last, ir.Raise) and not last.parts:
        return True
    return last is not None and ends_program(module, last)


def _may_catch(handler: ir.Handler, what: str) -> bool:
    if handler.type is None:
        return True
    types = handler.type.items if isinstance(handler.type, ir.Sequence) else (handler.type,)
    others = _OTHER_ERRORS - {"TypeError"} | {"RuntimeError"} if what == "None" else _OTHER_ERRORS
    return any(ir.last_name(each) not in others for each in types)
