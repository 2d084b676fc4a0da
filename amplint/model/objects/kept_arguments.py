"""What objects of the file's classes keep of what they are made with: `stepper.scaler` of `stepper = Stepper(scaler)`.

Only objects that are bound once count, and arguments that the constructor keeps as they are, or moved: a module is the
same one after `model.to(device)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from amplint.model.objects.call_context import CallContext
from amplint.model.objects.key_parts import (
    attribute_of,
    attribute_of_self,
    is_of_self,
    last_name,
    made_id,
    own_self,
    owner_of,
)
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import given_to, with_defaults
from amplint.model.syntax.ir import Assigned, Binding, Scope
from amplint.model.syntax.queries import fields_of
from amplint.model.syntax.scopes import owner_class
from amplint.model.torch_facts.modules import RETURNS_ITSELF

if TYPE_CHECKING:
    from amplint.model import Module

# What makes a constructor of a class's annotated names.
_GENERATES = {"dataclasses.dataclass", "typing.NamedTuple", "attr.define", "attrs.define"}


class _Making(NamedTuple):
    """The call that makes an object, its class, and the keys of what the function round the call was given."""

    call: ir.Call
    cls: ir.Class
    around: CallContext


class _Keys(Protocol):
    """The keys of a module's values, whatever the call context."""

    def raw(self, value: ir.Value) -> str | None:
        """The key of a value."""

    def bindings_of(self, key: str) -> Sequence[Binding]:
        """What binds a variable, by its key."""

    def prefix(self, scope: Scope) -> str:
        """How the keys of a scope's own variables begin."""


class Kept:
    """The attributes of one module's objects that are what the constructor was given."""

    def __init__(self, module: Module, keys: _Keys) -> None:
        self._module = module
        self._keys = keys
        self._resolved: dict[str, str] = {}
        self._makings: dict[str, _Making | None] = {}
        self._changed: dict[str, bool] = {}
        self._own: dict[str, ir.Class] = {}  # by the key of `self` in their methods

    def of_self(self, cls: ir.Class) -> str:
        """The key of a class's objects in its own methods."""
        key = own_self(cls)
        self._own[key] = cls
        return key

    def own_class(self, key: str) -> ir.Class | None:
        """The class whose objects have a key in its own methods."""
        return self._own.get(key)

    def resolved(self, key: str) -> str:
        """The key of the object that an attribute was made with, by its key; of anything else the same."""
        if key not in self._resolved:
            self._resolved[key] = key  # of an object that is made of itself
            self._resolved[key] = self._resolve(key)
        return self._resolved[key]

    def _resolve(self, key: str) -> str:
        base, attr = owner_of(key), last_name(key)
        if not base or not attr.isidentifier():
            return key
        owner = self.resolved(base)
        making = self._making(owner)
        if making is not None:
            given = self._given(making, owner).get(attr)
            # A variable of the constructor in which an attribute is made is no object of who reads it later.
            if given is not None and (is_of_self(given) or not is_of_self(owner)):
                return given
        return attribute_of(owner, attr)

    def _given(self, making: _Making, owner: str) -> dict[str, str]:
        """The attributes of an object that are what it was made with, and the keys of that."""
        arguments = self._arguments(making)
        constructor = _constructor(making.cls)
        if constructor is None:
            return {name: key for name, key in arguments.items() if not self._is_changed(making.cls, name)}
        return {
            attr: arguments[name]
            for name, key in kept_parameters(constructor, making.cls).items()
            if name in arguments and not self._is_changed(making.cls, attr := attribute_of_self(key))
        }

    def _arguments(self, making: _Making) -> dict[str, str]:
        """The keys of what the constructor's parameters are given."""
        values = self._values(making.call, making.cls)
        keys = {name: self._keys.raw(value) for name, value in values.items()}
        return {name: self.resolved(making.around.translate(key)) for name, key in keys.items() if key is not None}

    def _values(self, call: ir.Call, cls: ir.Class) -> dict[str, ir.Value]:
        """What the constructor's parameters are given; nothing where a call unpacks something."""
        constructor = _constructor(cls)
        if call.unpacks():
            return {}
        if constructor is not None:
            params = list(constructor.params[1:])
        else:
            fields = fields_of(cls) if self._is_generated(cls) else []
            params = [ir.Param(name, "keyword", None, None) for name in call.keywords]
            params += [ir.Param(name, "positional", None, None) for name in fields]
        given = with_defaults(params, given_to(params, call.positional, call.keywords))
        return {name: value for name, value in given.items() if value is not None}

    def values(self, call: ir.Call, cls: ir.Class) -> dict[str, ir.Value]:
        """The attributes of an object that are what it was made with, and never set again, with what that is."""
        values, constructor = self._values(call, cls), _constructor(cls)
        if constructor is None:
            return {name: value for name, value in values.items() if not self._is_changed(cls, name)}
        kept = {
            name: attribute_of_self(key)
            for name, key in kept_parameters(constructor, cls).items()
            if all(isinstance(each, ir.Name) for each in cls.stored(attribute_of_self(key)))
        }
        return {attr: values[name] for name, attr in kept.items() if name in values and not self._is_changed(cls, attr)}

    def _making(self, key: str) -> _Making | None:
        if key not in self._makings:
            self._makings[key] = None
            self._makings[key] = self._find_making(key)
        return self._makings[key]

    def _find_making(self, key: str) -> _Making | None:
        """How an object is made, by its key: by the one value that is ever bound to it."""
        base, attr, call_id = owner_of(key), last_name(key), made_id(key)
        around = CallContext()
        if call_id is not None:
            values = [self._module.value_of(call_id)]
        elif not base:
            bindings = self._keys.bindings_of(key)
            values = [each.value if isinstance(each, Assigned) else None for each in bindings]
        else:
            outer = self._making(base)
            cls = self._own.get(base) if outer is None else outer.cls
            values = _made_values(cls, attr) if cls is not None and not self._is_changed(cls, attr, times=1) else []
            around = self._inside(outer, base) if outer is not None else around
        call = values[0] if len(values) == 1 else None
        made = self._module.names.definition(call.func) if isinstance(call, ir.Call) else None
        if not isinstance(call, ir.Call) or not isinstance(made, ir.Class):
            return None
        return _Making(call, made, around)

    def _inside(self, making: _Making, key: str) -> CallContext:
        """What the names in the constructor of an object stand for, for who made it."""
        constructor = _constructor(making.cls)
        aliases = {own_self(making.cls): key}
        if constructor is not None:
            prefix = self._keys.prefix(constructor.scope)
            aliases |= {f"{prefix}{name}": given for name, given in self._arguments(making).items()}
        return CallContext(aliases)

    def _is_changed(self, cls: ir.Class, attr: str, times: int | None = None) -> bool:
        """Whether an attribute of a class's objects is set elsewhere than where they are made."""
        if times is None:
            times = 1 if _constructor(cls) is not None else 0
        if len(_made_values(cls, attr)) != times:
            return True
        if attr not in self._changed:
            named = (each for piece in self._module.whole.near(attr).pieces for each in piece.named((attr,)))
            self._changed[attr] = any(map(_is_set_from_outside, named))
        return self._changed[attr]

    def _is_generated(self, cls: ir.Class) -> bool:
        """Whether a class has a constructor that is made of its annotated names."""
        makes = [each.func if isinstance(each, ir.Call) else each for each in cls.decorators]
        makes += [each.value for each in cls.bases]
        return any(self._module.names.of(each) & _GENERATES for each in makes)


