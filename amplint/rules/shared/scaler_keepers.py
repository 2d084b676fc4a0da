"""The objects that keep a scaler as an attribute: by what names they go, and what may take its state without its name.

That is code that takes an attribute by a name which is a value, or all attributes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from amplint.model.calls.call_graph import CallGraph, parameter_for
from amplint.model.calls.call_sites import callers
from amplint.model.calls.external_calls import local_class
from amplint.model.objects.access_paths import word_of
from amplint.model.objects.amp_objects import given, objects
from amplint.model.objects.key_parts import own_self
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Binding, Other, Scope
from amplint.model.syntax.scopes import class_of_self

if TYPE_CHECKING:
    from amplint.model import Module

_Then: TypeAlias = Callable[[ir.Value], bool]

SAVES = re.compile(r"(?i)save|dump")
# Where a method may hand on the object that it is one of.
_HANDED = re.compile(r"\bself\s*[,)]")
_STATES = {"state_dict", "load_state_dict", "get_scale", "__getstate__", "__dict__"}
# What says what it is given, or looks at it, and no more.
_LOOKS = re.compile(r"builtins\.(isinstance|issubclass|print|type|bool|id|hasattr|callable|repr|len|str|any|all)$")
_SAYS = {"debug", "info", "warning", "warn", "error", "log", "pprint", "format", "write"}
_SHOWS = re.compile(r"builtins\.(isinstance|print|type|bool|id|len)$")
_LOGS = _SAYS - {"format", "write"}
_TEXTS = {"builtins.str", "builtins.repr", "builtins.format"}
# What goes through its argument: of a dict through the keys.
_GOES_THROUGH = re.compile(r"builtins\.(sorted|list|tuple|set|frozenset|iter|reversed|enumerate)$")
_COPIES = re.compile(r"(builtins\.dict|copy\.(copy|deepcopy))$")
_READ_AS_ATTRIBUTES = {"__getattr__", "__getattribute__"}  # what is read so is in sight where it is read
_FOLLOW = 4


def keepers(module: Module, cls: ir.Class) -> set[str]:
    """The keys of the objects of a class: `self` in methods, what they are assigned to, and parameters given them."""
    return module.once(_keepers, cls)


def _keepers(module: Module, cls: ir.Class) -> set[str]:
    known = objects(module)
    own = own_self(cls)
    made = [call for call in module.whole.near(cls.name).calls if local_class(module, call.func) is cls]
    found = {key for call in made for key in (*known.assigned_to(call), *_given_as(module, call))}
    todo = [own, *found]
    found.add(own)
    while todo:
        key = todo.pop()
        for value in module.whole.near(_HANDED if key == own else word_of(key)).values:
            if not isinstance(value, ir.Name) or value.bound:
                continue
            of_self = class_of_self(value)
            is_one = related(module, cls, of_self) if of_self is not None and key == own else known.key(value) == key
            new = set(_given_as(module, value)) - found if is_one else set()
            found |= new
            todo += new
    return found


def _given_as(module: Module, value: ir.Value) -> Iterator[str]:
    """The key of the parameter that takes a value, where the function is in sight."""
    parameter = parameter_for(module, value)
    if parameter is not None:
        function, name = parameter
        yield objects(module).variable(function.scope, name)


def related(module: Module, one: ir.Class, other: ir.Class) -> bool:
    """Whether an object can be one of both classes: they are the same, or one inherits the other."""
    derives = module.once(CallGraph).derives
    return one is other or derives(one, other) or derives(other, one)


def is_given_away(module: Module, cls: ir.Class) -> bool:
    """Whether a method of a class's objects gives its object to code out of sight."""
    for call in module.whole.near(_HANDED).calls:
        names = module.names.of(call.func)
        if "builtins.super" in names or (names and all(map(_LOOKS.match, names))):
            continue
        for value in given(call):
            of_self = class_of_self(value) if isinstance(value, ir.Name) else None
            if of_self is not None and related(module, cls, of_self) and parameter_for(module, value) is None:
                return True
    return False


def is_taken_unnamed(module: Module, cls: ir.Class, attr: str) -> bool:
    """Whether code that doesn't name an attribute of a class's objects may take its state, to save or to load it."""
    taking = _Taking(module, cls, attr)
    near = module.whole.near(SAVES, "__dict__", *module.words("builtins.vars", "builtins.getattr"))
    return any(map(taking.takes, near.values))


def reads(module: Module, home: Scope | None, name: str) -> list[ir.Name]:
    """The reads of a variable."""
    return [
        value
        for value in module.whole.near(name).values
        if ir.is_variable(value, name) and not value.bound and value.scope.home(name) is home
    ]


def _source(target: ir.Name) -> ir.Value | None:
    """What a loop's variable is an item of; None where that is unpacked."""
    loop = target.parent
    if isinstance(loop, ir.Comprehension):
        return next((each.iter for each in loop.clauses if each.target is target), None)
    return loop.iter if isinstance(loop, ir.For) and loop.target is target else None


