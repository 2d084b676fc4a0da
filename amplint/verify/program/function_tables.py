"""What is taken from a table of functions: `STEPS[name]`, `STEPS.get(name)`, `getattr(self, f"step_{name}")`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic

from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.scopes import class_of_self, owner_class
from amplint.verify.program.code_file import AnyFile, CodeFile
from amplint.verify.program.files import Files

_ANY = object()  # a key that isn't known


@dataclass(frozen=True, slots=True)
class Entry(Generic[AnyFile]):
    """One of what a table holds, in the file that says so; `key` says which, in words; `constant` is the key itself."""

    code: AnyFile
    key: str
    what: ir.Value | ir.Function
    constant: str | int | None = None  # None: it isn't known, or is something else


@dataclass(frozen=True, slots=True)
class _Table(Generic[AnyFile]):
    """A table's file, the displays that it is made by, and the name of the file's variable; "": no variable has it."""

    code: AnyFile
    made: list[ir.Value]
    name: str = ""


class Tables(Generic[AnyFile]):
    """Finds what tables of the program hold: by a display, by what is stored in them, by decorators that store."""

    def __init__(self, files: Files[AnyFile]) -> None:
        self._files = files
        self._known: dict[int, list[Entry[AnyFile]]] = {}

    def entries(self, code: AnyFile, value: ir.Value) -> list[Entry[AnyFile]]:
        """What a value that is taken from a table can be; none where it is no such value, or that isn't in sight."""
        if value.id not in self._known:
            self._known[value.id] = []  # what is made of the table itself comes from elsewhere
            self._known[value.id] = list(self._find(code, value))
        return self._known[value.id]

    def _find(self, code: AnyFile, value: ir.Value) -> Iterator[Entry[AnyFile]]:
        if isinstance(value, ir.Call) and code.module.names.of(value.func) == {"builtins.getattr"}:
            if len(value.positional) > 1:
                yield from self._attributes(code, value.positional[0], value.positional[1])
            return
        taken = asked_of(value)
        if taken is None:
            return
        base, index = taken
        table = self._table(code, base)
        wanted = index.value if isinstance(index, ir.Constant) else _ANY
        for of, key, what in self._held(table) if table is not None else ():
            if wanted is _ANY or key is _ANY or key == wanted:
                name = what.name if isinstance(what, ir.Function) else of.text(what)
                constant = key if isinstance(key, (str, int)) else None
                yield Entry(of, name if key is _ANY else repr(key), what, constant)

    def _attributes(self, code: AnyFile, base: ir.Value, name: ir.Value) -> Iterator[Entry[AnyFile]]:
        """The functions of a module of the project, or methods of `self`, whose names fit one that is partly fixed."""
        pattern = _pattern(name)
        if pattern is None:
            return
        place = self._files.of(code, base)
        cls = class_of_self(base) if place is None and isinstance(base, ir.Name) else None
        if place is not None and not place.name:
            found = [(place.code, each) for each in place.code.module.functions if each.outer is None and not each.cls]
        else:
            bases = self._files.bases(code, cls) if cls is not None else ()
            found = [(of, each) for of, one in bases for each in one.body.statements if isinstance(each, ir.Function)]
        yield from (Entry(of, each.name, each) for of, each in found if pattern.fullmatch(each.name))

    # --- which table

    def _table(self, code: AnyFile, base: ir.Value) -> _Table[AnyFile] | None:
        if isinstance(base, ir.Mapping):
            return _Table(code, [base])
        place = self._files.of(code, base)
        if place is not None:
            return self._variable(place.code, place.name) if place.what is None and place.name else None
        if isinstance(base, ir.Attribute) and (cls := owner_class(base)) is not None:
            own = [*cls.stored(base.attr), *_of_body(cls, base.attr)]
            return _Table(code, [each for each in own if each is not None])
        if not isinstance(base, ir.Name):
            return None
        if base.scope.home(base.name) is code.module.program.scope:
            return self._variable(code, base.name)
        return _Table(code, [each.value for each in code.module.names.bindings(base) if isinstance(each, Assigned)])

    @staticmethod
    def _variable(code: AnyFile, name: str) -> _Table[AnyFile]:
        bindings = code.module.program.scope.bindings.get(name, ())
        return _Table(code, [each.value for each in bindings if isinstance(each, Assigned)], name)

    # --- what it holds

    def _held(self, table: _Table[AnyFile]) -> Iterator[tuple[AnyFile, object, ir.Value | ir.Function]]:
        """What a table holds, with the file that says so, and the key."""
        for each in table.made:
            for key, what in each.items if isinstance(each, ir.Mapping) else ():
                yield table.code, _constant(key), what
            if isinstance(each, ir.Sequence):
                yield from ((table.code, at, what) for at, what in enumerate(each.items))
        for code in (table.code, *self._files.importing(table.code)) if table.name else ():
            for target, value in _stores(code):
                if self._is_table(code, target.base, table):
                    yield from self._stored(code, target.index, value)

    def _is_table(self, code: AnyFile, base: ir.Value, table: _Table[AnyFile]) -> bool:
        if code is table.code:
            scope = code.module.program.scope
            return ir.is_variable(base, table.name) and base.scope.home(base.name) is scope
        place = self._files.of(code, base)
        return place is not None and place.code is table.code and place.name == table.name

    def _stored(
        self, code: AnyFile, index: ir.Value, value: ir.Value
    ) -> Iterator[tuple[AnyFile, object, ir.Value | ir.Function]]:
        """What is stored in a table: a parameter of a function is what that decorates, or is called with."""
        registrar = ir.function_of(value)
        if registrar is None or not isinstance(value, ir.Name) or registrar.param(value.name) is None:
            yield code, _constant(index), value
            return
        own = self._files.owner(registrar)
        for of in (own, *self._files.importing(own)):
            for function in of.module.functions:
                for each in function.decorators:
                    if self._is_by(of, each, registrar):
                        yield of, _key(index, function, each), function

    def _is_by(self, code: AnyFile, decorator: ir.Value, registrar: ir.Function) -> bool:
        """Whether a decorator is a function, or what the one around it returns."""
        called = isinstance(decorator, ir.Call)
        named = decorator.func if isinstance(decorator, ir.Call) else decorator
        what = self._files.what(code, named)
        return what is not None and what is (registrar.outer if called else registrar)


