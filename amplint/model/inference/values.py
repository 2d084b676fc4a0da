"""What a value can be: the expressions that it comes from, each with what has to hold for it to be that one.

Variables, attributes, choices, dicts, what functions return, what callers give, defaults of parameters and options are
followed as far as the file, and what is taken from others, shows. Which device, dtype, type or number a leaf is, others
say. What is out of sight is a leaf that is open: an open value stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.call_sites import passed_by
from amplint.model.calls.external_calls import inherits, method, storing_class
from amplint.model.inference.declared_settings import (
    PARSES,
    Option,
    declared_flag,
    decorated_default,
    field_of,
    fields_given,
    given_default,
    has_fields,
    is_frozen,
    is_settings,
    option_named,
)
from amplint.model.module import Answers
from amplint.model.names.reaching_definitions import is_made_in, reaching, returned
from amplint.model.names.tables import is_added_to, items_of, tells
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.control import asks_for_itself, conditions_round, is_changed
from amplint.model.syntax.ir import Assigned, Binding, Imported, Other
from amplint.model.syntax.nesting import is_within
from amplint.model.syntax.operators import COMPARES
from amplint.model.syntax.scopes import owner_class
from amplint.model.syntax.text_scan import code_of
from amplint.model.torch_facts.names import ACCELERATE, SCALERS

if TYPE_CHECKING:
    from typing import TypeGuard

    from typing_extensions import TypeVarTuple, Unpack

    from amplint.model import Module

    Given = TypeVarTuple("Given")
    _Items = list[tuple[ir.Value | None, ir.Value]]  # of a table, with their keys

T = TypeVar("T")
_SETS_BY_NAME = re.compile(r"\b(?:setattr|vars)\(|\b__dict__\b")
_DEEP = 12  # steps from a value to a leaf
_MOST = 24  # leaves of a value
_FRAMES = 3  # calls that are followed into functions, one inside the other
_DEEPEST = 64  # values that are followed for one another, as their steps begin to count anew
_NESTED = 13  # questions about values that an answer asks
_LOOK_UPS = {"os.getenv", "os.environ.get"}
_NAMESPACES = {"types.SimpleNamespace", "argparse.Namespace"}
# Attributes that are what their object is made with (accelerate/accelerator.py).
KEPT = {"mixed_precision": ACCELERATE}
# What leaves a function's result as it is.
_PLAIN = {"builtins.staticmethod", "builtins.classmethod", "builtins.property", "functools.cached_property"}
_PLAIN |= {"functools.lru_cache", "functools.cache"}


class Doubt(IntEnum):
    """How sure it is that a value is what a leaf says, under its conditions; of two, the greater counts."""

    NONE = 0
    DEFAULT = 1  # the default of a parameter or of a setting: it is, where nothing else is given
    GUESSED = 2  # a setting's default, where its object isn't seen to be the one that is declared
    REPLACED = 3  # something else is stored in the same place, and which comes last can't be told


class Test(NamedTuple):
    """A condition of the code, and how it comes out where a value is taken; or a table's index, and the key.

    Where the key can't be told from others, `truth` is what stands there.
    """

    value: ir.Value
    truth: bool | str | ir.Value | None


class Leaf(NamedTuple):
    """An expression that a value can be.

    All `tests` come out as they say, and of each conjunction in `unless` one does not; the calls in `by` are those that
    give it for a parameter. It is open where it stands for something out of sight.
    """

    value: ir.Value
    tests: tuple[Test, ...] = ()
    unless: tuple[tuple[Test, ...], ...] = ()
    by: tuple[ir.Call, ...] = ()
    doubt: Doubt = Doubt.NONE
    is_open: bool = False

    def under(self, outer: Leaf) -> Leaf:
        """The same, where what `outer` hangs on holds as well."""
        tests = tuple(dict.fromkeys((*outer.tests, *self.tests)))
        unless = tuple(dict.fromkeys((*outer.unless, *self.unless)))
        by = tuple(dict.fromkeys((*outer.by, *self.by)))
        return Leaf(self.value, tests, unless, by, max(outer.doubt, self.doubt), self.is_open)


class Values(NamedTuple):
    """All that a value can be seen to be; never without leaves."""

    leaves: tuple[Leaf, ...]

    @property
    def is_closed(self) -> bool:
        """Whether it can be nothing else."""
        return not any(each.is_open for each in self.leaves)


class Frame(NamedTuple):
    """A call that is followed into a function, and what that one's parameters are given."""

    function: ir.Function
    given: dict[str, ir.Value | None]
    call: ir.Call
    outer: Frame | None


class Step(NamedTuple):
    """What a value is, one step on.

    Attributes:
        sources: What it can be.
        whole: It can be nothing else, and the conditions tell which of them it is.
        frame: The frame in which the sources are read.
        parameter: It is the parameter that it names, or one of the others, and the conditions tell which.
    """

    sources: tuple[Leaf, ...]
    whole: bool = True
    frame: Frame | None = None
    parameter: bool = False


