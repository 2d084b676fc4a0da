"""`dataclass` and `field` as the standard library has them, as far as nodes need them, in a tenth of the time.

There are fifty classes of nodes, and few kinds of them in a file: what makes one is compiled when the first is made.
The standard library compiles that, and more, for each class on import, which takes longer than to lint a file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

_NO_DEFAULT: Any = object()


class Field(NamedTuple):
    """What there is to say of a field besides its type."""

    default: Any = _NO_DEFAULT
    default_factory: Any = None


def field(*, default: Any = _NO_DEFAULT, default_factory: Any = None, repr: bool = True) -> Any:
    """A field with a default, or something that makes it."""
    return Field(default, default_factory)


def dataclass(*, eq: bool, slots: bool) -> Callable[[type], type]:
    """Make a class of the annotations in its body: with slots, equal to itself only."""
    assert slots
    assert not eq
    return _made


def _made(cls: type) -> type:
    own = cls.__annotations__
    fields = dict(getattr(cls, "_fields", {}))
    for name in own:
        given = cls.__dict__.get(name, _NO_DEFAULT)
        fields[name] = given if isinstance(given, Field) else Field(given)
    body = {key: value for key, value in cls.__dict__.items() if key not in own and key not in _ITS_OWN}
    body |= {"__slots__": tuple(own), "_fields": fields, "__init__": _first}
    return type(cls.__name__, cls.__bases__, body)


_ITS_OWN = ("__dict__", "__weakref__")


def _first(self: Any, *arguments: Any, **keywords: Any) -> None:
    """The `__init__` of a class of which nothing was made yet."""
    cls = type(self)
    cls.__init__ = _compiled(cls._fields)
    cls.__init__(self, *arguments, **keywords)


def _compiled(fields: dict[str, Field]) -> Any:
    known: dict[str, Any] = {"_NO_DEFAULT": _NO_DEFAULT}
    parameters, lines = ["self"], []
    for name, of in fields.items():
        value = name
        if of.default_factory is not None:
            known[f"_make_{name}"] = of.default_factory
            value = f"_make_{name}() if {name} is _NO_DEFAULT else {name}"
        elif of.default is not _NO_DEFAULT:
            known[f"_default_{name}"] = of.default
        has_default = of.default_factory is not None or of.default is not _NO_DEFAULT
        default = "_NO_DEFAULT" if of.default_factory is not None else f"_default_{name}"
        parameters.append(f"{name}={default}" if has_default else name)
        lines.append(f"    self.{name} = {value}")
    exec(f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines), known)
    return known["__init__"]
