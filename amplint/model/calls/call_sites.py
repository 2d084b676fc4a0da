"""Where a function, or an object, may be met: what holds it is followed, so that nothing else has to be read for it.

What is found is more than what is so: who asks looks at each. It is all that `CallGraph.run_by` and `constructions` can
lead back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.external_calls import local_callable, local_class
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.call_context import CallContext
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Imported, Scope
from amplint.model.syntax.lazy_lowering import values_of
from amplint.model.syntax.queries import IMPORTS, word_of
from amplint.model.syntax.scopes import owner_class
from amplint.model.torch_facts.modules import RETURNS_ITSELF, WRAPPERS

if TYPE_CHECKING:
    from amplint.model import Module

    # What can hold an object: a variable of a scope; an attribute, of a class's `self` or (None) of anything.
    _Holder = tuple[Scope | ir.Class | None, str]

_MANY_KEYS = 32  # that a parameter is followed to, through calls
_KEPT = "module"  # what a wrapper keeps an object in
# What is called with an object, and gives something that runs it.
_WRAPPERS = {name.rpartition(".")[2] for name in (*WRAPPERS, "functools.partial")}
_CLASS = re.compile(r"(?m)^[ \t]*class[ \t\\]+\w+[ \t\\]*[(:]")
# `super().__init__()` is one of the class that it stands in.
_CONSTRUCTS = re.compile(r"(?<!super\(\))\.\s*__init__\b")
_INSTANCE = ("__call__", "forward")


class CallSites:
    """Finds the calls that may run functions of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._calls = module.once(CallGraph)
        self._known: dict[int, list[ir.Call]] = {}
        self._uses: dict[_Holder, list[ir.Value]] = {}

    def of(self, function: ir.Function) -> list[ir.Call]:
        """The calls that may run a function, in the order of the text."""
        if function.id not in self._known:
            self._known[function.id] = []  # what runs itself has no other calls for it
            self._known[function.id] = calls_among(self.reached(self._starts(function)))
        return self._known[function.id]

    def called_back(self, function: ir.Function) -> list[ir.Call]:
        """The calls of parameters for which each call in sight gives a function, in the order of the text."""
        calls = calls_among(self.reached(self._starts(function)))
        return [each for each in calls if self._is_given(each.func, function)]

    def _is_given(self, value: ir.Value, function: ir.Function) -> bool:
        """Whether a value is a parameter that is this function wherever its function is called."""
        taker = ir.parameter_of(self._module.names.only_binding(value)) if isinstance(value, ir.Name) else None
        if taker is None or not isinstance(value, ir.Name):
            return False
        given = passed(self._module, taker, value.name)
        return bool(given) and all(
            each is not None and local_callable(self._module, each) is function for each in given
        )

    def reached(self, starts: Iterable[ir.Value]) -> list[ir.Value]:
        """Values, and those that may be the same objects, or run them: what they are assigned or given to, wrapped."""
        todo = list(starts)
        found = {each.id: each for each in todo}
        while todo:
            for each in self._next(todo.pop()):
                if each.id not in found:
                    found[each.id] = each
                    todo.append(each)
        return list(found.values())

    # --- where a function is written --------------------------------------------------------------------------------

    def _starts(self, function: ir.Function) -> Iterator[ir.Value]:
        """The values that are a function, or an object that is called to run it."""
        if isinstance(function.parent, ir.Lambda):
            yield function.parent
            return
        yield from self.mentions(function)
        if function.outer is not None:  # `run = make()`
            yield from self.of(function.outer)
        if function.cls is not None and function.name in ("__init__", *_INSTANCE):
            for cls in self._family(function.cls):
                for call in self._module.whole.called(*names_of(self._module, cls)):
                    yield call.func if function.name == "__init__" else call

    def mentions(self, what: ir.Function | ir.Class) -> Iterator[ir.Value]:
        """The names and attributes that may be those of a function or class; of a class's or method's, those called."""
        whole, words = self._module.whole, names_of(self._module, what)
        if isinstance(what, ir.Function) and what.cls is None:
            for value in whole.near(*map(word_of, words)).values:
                if isinstance(value, (ir.Name, ir.Attribute)) and ir.last_name(value) in words:
                    yield value
        elif isinstance(what, ir.Function) and what.cls is not None and what.name == "__init__":
            yield from (each.func for each in self._constructors(what.cls))
        else:
            yield from (each.func for each in whole.called(*words))

    def _constructors(self, cls: ir.Class) -> Iterator[ir.Call]:
        """The calls of `__init__` itself that may run a class's."""
        near = self._module.whole.near(_CONSTRUCTS).calls
        own = (each for cls in self._family(cls) for each in self._values_in(cls, "__init__"))
        for each in (*near, *own):
            if isinstance(each, ir.Call) and ir.last_name(each.func) == "__init__":
                yield each

    def _family(self, cls: ir.Class) -> list[ir.Class]:
        """A class, and those that inherit it."""
        found = [cls]
        for base in found:
            words = names_of(self._module, base)
            for each in self._module.whole.near(_CLASS).statements:
                if isinstance(each, ir.FoldedClass) and not any(word in each.node.text for word in words):
                    continue
                if isinstance(each, ir.Class) and each not in found:
                    if any(local_class(self._module, parent.value) is base for parent in each.bases):
                        found.append(each)
        return found

    # --- what holds it ----------------------------------------------------------------------------------------------

    def _next(self, value: ir.Value) -> Iterator[ir.Value]:
        """What an object is one step on from a value that it is."""
        up = value.parent
        if isinstance(up, (ir.Conditional, ir.Bool, ir.Quoted, ir.Sequence, ir.Mapping, ir.Starred)):
            yield up
        elif isinstance(up, ir.Attribute):
            yield from _same_object(up)
        elif isinstance(up, ir.Walrus):
            yield up
            yield from self._held(up.target)
        elif isinstance(up, ir.Assign) and up.value is value:
            for target in up.targets:
                for each in target.items if isinstance(target, ir.Sequence) else (target,):
                    yield from self._held(each)
        elif isinstance(up, ir.Call) and up.func is not value:
            yield from self._given(up, value)
        elif isinstance(up, ir.Return):
            yield from self._of_property(ir.function_of(up))
        elif isinstance(up, ir.Function):
            for param in up.params:
                if param.default is value:
                    yield from self._of_variable(up.scope, param.name, up)

    def _given(self, call: ir.Call, value: ir.Value) -> Iterator[ir.Value]:
        """The parameters that a call gives a value for; the call itself, where it wraps what it is given."""
        if ir.last_name(call.func) in _WRAPPERS or self._module.names.of(call.func) & {"functools.partial"}:
            yield call
        callee = self._calls.find(call)
        given = self._calls.arguments(call, callee) if callee is not None else None
        for name, each in (given or {}).items():
            if callee is not None and each is value:
                yield from self._of_variable(callee.function.scope, name, callee.function)

    def _held(self, target: ir.Value) -> list[ir.Value]:
        """What may be read of what was put into a target."""
        if isinstance(target, ir.Name):
            return self._of_variable(target.scope, target.name, target)
        return self._of_attribute(owner_class(target), target.attr) if isinstance(target, ir.Attribute) else []

    def _of_variable(self, scope: Scope, name: str, node: ir.Node) -> list[ir.Value]:
        """The reads and bindings of a variable that is bound at a node."""
        home = scope.home(name)
        if home is None:
            return []
        if (home, name) not in self._uses:
            local = home.kind in ("function", "comprehension")
            whole = self._module.whole
            near = whole.piece_of(node.id).values if local else whole.near(name).values
            self._uses[home, name] = [
                each for each in near if ir.is_variable(each, name) and each.scope.home(name) is home
            ]
        return self._uses[home, name]

    def _of_property(self, function: ir.Function | None) -> list[ir.Value]:
        """The reads of a function as an attribute, if it is a property."""
        if function is None or function.cls is None or not function.decorators:
            return []
        return self._of_attribute(function.cls, function.name)

    def _of_attribute(self, cls: ir.Class | None, attr: str) -> list[ir.Value]:
        """The reads and bindings of an attribute of a class's `self`, or of anything."""
        if (cls, attr) not in self._uses:
            near = self._values_in(cls, attr) if cls is not None else self._module.whole.near(attr).values
            self._uses[cls, attr] = [
                each
                for each in near
                if isinstance(each, ir.Attribute) and each.attr == attr and (cls is None or owner_class(each) is cls)
            ]
        return self._uses[cls, attr]

    def _values_in(self, cls: ir.Class, word: str) -> Iterator[ir.Value]:
        """The values in the methods of a class in which a word is written."""
        for each in ir.walk_statements(cls.body, into=False):
            if isinstance(each, ir.FoldedFunction) and word not in each.node.text:
                continue
            if isinstance(each, ir.Function):
                yield from values_of((each, *ir.walk_statements(each.body)))