def values_of(module: Module, value: ir.Value) -> Values:
    """What a value can be."""
    return module.once(Follower).of(value)


def only_literal(module: Module, value: ir.Value) -> ir.Constant | None:
    """The literal that a value surely is, and no other."""
    found = values_of(module, value).leaves
    literals = [each.value for each in found if isinstance(each.value, ir.Constant) and each.doubt is Doubt.NONE]
    same = len({(type(each.value), each.value) for each in literals}) == 1
    return literals[0] if same and len(literals) == len(found) and values_of(module, value).is_closed else None


def together(module: Module, one: Leaf, other: Leaf) -> bool:
    """Whether two values can be these leaves at once, as far as calls give them: one call runs a function at a time."""
    calls = module.once(CallGraph)
    return not any(
        first is not second and calls.run_by(first) is calls.run_by(second) for first in one.by for second in other.by
    )


def held(module: Module, value: ir.Value) -> ir.Value:
    """What a variable surely holds, as its own function or the module writes it; else the value itself.

    Not what that comes from in turn: a condition stays one, a call a call.
    """
    follower, passed = module.once(Follower), [value]
    while isinstance(passed[-1], ir.Name):
        step = follower.step(passed[-1])
        only = step.sources[0] if step is not None and step.whole and len(step.sources) == 1 else None
        if only is None or only.is_open or only.tests or only.doubt or only.value in passed:
            break
        if ir.function_of(only.value) not in (ir.function_of(value), None):
            break
        passed.append(only.value)
    return passed[-1]


def asked(
    module: Module,
    make: Callable[[Module, ir.Value, Unpack[Given]], T],
    value: ir.Value,
    unknown: T,
    *given: Unpack[Given],
) -> T:
    """What `make` makes of a value, once for all who ask; `unknown` where that asks for the value itself.

    Args:
        given: what `make` is given besides.
    """
    found = module.once(_asked).of((make, value.id, given), lambda: make(module, value, *given))
    return found if found is not None else unknown


def _asked(_: Module) -> Answers[tuple[object, int, tuple[object, ...]], Any]:
    return Answers(_NESTED)


def parameter_read(module: Module, value: ir.Value) -> tuple[ir.Function, ir.Param] | None:
    """The parameter that a name reads, and its function; where a test about it replaces it, it is no longer that."""
    if not isinstance(value, ir.Name) or value.bound:
        return None
    found = reaching(module.names, value)
    if len(found) > 1 and _asks_itself(module, value):
        return None
    for binding in found:
        function = ir.parameter_of(binding)
        param = function.param(value.name) if function is not None else None
        if function is not None and param is not None:
            return function, param
    return None


def option_read(module: Module, value: ir.Attribute) -> Option | None:
    """The option of the command line that an attribute surely is."""
    return module.once(Follower).option(value)


