"""Where a run is resumed: the loads of optimizers' states, those in sight and the signs of those that are not."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from amplint.base.paths import NOTEBOOK, seen_from
from amplint.model.calls.call_sites import callers
from amplint.model.names.reaching_definitions import reaching
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.loop_sources import container_of
from amplint.model.project.importers import loader_of_optimizers, surely_unnamed
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.nesting import ifs_round, loop_of, loops_round, upwards
from amplint.model.syntax.operators import ORDERS
from amplint.rules.shared.checkpoints import is_of_none, keys_of, loaded_by, saved_by, torchs_states
from amplint.rules.shared.scaler_usage import holds_optimizers, starts_anew

if TYPE_CHECKING:
    from amplint.model import Module

_OPTIMIZER = re.compile(r"(?i)optim|^opts?$|^opts?_|_opts?$")
_RESUMES = re.compile(r"(?i)^_*(auto_?)?(load|resume|restore)(?!_state_dict)(?!er)")
_LOADING = re.compile(r"(?i)load|resume|restore")
_UNUSUAL = re.compile(r"(?i)eval|debug|sanity|dry|(?<![a-z])tpu|xla")
_BEST = re.compile(r"(?i)best|improv")
_LAST_OF_ALL = re.compile(r"(?i)best|final")
_EPOCHS = re.compile(r"(?i)epoch|max_?(step|iter)|num_?(step|iter)|total_?(step|iter)")
_UP = 3


def loads_in_sight(module: Module) -> list[ir.Call]:
    """The loads of an optimizer's state, from a file as far as can be told, whatever steps the optimizer."""
    return module.once(_loads_in_sight)


def _loads_in_sight(module: Module) -> list[ir.Call]:
    found = [*torchs_states(module, gives=False)]
    for call in module.whole.near("load_state_dict").calls:
        base = ir.called_on(call, "load_state_dict")
        if base is not None and _is_of_an_optimizer(module, base, call):
            found.append((call, base))
    loads = [(call, of, value) for call, of in found if (value := loaded_by(call)) is not None]
    return [
        call
        for call, of, value in loads
        if not _from_memory(module, value)
        and not is_of_none(module, of)
        and not goes_back(module, call)
        and not _is_over(module, call, _UP)
        and not _is_never_run(module, call)
    ]


def _is_never_run(module: Module, load: ir.Call) -> bool:
    """Whether a load is in a function that nothing uses, in a program that trains: no run of it resumes.

    In a notebook someone may call it by hand, and so they may where nothing calls what trains, either.
    """
    function = ir.function_of(load)
    if function is None or function.cls is not None or module.source.filename.endswith(NOTEBOOK):
        return False
    if any(ir.is_variable(each, function.name) for each in module.whole.near(function.name).values):
        return False
    backwards = module.whole.called("backward")
    runs = any(somewhere_called(module, each, _UP, lambda at: ir.function_of(at) is None) for each in backwards)
    return runs and surely_unnamed(module.source.filename, function.name)


def somewhere_called(module: Module, node: ir.Node, up: int, holds: Callable[[ir.Node], bool]) -> bool:
    """Whether something holds at a place, or somewhere its function is called, through so many calls."""
    if holds(node):
        return True
    sites = callers(module, ir.function_of(node)) if up else []
    return any(somewhere_called(module, each, up - 1, holds) for each in sites)


def is_loaded_by_nobody(module: Module) -> bool:
    """Whether an optimizer's state is only loaded by functions for that, and no code in sight calls them: someone may
    call them by hand, as in a notebook.
    """
    functions = [ir.function_of(each) for each in loads_in_sight(module)]
    by_hand = bool(functions) and all(map(partial(_waits_for_a_call, module), functions))
    return by_hand and handed_over(module) is None and loaded_elsewhere(module) is None


def _waits_for_a_call(module: Module, function: ir.Function | None) -> bool:
    """Whether a function, which by its name loads, is no method, and nothing in the file calls it."""
    if function is None or function.cls is not None or not _LOADING.search(function.name):
        return False
    return not callers(module, function)