def names_of(module: Module, what: ir.Function | ir.Class) -> list[str]:
    """What a function or class is called where it is used: its name, and those that imports give it."""
    others = module.once(_imported_names).get(what.id, ()) if module.parts else ()
    return sorted({what.name, *others})


def _imported_names(module: Module) -> dict[int, set[str]]:
    """The names that imports give functions and classes, by their ids."""
    found: dict[int, set[str]] = {}
    for statement in module.whole.near(IMPORTS).statements:
        for alias in statement.aliases if isinstance(statement, ir.Import) else ():
            for each in _scope_of(statement).bindings.get(alias.bound, ()):
                if not isinstance(each, Imported):
                    continue
                if isinstance(each.what, ir.Node):
                    found.setdefault(each.what.id, set()).add(alias.bound)
                for name, member in each.members.items():
                    if isinstance(member, ir.Node):
                        found.setdefault(member.id, set()).add(name)
    return found


def calls_among(values: Iterable[ir.Value]) -> list[ir.Call]:
    """The calls of some values, in the order of the text."""
    calls = {up.id: up for each in values if isinstance(up := each.parent, ir.Call) and up.func is each}
    return [calls[number] for number in sorted(calls)]


def _same_object(attribute: ir.Attribute) -> Iterator[ir.Value]:
    """What an attribute of an object, or a call of its method, is that gives the object itself."""
    call = attribute.parent
    if attribute.attr == _KEPT:
        yield attribute
    elif isinstance(call, ir.Call) and call.func is attribute and attribute.attr in RETURNS_ITSELF:
        yield call