class Follower:
    """Follows the values of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._calls = module.once(CallGraph)
        self._leaves_of = Answers[tuple[int, ...], tuple[Leaf, ...]](_DEEPEST)

    def of(self, value: ir.Value) -> Values:
        """What a value can be."""
        return Values(self._follow(value, None, _DEEP))

    def option(self, value: ir.Attribute) -> Option | None:
        """The option that an attribute of what a command line gave is, where the file doesn't set it otherwise."""
        found = option_named(self._module, value.attr) if self._is_parsed(self._follow(value.base, None, 6)) else None
        return found if found is not None and not found.changed else None

    def _is_parsed(self, leaves: tuple[Leaf, ...]) -> bool:
        """Whether leaves are all what a command line gave, and nothing made of it."""
        calls = [each.value for each in leaves if isinstance(each.value, ir.Call) and not each.is_open]
        return len(calls) == len(leaves) and all(ir.last_name(each.func) in PARSES for each in calls)

    def _follow(self, value: ir.Value, frame: Frame | None, depth: int) -> tuple[Leaf, ...]:
        leaves = self._leaves_of.of(
            (value.id, *_ids(frame)), lambda: self._leaves(value, frame, depth), give_up=not depth
        )
        return leaves or (Leaf(value, is_open=True),)

    def _leaves(self, value: ir.Value, frame: Frame | None, depth: int) -> tuple[Leaf, ...]:
        step = self.step(value, frame)
        if step is None:
            return (Leaf(value),)
        found: dict[Leaf, None] = {}
        for source in step.sources:
            if source.is_open:
                found[source] = None
                continue
            if any(self._comes_out(test, step.frame) is False for test in source.tests):
                continue
            for each in self._follow(source.value, step.frame, depth - 1):
                found[each.under(source)] = None
        if not found or len(found) > _MOST:
            return (Leaf(value, is_open=True),)
        return tuple(found)

    def _comes_out(self, test: Test, frame: Frame | None) -> bool | None:
        """Whether a test comes out as it has to, where a call that is followed decides that; None: it doesn't."""
        if frame is None or not isinstance(test.truth, bool):
            return None
        found = self._truth(test.value, frame)
        return found is test.truth if found is not None else None

    def _truth(self, test: ir.Value, frame: Frame) -> bool | None:
        if isinstance(test, ir.Unary) and test.op == "Not":
            found = self._truth(test.operand, frame)
            return not found if found is not None else None
        if isinstance(test, ir.Compare) and len(test.ops) == 1 and test.ops[0] in ("Equal", "NotEqual", "Is", "IsNot"):
            left, right = (self._literal(each, frame) for each in (test.left, test.rights[0]))
            compare = COMPARES.get(test.ops[0].replace("IsNot", "NotEqual").replace("Is", "Equal"))
            return (
                bool(compare(left.value, right.value)) if compare and left is not None and right is not None else None
            )
        literal = self._literal(test, frame)
        return bool(literal.value) if literal is not None else None

    def _literal(self, value: ir.Value, frame: Frame | None) -> ir.Constant | None:
        """The one literal that a value is."""
        found = self._follow(value, frame, 4)
        only = found[0]
        sure = len(found) == 1 and not only.is_open and only.doubt is Doubt.NONE
        return only.value if sure and isinstance(only.value, ir.Constant) else None

    # --- one step ----------------------------------------------------------------------------------------------------

    def step(self, value: ir.Value, frame: Frame | None = None) -> Step | None:
        """What a value is, one step on; None for a leaf."""
        if isinstance(value, ir.Walrus):
            return Step((Leaf(value.value),), frame=frame)
        if isinstance(value, ir.Conditional):
            return self._choice(value, frame)
        if isinstance(value, ir.Bool):
            return self._either(value, frame)
        if isinstance(value, ir.Subscript):
            return self._item(value, value.base, value.index, None, frame)
        if isinstance(value, ir.Call):
            return self._call(value, frame)
        if isinstance(value, ir.Name) and not value.bound:
            return self._name(value, frame)
        if isinstance(value, ir.Attribute):
            return self._attribute(value, frame)
        return None

    def _choice(self, value: ir.Conditional, frame: Frame | None) -> Step:
        arms = ((value.then, Test(value.test, True)), (value.other, Test(value.test, False)))
        # `x if isinstance(x, str) else str(x)`: what it was before, and the test is about that.
        sources = tuple(Leaf(arm, (test,), is_open=_is_asked(arm, value.test)) for arm, test in arms)
        return Step(sources, frame=frame)

    def _either(self, value: ir.Bool, frame: Frame | None) -> Step:
        """`a or b`, `a and b`: what is no result, since the other operand is, is left out."""
        decides = value.op == "or"
        found = [(each, self._is_true(each.value)) for each in self._follow(value.left, frame, 4)]
        left = [
            each.under(Leaf(each.value, (Test(value.left, decides),)))
            for each, truth in found
            if truth in (None, decides)
        ]
        goes_on = any(truth is not decides for _, truth in found)
        right = [Leaf(value.right, (Test(value.left, not decides),))] if goes_on else []
        return Step((*left, *right), frame=frame)

    def _is_true(self, leaf: ir.Value) -> bool | None:
        if isinstance(leaf, ir.Constant):
            return bool(leaf.value)
        if isinstance(leaf, ir.Call) and self._module.names.of(leaf.func) & SCALERS:
            return True
        return None

    def _item(
        self, value: ir.Value, table: ir.Value, index: ir.Value, other: ir.Value | None, frame: Frame | None
    ) -> Step | None:
        """What a dict or list has at an index; `other`: what is taken where it has nothing there."""
        tables = [items_of(self._module, each.value) for each in self._follow(table, frame, 6)]
        written = [each for each in tables if each is not None]
        if not written:
            return _out_of_sight(value, other, frame) if other is not None else None
        items = [item for each in written for item in each]
        literal = self._literal(index, frame)
        doubt = Doubt.REPLACED if is_added_to(self._module, table) else Doubt.NONE
        sources = [*_items_at(items, index, literal, doubt), *_missing(items, index, literal, other)]
        every = len(written) == len(tables) and all(isinstance(key, ir.Constant) for key, _ in items)
        whole = every and doubt is Doubt.NONE and bool(sources)
        if not whole:
            sources.append(Leaf(value, is_open=True))
        return Step(tuple(sources), whole, frame)

    def _call(self, call: ir.Call, frame: Frame | None) -> Step | None:
        names, given = self._module.names.of(call.func), call.positional
        if names == {"builtins.getattr"} and len(given) == 3:
            return _out_of_sight(call, given[2], frame)
        if names & _LOOK_UPS and names <= _LOOK_UPS:
            return _out_of_sight(call, argument(call, "os.getenv", "default"), frame)
        if (default := given_default(self._module, call)) is not None:
            return _out_of_sight(call, default, frame)
        table = ir.called_on(call, "get")
        if table is not None and 1 <= len(given) <= 2 and len(given) == len(call.args):
            found = self._item(call, table, given[0], given[1] if len(given) == 2 else None, frame)
            if found is not None:
                return found
        return self._returned(call, frame)

    def _returned(self, call: ir.Call, frame: Frame | None) -> Step | None:
        callee = self._calls.find(call)
        if callee is None or callee.maker is not None or callee.function.name == "__init__":
            return None
        given = self._calls.arguments(call, callee)
        return self._results(callee.function, Frame(callee.function, given or {}, call, frame))

    def _results(self, function: ir.Function, frame: Frame | None) -> Step | None:
        """What a function returns."""
        if function.is_generator or function.is_async:
            return None
        if frame is not None and len(_ids(frame)) > _FRAMES:
            return _out_of_sight(frame.call)
        if not all(self._is_plain(each) for each in function.decorators):
            return None
        returns = returned(function)
        sources = [Leaf(each.value, self._inside(each)) for each in returns if each.value is not None]
        if not sources or len(sources) < len(returns):
            return None
        return Step(tuple(sources), frame=frame)

    def _is_plain(self, decorator: ir.Value) -> bool:
        called = decorator.func if isinstance(decorator, ir.Call) else decorator
        return self._module.names.of(called) <= _PLAIN

    def _inside(self, node: ir.Node) -> tuple[Test, ...]:
        """The tests that decide whether a node is run, in its function."""
        return tuple(Test(test, holds) for test, holds in conditions_round(node))

    # --- variables ---------------------------------------------------------------------------------------------------

    def _name(self, name: ir.Name, frame: Frame | None) -> Step | None:
        bindings = reaching(self._module.names, name)
        if not bindings or all(isinstance(each, Imported) for each in bindings):
            return self._imported(name)
        function = ir.parameter_of(bindings[0]) if len(bindings) == 1 else None
        if function is not None:
            return self._parameter(function, name, frame)
        if (unpacked := self._unpacked(bindings, name, frame)) is not None:
            return unpacked
        if (setting := self._overwritten(bindings)) is not None:
            return _out_of_sight(name, setting, frame)
        assigned = [each for each in bindings if isinstance(each, Assigned) and not is_changed(each)]
        others = [each for each in bindings if each not in assigned]
        if len(others) == 1 and (given := ir.parameter_of(others[0])) is not None:
            return self._replaced(given, name, assigned, _home(bindings, frame))
        home = name.scope.home(name.name)
        at_any_time = [each for each in assigned if home is not None and not is_made_in(home, each)]
        in_turn = [each for each in assigned if each not in at_any_time]
        sources, whole = self._last_of([(each.value, each.target) for each in in_turn])
        sources = (*sources, *(Leaf(each.value) for each in at_any_time))
        before = (Leaf(name, is_open=True),) if others else ()
        if any(map(_is_increase, others)):
            sources = tuple(each._replace(doubt=Doubt.REPLACED) for each in sources)  # it adds to one of them
        outer = _home(bindings, frame)
        return Step((*before, *sources), whole and not others and not at_any_time, outer)

    def _overwritten(self, bindings: list[Binding]) -> ir.Value | None:
        """The constant of the file's top level that a variable is, unless code that the file runs next, and that can't
        be seen, sets it otherwise: `dtype = "bfloat16"`, and then `exec(open("settings.py").read())`.
        """
        only = bindings[0] if len(bindings) == 1 else None
        if not isinstance(only, Assigned) or not isinstance(only.value, ir.Constant) or ir.function_of(only.value):
            return None
        return only.value if any(only.value.id < each.id for each in self._module.once(_runs_unseen)) else None

    def _replaced(self, function: ir.Function, name: ir.Name, by: list[Assigned], frame: Frame | None) -> Step:
        """What a variable is that is a parameter where none of some assignments is made."""
        sources, _ = self._last_of([(name, function), *((each.value, each.target) for each in by)])
        param = function.param(name.name)
        default = param.default if param is not None and not _asks_itself(self._module, name) else None
        unknown = sources[0]._replace(is_open=True)
        given = self._given(function, name.name) if frame is None and param is not None else []
        if given and param is not None and (known := self._as_given(given, param, sources[0])):
            return Step((*known, *sources[1:]), whole=False, frame=frame, parameter=True)
        by_default = (unknown._replace(value=default, doubt=Doubt.DEFAULT, is_open=False),) if default else ()
        return Step((unknown, *by_default, *sources[1:]), whole=False, frame=frame, parameter=True)

    def _as_given(self, given: list[tuple[ir.Call, ir.Value | None]], param: ir.Param, read: Leaf) -> tuple[Leaf, ...]:
        """What the calls in sight give for a parameter, or leave to its default; nothing where one doesn't say."""
        values = [value if value is not None else param.default for _, value in given]
        told = [
            each for each in values if each is not None and (each is param.default or self._tells_more(each, param))
        ]
        return tuple(dict.fromkeys(read._replace(value=each) for each in told)) if len(told) == len(values) else ()

    def _unpacked(self, bindings: list[Binding], name: ir.Name, frame: Frame | None) -> Step | None:
        """What a variable is that is taken out of tuples that a function returns: `use_amp, dtype = setup(args)`."""
        target = bindings[0].node if len(bindings) == 1 and isinstance(bindings[0], Other) else None
        items = target.parent if isinstance(target, ir.Name) else None
        assign = items.parent if isinstance(items, ir.Sequence) and not items.unpacks() else None
        if not isinstance(items, ir.Sequence) or not isinstance(assign, ir.Assign):
            return None
        made = assign.value if isinstance(assign.value, (ir.Call, ir.Conditional)) else None
        step = self.step(made, _home(bindings, frame)) if made is not None else None
        place = next(number for number, each in enumerate(items.items) if each is target)
        found = [_item_of(each, place, len(items.items)) for each in self._arms(step)] if step is not None else []
        if step is None or all(each is None for each in found):
            return None
        unknown = Leaf(name, is_open=True)
        sources = tuple(each or unknown for each in found)
        return Step(tuple(dict.fromkeys(sources)), step.whole and None not in found, step.frame)

    def _arms(self, step: Step) -> Iterator[Leaf]:
        """The sources of a step, with a choice's own in its place."""
        for each in step.sources:
            if isinstance(each.value, ir.Conditional) and not each.is_open:
                yield from (arm.under(each) for arm in self._choice(each.value, step.frame).sources)
            else:
                yield each

    def _imported(self, value: ir.Value) -> Step | None:
        """The constant of another file that a name is; else it is a global of Python's, or out of sight."""
        if not isinstance(value, (ir.Name, ir.Attribute)):
            return None
        constant = self._module.names.imported_constant(value)
        return Step((Leaf(constant),)) if constant is not None else None

    def _last_of(self, assigned: list[tuple[ir.Value, ir.Node]]) -> tuple[tuple[Leaf, ...], bool]:
        """What is left of several assignments, the last of which counts that is made; whether that is all it can be."""
        later: list[Test] = []  # that the assignments behind are not made, one by one
        unless: list[tuple[Test, ...]] = []
        found: dict[int, Leaf] = {}
        whole = True
        ordered = sorted(assigned, key=lambda each: each[1].id, reverse=True)
        is_given = isinstance(ordered[-1][1], ir.Function) if ordered else False  # the first is a parameter
        for value, place in ordered:
            # Who reads it has passed one of them: where none of the others is made, the first was.
            first = place is ordered[-1][1]
            round_it = self._inside(place) if not isinstance(place, ir.Function) else ()
            made = round_it if not first else ()
            is_sure = _is_surely_run(place, ordered[-1][1])  # a loop may have no round, a handler may not be reached
            perhaps = (Test(value, place),) if not first and not is_sure and isinstance(place, ir.Value) else ()
            tests = tuple(dict.fromkeys((*made, *perhaps, *later)))
            found[place.id] = Leaf(value, tests, tuple(unless), is_open=not whole)
            if not is_given and any(asks_for_itself(place, test.value) for test in round_it):
                whole = False  # `if not isinstance(x, bool): x = bool(x)`: what it was before can't be told
            elif not is_sure:
                later.append(Test(value, value))
            elif len(made) == 1 and isinstance(made[0].truth, bool):
                later.append(Test(made[0].value, not made[0].truth))
            elif made:
                unless.append(made)
            else:
                break
        kept = [found[place.id] for _, place in assigned if place.id in found]
        return tuple(kept), whole

    def _parameter(self, function: ir.Function, name: ir.Name, frame: Frame | None) -> Step:
        """What a parameter is: what the call that is followed gives, else the file's calls, else its default."""
        inner = frame
        while inner is not None and inner.function is not function:
            inner = inner.outer
        param = function.param(name.name)
        unknown = Leaf(name, is_open=True)
        if param is None or param.kind in ("*", "**"):
            return _out_of_sight(name)
        if inner is not None:
            value = inner.given.get(name.name)
            return Step((Leaf(value),) if value is not None else (unknown,), value is not None, inner.outer)
        found = self._given(function, name.name)
        if found:
            several = len(found) > 1
            sources = [
                Leaf(value, by=(call,) if several else ()) if self._tells_more(value, param) else unknown
                for call, value in found
            ]
            return Step(tuple(dict.fromkeys(sources)), whole=unknown not in sources)
        return _out_of_sight(name, decorated_default(self._module, function, name.name) or param.default)

    def _tells_more(self, value: ir.Value | None, param: ir.Param) -> TypeGuard[ir.Value]:
        """Whether what is given for a parameter says more of it than its annotation."""
        if value is None or param.annotation is None:
            return value is not None
        return not any(each.is_open for each in self._follow(value, None, 6))

    def _given(self, function: ir.Function, name: str) -> list[tuple[ir.Call, ir.Value | None]]:
        """What the file's calls of a function give for a parameter, but those in the function itself."""
        given = passed_by(self._module, function, name)
        return [(call, value) for call, value in given if ir.function_of(call) is not function]

    # --- attributes --------------------------------------------------------------------------------------------------

    def _attribute(self, value: ir.Attribute, frame: Frame | None) -> Step | None:
        cls = owner_class(value)
        if cls is not None:
            return self._of_self(value, cls)
        flag = declared_flag(self._module, value)
        if flag is not None:
            return _out_of_sight(value, flag)
        root = ir.root(value)
        if isinstance(root, ir.Name):
            bound = self._module.names.bindings(root)
            if not bound:
                return self._option(value, is_it=False)
            defined = self._module.names.definition(value.base)
            if isinstance(defined, ir.Class):
                return self._of_body(defined, value.attr, by_name=True)
            if all(isinstance(each, Imported) for each in bound) and self._imported(value.base) is None:
                return self._imported(value)
            if self._module.names.of(root) == {"torch"}:  # `torch = lazy_torch()`
                return None
        return self._of_object(value, value.base, frame)

    def _of_self(self, value: ir.Attribute, cls: ir.Class) -> Step | None:
        stored = cls.stored(value.attr)
        if not stored:
            prop = self._calls.find_property(value)
            if prop is not None:
                return self._results(prop.function, None)
            found = self._of_body(cls, value.attr, by_name=False) or self._field(value, cls)
            base = storing_class(self._module, cls, value.attr) if found is None else None
            return found if base is None else self._of_self(value, base)
        stored = [*stored, *self._stored_by_heirs(cls, value.attr)]
        known = [each for each in stored if each is not None]
        unknown = (Leaf(value, is_open=True),) if len(known) < len(stored) else ()
        homes = {id(ir.function_of(each)) for each in known if not _is_placeholder(each)}
        if len(homes) == 1 or len({id(ir.function_of(each)) for each in known}) == 1:
            # Who reads what `__init__` only set to None reads it once the other method has made it.
            sources, whole = self._last_of([(each, ir.statement_of(each)) for each in known])
            return Step((*unknown, *sources), whole and not unknown)
        # Which of several methods runs last can't be told.
        sources = tuple(Leaf(each, doubt=Doubt.REPLACED) for each in known)
        return Step((*unknown, *sources), whole=False)

    def _stored_by_heirs(self, cls: ir.Class, attr: str) -> Iterator[ir.Value | None]:
        """What classes that inherit a class store in an attribute of their objects."""
        for other in self._module.whole.near(attr).classes:
            if other is not cls and inherits(self._module, other, cls):
                yield from other.stored(attr)

    def _of_body(self, cls: ir.Class, attr: str, *, by_name: bool) -> Step | None:
        """What a class's body sets an attribute to, where that is one thing and no field of a dataclass.

        An object's may be one of a class that inherits it; not where the class is asked `by_name`.
        """
        bindings = cls.scope.bindings.get(attr, [])
        only = bindings[0] if len(bindings) == 1 else None
        made = ir.statement_of(only.target) if isinstance(only, Assigned) else None
        plain = isinstance(made, ir.Assign) and (made.annotation is None or by_name)
        if not isinstance(only, Assigned) or not plain or cls.stored(attr):
            return None
        return Step((Leaf(only.value, doubt=Doubt.NONE if by_name else Doubt.DEFAULT),), by_name)

    def _field(self, value: ir.Attribute, cls: ir.Class, made: tuple[Leaf, ...] = ()) -> Step | None:
        """What a field of settings is: what its object is made with, by the calls that `made` has, else its default."""
        declared, default = field_of(cls, value.attr)
        unknown = Leaf(value, is_open=True)
        sources: list[Leaf] = []
        for each in made if declared else ():
            told = fields_given(cls, each.value) if isinstance(each.value, ir.Call) else None
            given = told.get(value.attr, default) if told is not None else None
            sources.append((Leaf(given) if given is not None else unknown).under(each))
            named = isinstance(each.value, ir.Call) and each.value.unpacks("**") and not each.value.unpacks("*")
            if told is None and named and default is not None:  # `Settings(**read(path))`
                sources.append(Leaf(default, doubt=Doubt.DEFAULT).under(each))
        if sources:
            stays = self._stays(cls, value.attr, made) and not any(each.is_open for each in sources)
            return Step(tuple(dict.fromkeys(sources)), whole=stays)
        return Step((unknown, Leaf(default, doubt=Doubt.DEFAULT)), whole=False) if default is not None else None

    def _of_object(self, value: ir.Attribute, base: ir.Value, frame: Frame | None) -> Step | None:
        """What an attribute of settings is: of what a command line gives, of a dataclass, of a namespace."""
        leaves = self._follow(base, frame, 6)
        if self._is_parsed(leaves):
            return self._option(value, is_it=True)
        if self._is_set(value):
            return self._option(value, is_it=False) or _out_of_sight(value)
        if all(isinstance(each.value, ir.Call) for each in leaves):
            return self._of_made(value, leaves)
        named = {self._module.names.definition(each.value) for each in leaves}
        cls = named.pop() if len(named) == 1 else None
        if isinstance(cls, ir.Class):  # `config = Settings`
            return self._of_body(cls, value.attr, by_name=True)
        # `self.config` is the parameter that `__init__` stores there.
        return self._of_parameter(value, leaves[0].value if len(leaves) == 1 else base)

    def _of_parameter(self, value: ir.Attribute, base: ir.Value) -> Step:
        """What an attribute is of a parameter: by the class that annotates it, or an option; else out of sight."""
        read = parameter_read(self._module, base)
        annotation = read[1].annotation if read is not None else None
        cls = self._module.names.definition(annotation) if annotation is not None else None
        if isinstance(cls, ir.Class):
            if (field := self._field(value, cls)) is not None:
                return field
            if (said := self._of_body(cls, value.attr, by_name=False)) is not None:
                return Step((Leaf(value, is_open=True), *said.sources), whole=False)
        return self._option(value, is_it=False) or _out_of_sight(value)

    def _of_made(self, value: ir.Attribute, leaves: tuple[Leaf, ...]) -> Step | None:
        """What an attribute is of an object that one of some calls makes: of a class of the file, or a namespace."""
        calls = [each.value for each in leaves if isinstance(each.value, ir.Call)]
        classes = {self._module.names.definition(each.func) for each in calls}
        cls = classes.pop() if len(classes) == 1 else None
        if isinstance(cls, ir.Class):
            return self._field(value, cls, leaves) or self._of_self(value, cls)
        read = {self._class_read(each) for each in calls}
        if len(read) == 1 and (of := read.pop()) is not None:
            return self._field(value, of)
        names = set[str]().union(*(self._module.names.of(each.func) for each in calls))
        surely = bool(names) and names <= KEPT.get(value.attr, set())
        if not surely and not names <= _NAMESPACES:
            return None
        given = [each.keyword(value.attr) for each in calls]
        known = [Leaf(each) for each in given if each is not None]
        return Step(tuple(known), whole=surely) if known and len(known) == len(given) else None

    def _class_read(self, call: ir.Call) -> ir.Class | None:
        """The class of which a class method makes an object of settings: `Settings.from_file(path)`."""
        base = call.func.base if isinstance(call.func, ir.Attribute) else None
        cls = self._module.names.definition(base) if base is not None else None
        if not isinstance(cls, ir.Class) or not has_fields(cls):
            return None
        found = method(self._module, cls, ir.last_name(call.func))
        decorators = found.decorators if found is not None else ()
        return cls if any(self._module.names.of(each) == {"builtins.classmethod"} for each in decorators) else None

    def is_never_changed(self, value: ir.Attribute) -> bool:
        """Whether an attribute is a field of an object that is made in sight, and stays what it was made with."""
        made = self._follow(value.base, None, 6)
        calls = [each.value for each in made if isinstance(each.value, ir.Call)]
        classes = {self._module.names.definition(each.func) for each in calls}
        only = classes.pop() if len(classes) == 1 and len(calls) == len(made) else None
        return isinstance(only, ir.Class) and self._stays(only, value.attr, made)

    def _stays(self, cls: ir.Class, field: str, made: tuple[Leaf, ...]) -> bool:
        """Whether a field of objects stays what some calls make them with: nothing in sight sets it, and it is no
        default, which is there to be changed.
        """
        if is_frozen(cls):
            return True
        if not has_fields(cls) or cls.stored(field) or self._module.once(_is_set, field):
            return False
        given = [fields_given(cls, each.value) if isinstance(each.value, ir.Call) else None for each in made]
        return all(each is not None and field in each for each in given) and not self._module.once(_sets_by_name)

    def _is_set(self, value: ir.Attribute) -> bool:
        """Whether the file sets such an attribute of any object: `cfg.device = ...`."""
        return self._module.once(_is_set, value.attr)

    def _option(self, value: ir.Attribute, *, is_it: bool) -> Step | None:
        """What an option of the command line is; `is_it`: its object is seen to be what the command line gave."""
        if not is_it and not is_settings(value):
            return None
        found = option_named(self._module, value.attr)
        if found is None:
            return None
        whole = found.is_fixed and found.default is not None and not found.changed
        return Step(tuple(_of_option(found, value, is_it=is_it)), whole=whole)