def goes_back(module: Module, load: ir.Call) -> bool:
    """Whether a load is in the loop that trains: the run itself goes back to a better state, and keeps its scaler."""
    return any(
        any(ir.last_name(each.func) == "backward" for each in ir.calls_below(loop.body))
        and not starts_anew(module, loop)
        for loop in loops_round(load)
    )


def _is_over(module: Module, node: ir.Node, up: int) -> bool:
    """Whether training is over where a state is loaded, in its function or wherever that is called: the best model is
    taken for a test.
    """
    return _wherever_called(module, node, up, _is_behind_training)


def _wherever_called(module: Module, node: ir.Node, up: int, holds: Callable[[ir.Node], bool]) -> bool:
    """Whether something holds at a place, or wherever its function is called, through so many calls."""
    if holds(node):
        return True
    sites = callers(module, ir.function_of(node)) if up else []
    return bool(sites) and all(_wherever_called(module, each, up - 1, holds) for each in sites)


def _is_of_an_optimizer(module: Module, base: ir.Value, call: ir.Call) -> bool:
    known = objects(module)
    if known.is_optimizer(base) is not None or holds_optimizers(module, container_of(module, base)):
        return True
    if any(map(known.is_optimizers, keys_of(module, base))):
        return True
    said: list[ir.Value] = [call]
    loop = loop_of(call)
    if isinstance(loop, ir.For) and isinstance(base, ir.Name):
        if any(isinstance(each, ir.Name) and each.name == base.name for each in ir.walk_values(loop.target)):
            said.append(loop.iter)
    return any(_says_optimizer(each) for value in said for each in ir.walk_values(value))


def _says_optimizer(value: ir.Value) -> bool:
    word = value.value if isinstance(value, ir.Constant) else ir.last_name(value)
    return isinstance(word, str) and bool(_OPTIMIZER.search(word))


def _from_memory(module: Module, value: ir.Value) -> bool:
    """Whether a state was taken of an object by this run: not where that only stands in for what a file lacks."""
    found = [value]
    if isinstance(value, ir.Name):
        found = [each.value for each in module.names.bindings(value) if isinstance(each, Assigned)]
    found = [ir.called_on(each, "get") or each for each in found]  # `saved.get("optimizer", optimizer.state_dict())`
    return any(
        isinstance(each, ir.Attribute) and each.attr == "state_dict" for one in found for each in ir.walk_values(one)
    )


def handed_over(module: Module) -> ir.Call | None:
    """A call that by its name loads a checkpoint, and is given an optimizer."""
    for call in module.own.near(_LOADING).calls:
        given = [each.value for each in call.args if isinstance(each.value, (ir.Name, ir.Attribute))]
        if _RESUMES.search(ir.last_name(call.func)) and any(map(_says_optimizer, given)):
            return call
    return None


def loaded_elsewhere(module: Module) -> str | None:
    """Another file that has to do with this one and loads an optimizer's state, as messages name it."""
    found = loader_of_optimizers(module.source.filename)
    return seen_from(found, module.source.filename) if found is not None else None


def is_resumed(module: Module) -> bool:
    """Whether something loads an optimizer's state: here, out of sight in what is called here, or in another file."""
    return bool(loads_in_sight(module)) or handed_over(module) is not None or loaded_elsewhere(module) is not None


def is_last_of_all(module: Module, state: ir.Call, place: ir.Node) -> bool:
    """Whether a state is one of the best model or of the final one: nobody goes on with training there.

    That is told by the file's name, by a test whether the model is better than before, or by the training's end.
    `place`: where the scaler can be reached, which may be a call of the function that saves.
    """
    saved = saved_by(module, state)
    if saved is not None and any(map(_LAST_OF_ALL.search, _paths(module, saved, state))):
        return True
    return any(_stands_last(module, each, _UP) for each in (state, saved or state, place))


def _stands_last(module: Module, node: ir.Node, up: int) -> bool:
    """Whether a place is reached with a better model only, or when training is over, in its function or its callers."""

    def is_last(at: ir.Node) -> bool:
        return any(_asks_for_better(module, each, at) for each in ifs_round(at)) or _is_behind_training(at)

    return _wherever_called(module, node, up, is_last)