def _scope_of(statement: ir.Statement) -> Scope:
    """The scope in which a statement binds."""
    up = statement.parent
    while not isinstance(up, (ir.Function, ir.Class, ir.Program)):
        assert up is not None
        up = up.parent
    return up.scope


def callers(module: Module, function: ir.Function | None) -> list[ir.Call]:
    """The file's calls that surely run a function."""
    return module.once(_callers, function) if function is not None else []


def _callers(module: Module, function: ir.Function) -> list[ir.Call]:
    calls, sites = module.once(CallGraph), module.once(CallSites)
    with objects(module).within(CallContext()):  # the same for whoever asks
        return [each for each in sites.of(function) if calls.run_by(each) is function]


def called_back(module: Module, function: ir.Function | None) -> list[ir.Call]:
    """The calls of parameters that are given a function, and no other: callbacks."""
    return module.once(_called_back, function) if function is not None else []


def _called_back(module: Module, function: ir.Function) -> list[ir.Call]:
    with objects(module).within(CallContext()):
        return module.once(CallSites).called_back(function)


def passed(module: Module, function: ir.Function, name: str) -> list[ir.Value | None]:
    """What each of the file's calls of a function gives for a parameter, or its default; None: that can't be told."""
    return [value for _, value in passed_by(module, function, name)]


def passed_by(module: Module, function: ir.Function, name: str) -> list[tuple[ir.Call, ir.Value | None]]:
    """The file's calls of a function, with what each gives for a parameter, as `passed` has it."""
    calls = module.once(CallGraph)
    return [(call, calls.given_for(call, name)) for call in callers(module, function)]


def keys_passed(module: Module, function: ir.Function, name: str) -> set[str]:
    """The keys of what the file's calls of a function give for a parameter."""
    known = objects(module)
    return {key for each in passed(module, function, name) if each is not None and (key := known.key(each)) is not None}


def also_as(module: Module, key: str) -> set[str]:
    """A key, and those of what each call gives for it where it is a parameter, also through several functions."""
    known, found = objects(module), [key]
    for each in found:  # grows
        parameter = known.parameter_of(each) if len(found) < _MANY_KEYS else None
        if parameter is not None:
            found += sorted(keys_passed(module, *parameter) - {*found})
    return {*found}


def leading_to(module: Module, node: ir.Node, most: int | None = None) -> list[ir.Node]:
    """A node, and the calls that lead to it, directly or through other calls; no more are followed than `most`."""
    places = [node]
    for each in places:  # grows
        if most is None or len(places) < most:
            places += [call for call in callers(module, ir.function_of(each)) if call not in places]
    return places