def _target(value: ir.Value) -> ir.Value | None:
    """What takes the items of a value that a loop or a comprehension goes through."""
    loop = value.parent
    if isinstance(loop, ir.Comprehension):
        return next((each.target for each in loop.clauses if each.iter is value), None)
    return loop.target if isinstance(loop, ir.For) else None


def is_only_shown(module: Module, value: ir.Value, depth: int = _FOLLOW) -> bool:
    """Whether all that is done with a state, or a part of it, is to print it, log it or compare it."""
    up = value.parent
    if isinstance(up, (ir.Expr, ir.FString, ir.Compare)):
        return True
    if isinstance(up, ir.Attribute):
        return isinstance(up.parent, ir.Call) and up.parent.func is up and _is_part_shown(module, up, up.parent, depth)
    if isinstance(up, ir.Call) and up.func is not value:
        names = module.names.of(up.func)
        if names & _TEXTS:
            return is_only_shown(module, up, depth)
        return ir.last_name(up.func) in _LOGS or (bool(names) and all(map(_SHOWS.match, names)))
    if isinstance(up, ir.Assign) and value is up.value and depth:
        return all(isinstance(each, ir.Name) and _are_reads_shown(module, each, depth - 1) for each in up.targets)
    if not isinstance(up, (ir.Subscript, ir.Conditional, ir.Binary, ir.Sequence, ir.Mapping)):
        return False
    return is_only_shown(module, up, depth)


def _is_part_shown(module: Module, method: ir.Attribute, call: ir.Call, depth: int) -> bool:
    """The same, of what a method of the state gives."""
    if method.attr == "get":
        return is_only_shown(module, call, depth)
    target = _target(call) if method.attr in ("items", "keys", "values") and depth else None
    names = [each for each in ir.walk_values(target) if isinstance(each, ir.Name)] if target is not None else []
    return bool(names) and all(_are_reads_shown(module, each, depth - 1) for each in names)


def _are_reads_shown(module: Module, target: ir.Name, depth: int) -> bool:
    later = (each for each in reads(module, target.scope.home(target.name), target.name) if each.id > target.id)
    return all(is_only_shown(module, each, depth) for each in later)