def _is_set(module: Module, attr: str) -> bool:
    """Whether the file sets an attribute of any object that is no `self`."""
    near = module.whole.near(attr).statements
    targets = (target for each in near if isinstance(each, ir.Assign) for target in each.targets)
    return any(isinstance(each, ir.Attribute) and each.attr == attr and owner_class(each) is None for each in targets)


def _sets_by_name(module: Module) -> bool:
    """Whether the code sets attributes by names that it computes."""
    return any(_SETS_BY_NAME.search(code_of(text)) for text in module.texts)


def _runs_unseen(module: Module) -> list[ir.Call]:
    """The calls at a file's top level that run code which can't be seen, and may set any of its variables."""
    calls = (each for each in module.calls_of("builtins.exec") if ir.function_of(each) is None)
    return [each for each in calls if each.positional and not isinstance(each.positional[0], ir.Constant)]


def _of_option(found: Option, value: ir.Attribute, *, is_it: bool) -> Iterator[Leaf]:
    doubt = Doubt.REPLACED if found.changed else Doubt.DEFAULT if is_it else Doubt.GUESSED
    if is_it and found.unset and not found.changed:
        doubt = Doubt.NONE
    for each in found.values():
        yield Leaf(each, doubt=doubt)
    is_fixed = found.is_fixed and found.default is not None
    if found.changed or not (found.choices or is_fixed):
        yield Leaf(value, is_open=True)