def _constructor(cls: ir.Class) -> ir.Function | None:
    methods = (each for each in cls.body.statements if isinstance(each, ir.Function))
    return next((each for each in methods if each.name == "__init__"), None)


def _is_set_from_outside(value: ir.Value) -> bool:
    """Whether a value is an attribute that is assigned in another place than a method of its object."""
    return isinstance(value, ir.Attribute) and ir.is_target(value) and owner_class(value) is None


def _made_values(cls: ir.Class, attr: str) -> list[ir.Value | None]:
    """What is stored in an attribute, apart from what leaves the same module there, `self.net = self.net.cuda()`, and
    from None, which is no object.
    """

    def is_itself(value: ir.Value | None) -> bool:
        source = ir.before_calls(value, *RETURNS_ITSELF)
        is_own = isinstance(source, ir.Attribute) and source.attr == attr and owner_class(source) is cls
        return source is not value and is_own

    return [each for each in cls.stored(attr) if not is_itself(each) and not ir.is_none(each)]


def kept_parameters(function: ir.Function, cls: ir.Class) -> dict[str, str]:
    """The parameters that a constructor keeps in an attribute as they are, or moved, and the attributes' keys."""
    found = {}
    assigns = [each for each in function.body.statements if isinstance(each, ir.Assign) and len(each.targets) == 1]
    several = (ir.pairs(each.targets[0], each.value) for each in assigns if each.value is not None)
    for target, given in (pair for pairs in several for pair in pairs):
        value = ir.before_calls(given, *RETURNS_ITSELF)
        if not isinstance(value, ir.Name) or not isinstance(target, ir.Attribute) or owner_class(target) is not cls:
            continue
        once = len(function.scope.bindings.get(value.name, ())) == 1 and len(_made_values(cls, target.attr)) == 1
        if once and any(param.name == value.name for param in function.params[1:]):
            found[value.name] = attribute_of(own_self(cls), target.attr)
    return found
