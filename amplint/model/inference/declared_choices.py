"""The texts that a value is declared to be one of: `Literal["fp32", "bf16"]`, an option's `choices`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.calls.external_calls import ancestors, local_class
from amplint.model.inference.declared_settings import Option, is_settings, option_named
from amplint.model.inference.values import option_read, parameter_read
from amplint.model.names.reaching_definitions import only_reaching
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.scopes import class_of_self, owner_class

if TYPE_CHECKING:
    from amplint.model import Module

_DEPTH = 6
# What says of a type where it is used, or that it may be None too.
_QUALIFIERS = {"Annotated", "ClassVar", "Final", "Optional", "Required", "NotRequired"}


def declared_choices(module: Module, value: ir.Value) -> tuple[str | None, ...]:
    """All that a variable or attribute can be by its declaration, None last; empty where nothing bounds it."""
    found = list(_declared(module, value))
    texts = [each for each in found if isinstance(each, str)]
    if len(texts) + sum(each is None for each in found) < len(found):
        return ()
    return (*dict.fromkeys(texts), *((None,) if texts and None in found else ()))


def _declared(module: Module, value: ir.Value) -> Iterator[object]:
    """What a value can be, as its declaration has it: literals, or `...` for what is none."""
    if isinstance(value, ir.Name):
        read = parameter_read(module, value)
        if read is not None and read[1].annotation is not None and read[1].kind not in ("*", "**"):
            yield from _annotated(module, read[1].annotation)
            if read[1].default is not None and ir.is_none(read[1].default):
                yield None
    elif isinstance(value, ir.Attribute):
        cls = class_of(module, value.base)
        annotation = _field(module, cls, value.attr) if cls is not None else None
        yield from _annotated(module, annotation) if annotation is not None else _option(module, value)


def _annotated(module: Module, annotation: ir.Value, depth: int = _DEPTH) -> Iterator[object]:
    """What an annotation lets a value be; `...` stands for anything."""
    if isinstance(annotation, ir.Quoted):
        yield from _annotated(module, annotation.value, depth)
    elif ir.is_none(annotation):
        yield None
    elif isinstance(annotation, ir.Binary) and annotation.op == "BitOr":
        yield from _annotated(module, annotation.left, depth)
        yield from _annotated(module, annotation.right, depth)
    elif isinstance(annotation, ir.Subscript) and ir.last_name(annotation.base) in ("Literal", "Union", *_QUALIFIERS):
        kind, index = ir.last_name(annotation.base), annotation.index
        items = index.items if isinstance(index, ir.Sequence) else (index,)
        if kind == "Literal":
            yield from map(_literal, items)
        else:
            for each in items if kind == "Union" else items[:1]:
                yield from _annotated(module, each, depth)
            yield from (None,) if kind == "Optional" else ()
    elif depth and (alias := _alias(module, annotation)) is not None:
        yield from _annotated(module, alias, depth - 1)
    else:
        yield ...


def _literal(value: ir.Value) -> object:
    if isinstance(value, ir.Quoted):
        return value.text
    return value.value if isinstance(value, ir.Constant) else ...


def _alias(module: Module, annotation: ir.Value) -> ir.Value | None:
    """What a name of a type stands for: `Precision = Literal["fp32", "bf16"]`, here or in another file."""
    if isinstance(annotation, ir.Name):
        bound = module.names.bound_once(annotation)
        if bound is not None:
            return bound.value
    return module.names.imported_constant(annotation) if isinstance(annotation, (ir.Name, ir.Attribute)) else None


def _field(module: Module, cls: ir.Class, name: str) -> ir.Value | None:
    """The annotation of a class's field, or of one that it inherits."""
    for each in (cls, *ancestors(module, cls)):
        for statement in each.body.statements:
            if isinstance(statement, ir.Assign) and statement.annotation is not None:
                if [ir.last_name(target) for target in statement.targets] == [name]:
                    return statement.annotation
    return None


def class_of(module: Module, value: ir.Value, depth: int = _DEPTH) -> ir.Class | None:
    """The class of the project that a value is declared, or seen, to be an object of."""
    if not depth:
        return None
    if isinstance(value, ir.Quoted):
        return class_of(module, value.value, depth)
    if isinstance(value, ir.Call):
        called = module.names.definition(value.func)
        if isinstance(called, ir.Function):
            return local_class(module, _unquoted(called.returns)) if called.returns is not None else None
        return called
    if isinstance(value, ir.Name):
        own, read = class_of_self(value), parameter_read(module, value)
        if own is not None or read is not None:
            annotation = read[1].annotation if read is not None else None
            return own or (local_class(module, _unquoted(annotation)) if annotation is not None else None)
        only = only_reaching(module.names, value)
        return class_of(module, only.value, depth - 1) if isinstance(only, Assigned) else None
    if not isinstance(value, ir.Attribute):
        return None
    cls = class_of(module, value.base, depth - 1)
    annotation = _field(module, cls, value.attr) if cls is not None else None
    if annotation is not None:
        return local_class(module, _unquoted(annotation))
    stored = cls.stored(value.attr) if cls is not None and owner_class(value) is not None else []
    inner = stored[0] if len(stored) == 1 else None
    return class_of(module, inner, depth - 1) if inner is not None else None


def _unquoted(annotation: ir.Value) -> ir.Value:
    return annotation.value if isinstance(annotation, ir.Quoted) else annotation


def option_of(module: Module, value: ir.Attribute) -> Option | None:
    """The option of the command line that an attribute is, by where it comes from or by the names of both."""
    found = option_read(module, value)
    if found is None and is_settings(value) and owner_class(value) is None:
        return option_named(module, value.attr)
    return found


def _option(module: Module, value: ir.Attribute) -> Iterator[object]:
    """The choices of an option of the command line, where the file doesn't set it otherwise."""
    found = option_of(module, value)
    if found is None or not found.choices or found.changed or found.call.keyword("nargs") is not None:
        return
    yield from (each.value for each in found.choices)
    default = found.call.keyword("default")
    if default is None or ir.is_none(default):
        required = found.call.keyword("required")
        if not (isinstance(required, ir.Constant) and required.value):
            yield None
    else:
        yield _literal(default)