def _out_of_sight(value: ir.Value, default: ir.Value | None = None, frame: Frame | None = None) -> Step:
    """What a value is that is out of sight: open, and its default where nothing else is given."""
    by_default = (Leaf(default, doubt=Doubt.DEFAULT),) if default is not None else ()
    return Step((Leaf(value, is_open=True), *by_default), whole=False, frame=frame)


def _item_of(leaf: Leaf, place: int, count: int) -> Leaf | None:
    """What stands at a place of a tuple of `count` items; None where the leaf isn't seen to be one."""
    value = leaf.value
    written = isinstance(value, ir.Sequence) and len(value.items) == count and not value.unpacks() and not leaf.is_open
    return leaf._replace(value=value.items[place]) if written and isinstance(value, ir.Sequence) else None


def _items_at(items: _Items, index: ir.Value, literal: ir.Constant | None, doubt: Doubt) -> Iterator[Leaf]:
    """What a table can have at an index, which is `literal` where that is certain."""
    for key, item in items:
        if key is None:
            continue  # what is unpacked
        if literal is None:
            told = key.value if isinstance(key, ir.Constant) and tells(key.value) else item
            yield Leaf(item, (Test(index, told),), doubt=doubt)
        elif not isinstance(key, ir.Constant) or key.value == literal.value:
            yield Leaf(item, doubt=doubt)


