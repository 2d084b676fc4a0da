"""Keys: by what the objects that values are, are known.

A *key* is where an object is kept (`self.scaler`, a variable of one scope), aliases followed while a name has one
binding. Two keys are taken for two objects, one key for one object. While flow analysis follows a call, `call_context`
says what the callee's parameters and `self` are for the caller: keys are the caller's there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, overload

from amplint.model.names.tables import item_at
from amplint.model.objects.call_context import CallContext, Recognised
from amplint.model.objects.kept_arguments import Kept, kept_parameters
from amplint.model.objects.key_parts import attribute_of, attribute_of_self, item_of, variable_in, variable_parts
from amplint.model.objects.terms import Op, Term, literal, path
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Binding, Imported, Other, Scope
from amplint.model.syntax.nesting import is_within
from amplint.model.syntax.scopes import class_of_self, owner_class

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.syntax.queries import Nodes

_WORD = re.compile(r"[^\W\d]\w*")
_FOLLOW = 5


class _Known:
    """The keys and terms of values in one call context, by their ids: paths ask again and again."""

    __slots__ = ("keys", "terms", "variables")

    def __init__(self) -> None:
        self.keys: dict[int, str | None] = {}
        self.variables: dict[int, str] = {}  # the keys of the variables that names are
        self.terms: dict[int, Term | None] = {}


class Keys:
    """The keys of the objects of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self.call_context = CallContext()
        # What values are in the call contexts that were met, as long as no item comes to be something else.
        self._known_in: dict[CallContext | None, _Known] = {None: _Known()}
        self._here = self._known_in[None]
        self._origins: dict[str, str] = {}  # keys that a call context gave -> as the callee has them
        self._scopes: list[Scope] = []
        self._numbers: dict[int, int] = {}  # scopes by their identity -> places in that list
        self._keys: dict[int, str | None] = {}
        self._kept_by: dict[int, dict[str, str]] = {}  # constructor -> what it keeps, see `_kept`
        self._kept_objects = Kept(module, self)
        # Items of containers, as a loop's variable asks for them -> what they are.
        self._named_items: dict[str, str] = {}
        self._by_key: dict[Nodes, dict[str | None, list[ir.Value]]] = {}  # the values of some nodes
        self._by_own_key: dict[Nodes, dict[str, list[ir.Name]]] = {}
        self._assigned_values: dict[tuple[int, bool], list[ir.Value]] = {}  # by statement: with flags, or without
        self._renamed = 0  # how often an item came to be another object

    def name_item(self, item: str, key: str) -> None:
        """Say what the item of a container is, by the key that it has with a number or literal."""
        if self._named_items.get(item) != key:
            self._renamed += item in self._named_items
            self._named_items[item] = key
            self._known_in.clear()
            self._enter(self.call_context)

    @property
    def names_known(self) -> tuple[int, int, int]:
        """What changes wherever more is learned of what keys stand for."""
        return len(self._origins), len(self._named_items), self._renamed

    @contextmanager
    def within(self, call_context: CallContext) -> Iterator[None]:
        """A context in which keys are those of a call context; with an empty one they are the file's own."""
        before = self.call_context
        self._enter(call_context)
        try:
            yield
        finally:
            self._enter(before)

    def _enter(self, call_context: CallContext) -> None:
        self.call_context = call_context
        own = call_context if call_context.aliases else None  # without any a key is what it is for the file
        self._here = self._known_in.setdefault(own, _Known())

    def key(self, value: ir.Value) -> str | None:
        """The key of the object that a value is; None where it is no name, attribute or fixed item."""
        known = self._here.keys
        if value.id not in known:
            known[value.id] = self._translated(self._raw(value))
        return known[value.id]

    def _translated(self, key: str | None) -> str | None:
        """A key as the call context has it; which it was is remembered, for the roles."""
        if key is None or not self.call_context.aliases:
            return key
        found = self._kept_objects.resolved(self.call_context.translate(key))
        found = self._named_items.get(found, found)
        if found != key:
            self._origins.setdefault(found, key)
        return found

    def own_class(self, key: str) -> ir.Class | None:
        """The class of the file whose `self` a key is the one of."""
        return self._kept_objects.own_class(key)

    @property
    def recognised(self) -> Recognised:
        """What calls are known to be in the call context."""
        known = self.call_context.recognised
        if known.origins != len(self._origins):  # more is known of what objects are
            known.origins = len(self._origins)
            for each in (known.callees, known.harmless, known.inert, known.idle, known.quiet):
                each.clear()
            if self.call_context.aliases or self.call_context.classes:
                known.events.clear()
        return known

    def original(self, key: str) -> str:
        """The key as the function has it in which the object was first met."""
        return self._origins.get(key, key)

    def _raw(self, value: ir.Value, depth: int = _FOLLOW) -> str | None:
        if depth < _FOLLOW:
            return self._find_key(value, depth)
        if value.id not in self._keys:
            self._keys[value.id] = None  # what is made of itself has none
            self._keys[value.id] = self._find_key(value, depth)
        return self._keys[value.id]

    def _find_key(self, value: ir.Value, depth: int) -> str | None:
        if isinstance(value, ir.Name):
            return self._name_key(value, depth)
        if isinstance(value, ir.Attribute):
            return self._attribute_key(value, depth)
        if isinstance(value, ir.Subscript):
            return self._item_key(value, depth)
        return self._looked_up_key(value, depth) if isinstance(value, ir.Call) else None

    def _attribute_key(self, value: ir.Attribute, depth: int) -> str | None:
        """The key of `base.attr`; of a property that of what it returns."""
        cls = owner_class(value)
        base = self._kept_objects.of_self(cls) if cls is not None else self._raw(value.base, depth)
        owner = cls if cls is not None or not isinstance(value.base, ir.Name) else self._class_of(value.base)
        attr = self._property(owner, value.attr) if owner is not None else value.attr
        return self._kept_objects.resolved(attribute_of(base, attr)) if base is not None else None

    def _item_key(self, value: ir.Subscript, depth: int) -> str | None:
        """The key of `base[index]`; of what a container surely has there its own."""
        item = item_at(self._module, value) if depth else None
        if item is not None and (key := self._raw(item, depth - 1)) is not None:
            return key
        base, index = self._raw(value.base, depth), self._rendered(value.index)
        return item_of(base, index) if base is not None and index is not None else None

    def _looked_up_key(self, call: ir.Call, depth: int) -> str | None:
        """The key of `getattr(base, name)`, and of `base.get("name")`, which is that of the item."""
        table = ir.called_on(call, "get")
        if table is not None and call.positional and isinstance(call.positional[0], ir.Constant):
            of, index = self._raw(table, depth), self._rendered(call.positional[0])
            return item_of(of, index) if of is not None and index is not None else None
        if self._module.names.of(call.func) != {"builtins.getattr"} or len(call.positional) < 2:
            return None
        base, name = self._raw(call.positional[0], depth), self._rendered(call.positional[1])
        return attribute_of(base, f"getattr({name})") if base is not None and name is not None else None

    def _class_of(self, value: ir.Name) -> ir.Class | None:
        """The class of this file that a variable is an instance of, where it is bound once."""
        bound = self._module.names.bound_once(value)
        made = bound.value if bound is not None else None
        return self._local_class(made.func) if isinstance(made, ir.Call) else None

    def _property(self, cls: ir.Class, attr: str) -> str:
        """The attribute that a property of that name returns, if it does nothing else."""
        for each in cls.body.statements:
            if isinstance(each, ir.Function) and each.name == attr and each.decorators:
                names = self._module.names.of(each.decorators[0])
                last = each.body.statements[-1]
                value = last.value if isinstance(last, ir.Return) and len(each.body.statements) <= 2 else None
                if names == {"builtins.property"} and isinstance(value, ir.Attribute) and owner_class(value) is cls:
                    return value.attr
        return attr

    @overload
    def own_key(self, value: ir.Name) -> str: ...
    @overload
    def own_key(self, value: ir.Value) -> str | None: ...
    def own_key(self, value: ir.Value) -> str | None:
        """The key of a variable itself, aliases not followed; of any other value its key."""
        if not isinstance(value, ir.Name):
            return self.key(value)
        known = self._here.variables
        if value.id not in known:
            known[value.id] = self.variable(value.scope, value.name)
        return known[value.id]

    def variable(self, scope: Scope, name: str) -> str:
        """The key of the variable that `name` is in a scope."""
        key = self.raw_variable(scope, name)
        return self._translated(key) or key

    def raw_variable(self, scope: Scope, name: str) -> str:
        """The same, whatever the call context."""
        home = scope.home(name)
        return variable_in(self._number(home), name) if home is not None else name

    def kept(self, function: ir.Function, name: str) -> str | None:
        """The attribute's name in which a constructor keeps a parameter."""
        key = self._kept(function.scope, name)
        return attribute_of_self(key) if key is not None else None

    def kept_values(self, call: ir.Call, cls: ir.Class) -> dict[str, ir.Value]:
        """The attributes of an object that are what the call that makes it gives, and never set again, with that."""
        return self._kept_objects.values(call, cls)

    def _kept(self, scope: Scope, name: str) -> str | None:
        """The key of the attribute in which a constructor keeps a parameter as it is."""
        parameters = (each.node for each in scope.bindings.get(name, ()) if isinstance(each, Other))
        function = next((each for each in parameters if isinstance(each, ir.Function)), None)
        if function is None or function.name != "__init__" or function.cls is None:
            return None
        if function.id not in self._kept_by:
            self._kept_by[function.id] = kept_parameters(function, function.cls)
        return self._kept_by[function.id].get(name)

    def bindings_of(self, key: str) -> Sequence[Binding]:
        """What binds a variable, by its key."""
        variable = variable_parts(key)
        return self._scopes[variable[0]].bindings.get(variable[1], ()) if variable is not None else ()

    def parameter_of(self, key: str) -> tuple[ir.Function, str] | None:
        """The function of which a variable is a parameter, and nothing else, and its name there, by its key."""
        variable, bindings = variable_parts(key), self.bindings_of(key)
        function = ir.parameter_of(bindings[0]) if len(bindings) == 1 else None
        return (function, variable[1]) if function is not None and variable is not None else None

    def raw(self, value: ir.Value) -> str | None:
        """The key of a value, whatever the call context."""
        return self._raw(value)

    def with_key(self, nodes: Nodes, key: str) -> Sequence[ir.Value]:
        """The values among some nodes that have a key, whatever the call context, in the order of `Nodes.values`."""
        if nodes not in self._by_key:
            found = self._by_key[nodes] = {}
            for value in nodes.values:
                if isinstance(value, (ir.Name, ir.Attribute, ir.Subscript, ir.Call)):
                    found.setdefault(self._raw(value), []).append(value)
        return self._by_key[nodes].get(key, ())

    def with_own_key(self, nodes: Nodes, key: str) -> Sequence[ir.Name]:
        """The names among some nodes that are a variable with a key itself, aliases not followed."""
        if nodes not in self._by_own_key:
            found = self._by_own_key[nodes] = {}
            for value in nodes.values:
                if isinstance(value, ir.Name):
                    found.setdefault(self.raw_variable(value.scope, value.name), []).append(value)
        return self._by_own_key[nodes].get(key, ())

    def prefix(self, scope: Scope) -> str:
        """How the keys of a scope's own variables begin."""
        return variable_in(self._number(scope), "")

    def bindings(self, value: ir.Name) -> list[Binding]:
        """What binds a variable."""
        return self._module.names.bindings(value)

    def sources(self, value: ir.Name | ir.Attribute) -> Sequence[ir.Value]:
        """The values that are assigned to a variable, or stored in an attribute of the enclosing class."""
        if isinstance(value, ir.Attribute):
            return [each for each in self._module.names.stored(value) if each is not None]
        return [each.value for each in self._module.names.bindings(value) if isinstance(each, Assigned)]

    def names_in(self, value: ir.Value) -> set[str]:
        """The keys of the variables and attributes that a value is made of."""
        return {key for each in ir.walk_values(value) if (key := self.own_key(each)) is not None}

    def assigned_to(self, value: ir.Value) -> Iterator[str]:
        """The keys of what a value is assigned to, where it is all of it, an arm of a conditional, or stands in for
        what is missing: `scaler or GradScaler()`.
        """
        node: ir.Value = value
        while (isinstance(node.parent, ir.Conditional) and node is not node.parent.test) or (
            isinstance(node.parent, ir.Bool) and node.parent.op == "or" and node is node.parent.right
        ):
            node = node.parent
        for target in _targets(node):
            key = self.key(target)
            if key is not None:
                yield key

    def stored_as(self, value: ir.Value) -> Iterator[str]:
        """The same, and the items of a display that is assigned: `opts["g"]` of `opts = {"g": value}`."""
        yield from self.assigned_to(value)
        display = value.parent
        index: str | None = None
        if isinstance(display, ir.Mapping):
            index = next(
                (self._rendered(key) for key, each in display.items if each is value and key is not None), None
            )
        elif isinstance(display, ir.Sequence) and not display.unpacks():
            index = str(display.items.index(value))
        if isinstance(display, ir.Value) and index is not None:
            yield from (item_of(key, index) for key in self.stored_as(display))

    def assigned_in(self, statement: ir.Statement, flags: bool = True) -> list[str]:
        """The keys of the variables and attributes that a compound statement assigns, nested functions left out.

        Without `flags` also those left out that the statement only sets to literals or negates, whatever they are
        before it.
        """
        keys = map(self.own_key, self.bound_in(statement, flags))
        return list(dict.fromkeys(key for key in keys if key is not None))

    def bound_in(self, statement: ir.Statement, flags: bool = True) -> list[ir.Value]:
        """The variables and attributes themselves that a compound statement assigns, as `assigned_in` picks them."""
        known = (statement.id, flags)
        if known not in self._assigned_values:
            inside = (each for block in statement.blocks() for each in ir.walk_statements(block, into=False))
            bound = (value for each in (statement, *inside) for value in self._bound_by(each))
            self._assigned_values[known] = [
                each for each in bound if flags or not isinstance(each, ir.Name) or not self._is_flag(each, statement)
            ]
        return self._assigned_values[known]

    def _is_flag(self, value: ir.Name, statement: ir.Statement) -> bool:
        made = [each.value for each in self.bindings(value) if isinstance(each, Assigned)]
        sources = [each for each in made if is_within(each, statement)] or made  # a counter is only added to
        return bool(sources) and all(
            isinstance(each, ir.Constant) or (isinstance(each, ir.Unary) and each.op == "Not") for each in sources
        )

    @staticmethod
    def _bound_by(statement: ir.Statement) -> Sequence[ir.Value]:
        targets: list[ir.Value] = []
        if isinstance(statement, ir.Assign):
            targets += statement.targets
        elif isinstance(statement, (ir.AugAssign, ir.For)):
            targets.append(statement.target)
        elif isinstance(statement, ir.With):
            targets += [item.target for item in statement.items if item.target is not None]
        flat = [value for target in targets for value in ir.walk_values(target)]
        walrus = [
            each.target for value in statement.values() for each in ir.walk_values(value) if isinstance(each, ir.Walrus)
        ]
        return [
            each for each in flat if isinstance(each, ir.Attribute) or (isinstance(each, ir.Name) and each.bound)
        ] + list(walrus)

    def _name_key(self, value: ir.Name, depth: int) -> str:
        cls = class_of_self(value)
        if cls is not None and not self._is_static(value):
            return self._kept_objects.of_self(cls)  # handed to a helper
        home = value.scope.home(value.name)
        if home is not None and (kept := self._kept(home, value.name)) is not None:
            return kept
        bindings = home.bindings[value.name] if home is not None else []
        if bindings and isinstance(bindings[0], Imported) and (key := self._imported_key(value, depth)) is not None:
            return key
        if depth and len(bindings) == 1 and isinstance(bindings[0], Assigned):
            aliased = bindings[0].value
            if isinstance(aliased, (ir.Name, ir.Attribute, ir.Subscript, ir.Call)):
                key = self._raw(aliased, depth - 1)
                if key is not None:
                    return key
        return self.raw_variable(value.scope, value.name)

    def _imported_key(self, value: ir.Name, depth: int) -> str | None:
        """The key that a function or constant of another file has there."""
        what = self._module.names.definition(value)
        if isinstance(what, ir.Function) and what.scope.parent is not None:
            return self.raw_variable(what.scope.parent, what.name)
        only = self._module.names.only_binding(value)
        constant = only.what if isinstance(only, Imported) else None
        return self._name_key(constant.target, depth) if isinstance(constant, Assigned) else None

    def _is_static(self, value: ir.Name) -> bool:
        """Whether a name is a parameter of a method that has no `self`."""
        home = value.scope.home(value.name)
        bound = home.bindings.get(value.name, ()) if home is not None else ()
        nodes = (each.node for each in bound if isinstance(each, Other))
        decorators = (each for node in nodes if isinstance(node, ir.Function) for each in node.decorators)
        return any(ir.last_name(each) in ("staticmethod", "classmethod") for each in decorators)

    def _number(self, scope: Scope) -> int:
        if id(scope) not in self._numbers:
            self._numbers[id(scope)] = len(self._scopes)
            self._scopes.append(scope)
        return self._numbers[id(scope)]

    def render(self, value: ir.Value) -> str | None:
        """A test or index as text that is the same for the same names and values; None where that can't be told."""
        term = self.term(value)
        return str(term) if term is not None else None

    def term(self, value: ir.Value) -> Term | None:
        """A test or index as a term; None where it can't be told by names and values."""
        known = self._here.terms
        if value.id not in known:
            known[value.id] = self._find_term(value, self.call_context)
        return known[value.id]

    def _find_term(self, value: ir.Value, context: CallContext) -> Term | None:
        term = self._term(value)
        if term is None or not context.aliases:
            return term
        if term.is_path and term.name not in context.values:
            return path(self._translated(term.name) or term.name)
        return context.translated(term)

    def _rendered(self, value: ir.Value) -> str | None:
        term = self._term(value)
        return str(term) if term is not None else None

    def _term(self, value: ir.Value) -> Term | None:
        """A value as a term, whatever the call context."""
        if isinstance(value, ir.Constant):
            return literal(value.value)
        if isinstance(value, (ir.Name, ir.Attribute, ir.Subscript)):
            key = self._raw(value)
            return path(key) if key is not None else None
        if isinstance(value, ir.Call):
            return self._term_of_call(value)
        parts = list(map(self._term, value.children()))
        known = tuple(part for part in parts if part is not None)
        op: str | None = None
        if isinstance(value, (ir.Unary, ir.Binary, ir.Bool)):
            op = value.op
        elif isinstance(value, ir.Compare):
            op = ",".join(value.ops)
        elif isinstance(value, (ir.Sequence, ir.FString)):
            op = Op.DISPLAY
        return Term(op, parts=known) if op is not None and len(known) == len(parts) else None

    def _term_of_call(self, call: ir.Call) -> Term | None:
        func = self._raw(call.func)
        given = [self._term(arg.value) for arg in call.args]
        known = tuple(each for each in given if each is not None)
        if func is None or len(known) != len(given) or call.unpacks():
            return None
        return Term(Op.CALL, func, known)

    def _local_class(self, func: ir.Value) -> ir.Class | None:
        found = self._module.names.definition(func)
        return found if isinstance(found, ir.Class) else None


def _targets(value: ir.Value) -> Iterator[ir.Value]:
    """What a value is assigned to, also as one of several: `a, b = first, second`."""
    parent = value.parent
    if isinstance(parent, ir.Assign) and parent.value is value:
        yield from parent.targets
    elif isinstance(parent, ir.Sequence) and isinstance(parent.parent, ir.Assign) and parent.parent.value is parent:
        for target in parent.parent.targets:
            yield from (one for one, other in ir.pairs(target, parent) if other is value and one is not target)


@lru_cache(maxsize=4096)
def word_of(key: str) -> str:
    """The word that is written wherever the object of a key is named."""
    words = _WORD.findall(key)
    return words[-1] if words else ""