class _Taking:
    """What takes attributes of a class's objects without naming them, and whether one of them may be had so."""

    def __init__(self, module: Module, cls: ir.Class, attr: str) -> None:
        self._module = module
        self._cls = cls
        self._attr = attr
        self._keys = keepers(module, cls)
        self._seen: set[object] = set()

    def takes(self, value: ir.Value) -> bool:
        """Whether a value is the beginning of such code."""
        if isinstance(value, ir.Attribute):
            return value.attr == "__dict__" and self._is_keeper(value.base) and self._of_all(value)
        if not isinstance(value, ir.Call):
            return False
        names, args = self._module.names.of(value.func), value.positional
        if "builtins.vars" in names:
            return bool(args) and self._is_keeper(args[0]) and self._of_all(value)
        if "builtins.getattr" in names and len(args) > 1:
            if not self._is_name(args[1]):
                return False
            return self._of_one(value) if self._is_keeper(args[0]) else self._of_any(args[0], value)
        if not SAVES.search(ir.last_name(value.func)) or self._module.once(CallGraph).find(value) is not None:
            return False
        return any(map(self._is_keeper, given(value)))

    def _is_keeper(self, value: ir.Value) -> bool:
        cls = class_of_self(value) if isinstance(value, ir.Name) else None
        if cls is not None:
            return related(self._module, self._cls, cls)
        return objects(self._module).key(value) in self._keys or (ir.is_variable(value, "self"))

    def _of_any(self, base: ir.Value, value: ir.Value) -> bool:
        """Whether an attribute of what may be one of the objects is asked for its state there and then."""
        known = objects(self._module)
        key = known.key(base)
        cls = class_of_self(base) if isinstance(base, ir.Name) else known.instance(key) if key is not None else None
        if cls is not None and not related(self._module, self._cls, cls):
            return False
        return isinstance(value.parent, ir.Attribute) and value.parent.attr in _STATES

    # --- names ------------------------------------------------------------------------------------------------------

    def _is_name(self, value: ir.Value, depth: int = _FOLLOW) -> bool:
        """Whether a value may be the attribute's name."""
        if isinstance(value, ir.Constant):
            return bool(value.value == self._attr)
        if isinstance(value, ir.FString):
            known = (each.value if isinstance(each, ir.Constant) else None for each in value.parts)
            pattern = "".join(re.escape(each) if isinstance(each, str) else ".*" for each in known)
            return re.fullmatch(pattern, self._attr) is not None
        if not isinstance(value, ir.Name) or not depth:
            return True
        bindings = self._module.names.bindings(value)
        return not bindings or any(self._may_bind(each, depth - 1) for each in bindings)

    def _may_bind(self, binding: Binding, depth: int) -> bool:
        if isinstance(binding, Assigned):
            return self._is_name(binding.value, depth)
        node = binding.node if isinstance(binding, Other) and binding.why == "loop" else None
        source = _source(node) if isinstance(node, ir.Name) else None
        return source is None or self._may_hold(source, depth)

    def _may_hold(self, source: ir.Value, depth: int) -> bool:
        """Whether the name may be among the items of what is iterated over."""
        if isinstance(source, ir.Sequence):
            return any(self._is_name(each, depth) for each in source.items)
        only = self._module.names.bound_once(source) if isinstance(source, ir.Name) else None
        if only is None or not isinstance(only.value, ir.Sequence) or only.value.kind != "tuple":
            return True
        return self._may_hold(only.value, depth)

    # --- values -----------------------------------------------------------------------------------------------------

    def _of_all(self, value: ir.Value) -> bool:
        """Whether the attribute may come out of a dict of all, with its state."""
        up = value.parent
        if isinstance(up, ir.Attribute):
            return self._of_method(up)
        if isinstance(up, ir.Subscript) and up.base is value:
            return self._is_name(up.index) and self._of_one(up)
        if isinstance(up, ir.Call):
            names = self._module.names.of(up.func)
            if any(map(_GOES_THROUGH.match, names)):
                return False  # these are the names
            return self._of_all(up) if any(map(_COPIES.match, names)) else self._of_argument(value, self._of_all)
        return self._goes_on(value, self._of_all)

    def _of_method(self, up: ir.Attribute) -> bool:
        """The same, of a method of the dict."""
        call = up.parent if isinstance(up.parent, ir.Call) and up.parent.func is up else None
        if call is None or up.attr in ("keys", "update", "clear"):
            return call is None
        if up.attr in ("get", "pop", "setdefault"):
            return bool(call.args) and self._is_name(call.args[0].value) and self._of_one(call)
        if up.attr in ("items", "values"):
            return self._of_several(call, pairs=up.attr == "items")
        return self._of_all(call) if up.attr == "copy" else True

    def _of_several(self, value: ir.Value, pairs: bool) -> bool:
        """The same, of the items or values of the dict."""
        up, target = value.parent, _target(value)
        if pairs:
            target = target.items[1] if isinstance(target, ir.Sequence) and len(target.items) == 2 else None
        if isinstance(target, ir.Name):
            return self._of_variable(target, self._of_one)
        names = self._module.names.of(up.func) if isinstance(up, ir.Call) and up.func is not value else ()
        if isinstance(up, ir.Call) and any(map(_GOES_THROUGH.match, names)) and up.positional[:1] == (value,):
            return "builtins.enumerate" in names or self._of_several(up, pairs)
        return not (isinstance(up, ir.Call) and self._looks(up))

    def _of_one(self, value: ir.Value) -> bool:
        """Whether the state of an attribute may be taken where it is this value, or from there on."""
        up = value.parent
        if isinstance(up, ir.Attribute):
            return up.attr in _STATES
        if isinstance(up, ir.Call):
            return up.func is not value and self._of_argument(value, self._of_one)
        return self._goes_on(value, self._of_one)

    def _goes_on(self, value: ir.Value, then: _Then) -> bool:
        """What comes of a value that is no argument: `then` says so of each place that it gets to."""
        up = value.parent
        if isinstance(up, (ir.Bool, ir.Walrus)) or (isinstance(up, ir.Conditional) and up.test is not value):
            return then(up) or (isinstance(up, ir.Walrus) and self._of_variable(up.target, then))
        if isinstance(up, ir.Assign) and value is up.value:
            targets = [each for each in up.targets if isinstance(each, ir.Name)]
            return len(targets) < len(up.targets) or any(self._of_variable(each, then) for each in targets)
        if isinstance(up, ir.Return):
            return self._of_result(up, then)
        if isinstance(up, ir.Comprehension):
            return value in up.elements
        return isinstance(up, (ir.Sequence, ir.Mapping, ir.Starred, ir.Suspend))

    def _of_variable(self, target: ir.Name, then: _Then) -> bool:
        home = target.scope.home(target.name)
        if home is None or not self._is_new((id(home), target.name)):
            return False
        return any(map(then, reads(self._module, home, target.name)))

    def _of_result(self, statement: ir.Return, then: _Then) -> bool:
        function = ir.function_of(statement)
        if function is None or function.name in _READ_AS_ATTRIBUTES or not self._is_new(function.id):
            return False
        if function.name == "<lambda>" and not function.params:
            return False  # it reads one attribute for who calls it, as a counter: nobody asks that for its state
        special = function.name.startswith("__") or function.name == "<lambda>"
        calls = callers(self._module, function)
        return special or not calls or any(map(then, calls))  # others may call it where the file doesn't

    def _of_argument(self, value: ir.Value, then: _Then) -> bool:
        call = value.parent
        assert isinstance(call, ir.Call)
        if self._looks(call):
            return False
        parameter = parameter_for(self._module, value)
        if parameter is None:
            return True
        function, name = parameter
        if not self._is_new((id(function.scope), name)):
            return False
        return any(map(then, reads(self._module, function.scope, name)))

    def _is_new(self, seen: object) -> bool:
        """Whether a variable or function is come to for the first time."""
        new = seen not in self._seen
        self._seen.add(seen)
        return new

    def _looks(self, call: ir.Call) -> bool:
        names = self._module.names.of(call.func)
        return ir.last_name(call.func) in _SAYS or (bool(names) and all(map(_LOOKS.match, names)))