def _missing(items: _Items, index: ir.Value, literal: ir.Constant | None, other: ir.Value | None) -> Iterator[Leaf]:
    """What is taken where a table has nothing at an index, if it can have nothing there."""
    keys = [key.value for key, _ in items if isinstance(key, ir.Constant)]
    if other is not None and literal is None:
        yield Leaf(other, unless=tuple((Test(index, key),) for key in keys if tells(key)))
    elif other is not None and literal is not None and literal.value not in keys:
        yield Leaf(other)


def _ids(frame: Frame | None) -> tuple[int, ...]:
    found: list[int] = []
    while frame is not None:
        found.append(frame.call.id)
        frame = frame.outer
    return tuple(found)


def _home(bindings: list[Binding], frame: Frame | None) -> Frame | None:
    """The frame that the values of some bindings are read in: that of the function that they stand in."""
    places: list[ir.Node | None] = [each.target for each in bindings if isinstance(each, Assigned)]
    places += [each.node for each in bindings if isinstance(each, Other)]
    function = ir.function_of(places[0]) if places and places[0] is not None else None
    while frame is not None and frame.function is not function:
        frame = frame.outer
    return frame


def _is_increase(binding: Binding) -> bool:
    """Whether a variable is bound by `name += value`."""
    node = binding.node if isinstance(binding, Other) else None
    return node is not None and isinstance(node.parent, ir.AugAssign)