def asked_of(value: ir.Value) -> tuple[ir.Value, ir.Value] | None:
    """The table and the key of what is taken from one: `table[key]`, `table.get(key)`."""
    if isinstance(value, ir.Subscript):
        return value.base, value.index
    if isinstance(value, ir.Call) and isinstance(value.func, ir.Attribute) and value.func.attr == "get":
        return (value.func.base, value.positional[0]) if value.positional else None
    return None


def _stores(code: CodeFile) -> list[tuple[ir.Subscript, ir.Value]]:
    """The assignments to items of a file."""
    return [
        (target, each.value)
        for each in code.module.statements
        if isinstance(each, ir.Assign) and each.value is not None
        for target in each.targets
        if isinstance(target, ir.Subscript)
    ]


def _of_body(cls: ir.Class, name: str) -> Iterator[ir.Value]:
    """What the body of a class assigns to a name."""
    for each in cls.body.statements:
        if isinstance(each, ir.Assign) and each.value is not None:
            if any(ir.is_variable(target, name) for target in each.targets):
                yield each.value


def _constant(key: ir.Value | None) -> object:
    return key.value if isinstance(key, ir.Constant) else _ANY


def _key(index: ir.Value, function: ir.Function, decorator: ir.Value) -> object:
    """The key under which a decorator stores a function: that one's name, or what the decorator is given first."""
    if isinstance(index, ir.Attribute) and index.attr == "__name__":
        return function.name
    given = decorator.positional if isinstance(decorator, ir.Call) else ()
    return _constant(given[0]) if given and isinstance(index, ir.Name) else _ANY


def _pattern(name: ir.Value) -> re.Pattern[str] | None:
    """The names that a text can be which is fixed at least in part."""
    parts = name.parts if isinstance(name, ir.FString) else (name,)
    fixed = [each.value if isinstance(each, ir.Constant) and isinstance(each.value, str) else None for each in parts]
    if not any(each and not each.isspace() for each in fixed):
        return None
    return re.compile("".join(r"\w*" if each is None else re.escape(each) for each in fixed))