def _asks_for_better(module: Module, statement: ir.If, node: ir.Node) -> bool:
    """Whether a test asks for the best, by its names, or compares with what is then set to be it."""
    if any(_BEST.search(ir.last_name(each)) for each in ir.walk_values(statement.test)):
        return not (isinstance(statement.test, ir.Unary) and statement.test.op == "Not")
    compared = [
        module.on_one_line(side)
        for each in ir.walk_values(statement.test)
        if isinstance(each, ir.Compare) and set(each.ops) <= ORDERS.keys()
        for side in each.children()
        if not isinstance(side, ir.Constant)
    ]
    return any(
        (set(compared) - {module.on_one_line(target)}) & {module.on_one_line(one) for one in ir.walk_values(each.value)}
        for each in ir.walk_statements(statement.then, into=False)
        if isinstance(each, ir.Assign) and each.value is not None
        for target in each.targets
        if module.on_one_line(target) in compared
    )


def _is_behind_training(node: ir.Node) -> bool:
    """Whether a loop over epochs, or over all the steps, is over there, and none is round it."""
    if loop_of(node) is not None:
        return False
    for each in upwards(ir.statement_of(node)):
        for before in each.block.statements[: each.block.statements.index(each)]:
            if isinstance(before, (ir.For, ir.While)) and _is_of_epochs(before):
                return True
    return False


def _is_of_epochs(loop: ir.For | ir.While) -> bool:
    header = (loop.target, loop.iter) if isinstance(loop, ir.For) else (loop.test,)
    return any(_EPOCHS.search(ir.last_name(value)) for each in header for value in ir.walk_values(each))


def usual_first(module: Module, key: str | None, state: ir.Call) -> tuple[bool, bool, bool, bool]:
    """For sorting: False first for states under a key, and in a file, that is loaded, for those of a usual path, and
    for those that are not of the best model.
    """
    keys, paths = module.once(_loaded)
    saved = saved_by(module, state)
    own = _paths(module, saved, state) if saved is not None else set()
    rare = _is_rare(state) or (saved is not None and _is_rare(saved))
    return key not in keys, not (own & paths), rare, is_last_of_all(module, state, state)


def _is_rare(call: ir.Call) -> bool:
    """Whether a place is reached in unusual runs only: for an error, an evaluation alone, a flag without a loop."""
    function = ir.function_of(call)
    if function is not None and _UNUSUAL.search(function.name):
        return True
    if any(each.block.role.startswith("handler") for each in upwards(ir.statement_of(call))):
        return True
    around = ifs_round(call)
    if around and loop_of(call) is None:
        return True
    words = (ir.last_name(value) for each in around for value in ir.walk_values(each.test))
    return any(map(_UNUSUAL.search, words))


def _loaded(module: Module) -> tuple[set[object], set[str]]:
    """The keys under which optimizers' states are read, and what the files are called that are loaded there."""
    keys, paths = set[object](), set[str]()
    for call in loads_in_sight(module):
        loaded = loaded_by(call)
        for value in ir.walk_values(loaded) if loaded is not None else ():
            if isinstance(value, ir.Constant):
                keys.add(value.value)
        function = ir.function_of(call)
        for other in module.whole.within(function).calls:
            if ir.function_of(other) is function and ir.last_name(other.func) == "load":
                paths |= _paths(module, other, call)
    return keys, paths


def _paths(module: Module, call: ir.Call, state: ir.Call) -> set[str]:
    """The names of files among the arguments of a call: constants, and what variables are bound to."""
    found = set()
    for arg in call.args:
        values = list(ir.walk_values(arg.value))
        if state in values or isinstance(arg.value, ir.Mapping):
            continue
        for value in values:
            bound = reaching(module.names, value) if isinstance(value, ir.Name) else []
            more = [each.value for each in bound if isinstance(each, Assigned) and not _is_dict(each.value)]
            for one in (value, *(each for other in more for each in ir.walk_values(other))):
                if isinstance(one, ir.Constant) and isinstance(one.value, str) and len(one.value) > 2:
                    found.add(one.value)
    return found


def _is_dict(value: ir.Value) -> bool:
    return isinstance(value, ir.Mapping) or (isinstance(value, ir.Call) and ir.last_name(value.func) == "dict")