def _is_placeholder(value: ir.Value) -> bool:
    """Whether it is the None to which `__init__` sets what another method makes."""
    function = ir.function_of(value)
    is_none = isinstance(value, ir.Constant) and value.value is None
    return is_none and function is not None and function.name == "__init__" and not conditions_round(value)


def _is_asked(arm: ir.Value, test: ir.Value) -> bool:
    """Whether a test asks what a variable or attribute is that is then taken itself."""
    name = ir.last_name(arm)
    return bool(name) and any(ir.last_name(each) == name for each in ir.walk_values(test))


def _is_surely_run(place: ir.Node, first: ir.Node) -> bool:
    """Whether nothing but tests decides whether a node is run after another one, in its function: both may be in one
    loop.
    """
    up: ir.Node | None = ir.statement_of(place).parent
    while isinstance(up, (ir.With, ir.If)):
        up = up.parent
    if isinstance(up, (ir.For, ir.While)):
        return is_within(first, up)
    return up is None or isinstance(up, (ir.Function, ir.Class, ir.Program))


def _asks_itself(module: Module, name: ir.Name) -> bool:
    bound = (each for each in reaching(module.names, name) if isinstance(each, Assigned))
    return any(asks_for_itself(each.target, test) for each in bound for test, _ in conditions_round(each.target))
