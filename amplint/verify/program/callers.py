"""What a function of the program is given by those who call it, in this file and in those that import it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Generic

from amplint.model import Module
from amplint.model.calls.external_calls import local_function, method
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Defined, Imported
from amplint.model.syntax.nesting import loop_of
from amplint.model.syntax.scopes import owner_class
from amplint.model.torch_facts.names import SCALERS
from amplint.verify.program.code_file import AnyFile, CodeFile
from amplint.verify.program.files import Files, Place
from amplint.verify.program.function_tables import Entry, Tables

_DEVICE = re.compile(r"(cpu|cuda|xpu|mps|npu|hpu)(:\d+)?$")
_DEPTH = 6  # of variables, attributes and parameters that one comes from
_OF_OBJECTS = 3  # of objects that a parameter is given, for the class that it is of
_Source = tuple[AnyFile, ir.Value]


class Callers(Generic[AnyFile]):
    """Follows parameters to what calls give them."""

    def __init__(self, files: Files[AnyFile], tables: Tables[AnyFile]) -> None:
        self._files = files
        self._tables = tables
        self._calls: dict[int, list[tuple[AnyFile, ir.Call]]] = {}
        self._active: set[int] = set()
        self.followed: dict[int, set[str]] = {}  # parameters that were, by the ids of their functions

    def called(self, code: AnyFile, call: ir.Call) -> Iterator[ir.Function]:
        """The function of another file that a call is of: by its name, of an instance in sight, or inherited."""
        place = self._files.of(code, call.func)
        if place is not None and isinstance(place.what, ir.Function):
            yield place.what
        if isinstance(call.func, ir.Attribute):
            base = call.func.base
            cls = owner_class(call.func)
            if cls is not None and method(code.module, cls, call.func.attr) is None:
                yield from self._files.inherited(code, cls, call.func.attr)
            yield from self._methods(code, base, call.func.attr)
        yield from self._methods(code, call.func, "__call__")
        yield from self.methods(code, call)

    def _methods(self, code: AnyFile, value: ir.Value, name: str) -> Iterator[ir.Function]:
        """A method of a class of another file, where a variable or attribute is given an instance of it."""
        made: list[ir.Value | None] = []
        if isinstance(value, ir.Name):
            made = [each.value for each in code.module.names.bindings(value) if isinstance(each, Assigned)]
        elif isinstance(value, ir.Attribute) and (cls := owner_class(value)) is not None:
            made = cls.stored(value.attr)
        elif isinstance(value, ir.Call):
            made = [value]
        for each in made:
            for of, source in self.made(code, each) if isinstance(each, ir.Call) else ():
                what = self._files.what(of, source.func)
                if isinstance(what, ir.Class) and self._files.owner(what) is not code:
                    yield from self._files.method(self._files.owner(what), what, name)

    def methods(self, code: AnyFile, call: ir.Call) -> Iterator[ir.Function]:
        """What a call runs of an object that is handed around: `loss_scaler(loss, optimizer)` of a parameter.

        And of what another function has made: `step(state, batch)` of a variable that holds what `make_step()` returns.
        And of an attribute of `self` in which a method is kept.
        """
        yield from self.in_tables(code, call.func)
        yield from self.kept(code, call.func)
        event = code.event(call)
        is_handed = event is not None and event.kind == "opaque"
        if call.id in self._active or not (is_handed or (event is None and _is_made(code, call.func))):
            return
        self._active.add(call.id)
        try:
            func = call.func
            wanted = [(func, "__call__")]
            if isinstance(func, ir.Attribute) and is_handed:
                wanted.append((func.base, func.attr))
            for value, name in wanted:
                for of, source in self.sources(code, value, _DEPTH):
                    yield from self._run(of, source, name)
        finally:
            self._active.discard(call.id)

    def kept(self, code: AnyFile, func: ir.Value) -> Iterator[ir.Function]:
        """The functions of the program that methods store in an attribute of `self`: `self.run = self.by_epochs`."""
        for of, stored in self.stored(code, func):
            yield from self.function_in(of, stored, _DEPTH)

    def stored(self, code: AnyFile, func: ir.Value) -> list[tuple[AnyFile, ir.Value]]:
        """What methods store in an attribute of `self`, or of what that inherits, None left out."""
        cls = owner_class(func) if isinstance(func, ir.Attribute) else None
        if cls is None or not isinstance(func, ir.Attribute):
            return []
        found = ((of, each) for of, base in self._files.bases(code, cls) for each in base.stored(func.attr))
        return [(of, each) for of, each in found if each is not None and not ir.is_none(each)]

    def function_in(self, code: AnyFile, value: ir.Value, depth: int = _DEPTH) -> Iterator[ir.Function]:
        """The functions of the program that a value is: methods, one or the other of two, what `partial` is given."""
        if not depth:
            return
        if isinstance(value, (ir.Conditional, ir.Bool)):
            arms = (value.then, value.other) if isinstance(value, ir.Conditional) else (value.left, value.right)
            for each in arms:
                yield from self.function_in(code, each, depth - 1)
        elif isinstance(value, ir.Lambda):
            yield value.function
        elif isinstance(value, ir.Call) and code.module.names.only(value.func) == "functools.partial":
            if value.positional:
                yield from self.function_in(code, value.positional[0], depth - 1)
        elif isinstance(value, (ir.Call, ir.Subscript)):
            yield from self.in_tables(code, value)
        elif isinstance(value, (ir.Name, ir.Attribute)):
            yield from self._named(code, value, depth)

    def _named(self, code: AnyFile, value: ir.Name | ir.Attribute, depth: int) -> Iterator[ir.Function]:
        what = self._files.what(code, value)
        if isinstance(what, ir.Function):
            yield what
        elif isinstance(value, ir.Name):
            for each in code.module.names.bindings(value):
                if isinstance(each, Assigned) and each.value is not value:
                    yield from self.function_in(code, each.value, depth - 1)
        elif (cls := owner_class(value)) is not None:
            yield from self._files.method(code, cls, value.attr)
            for of, stored in self.stored(code, value):
                yield from self.function_in(of, stored, depth - 1)

    def in_tables(self, code: AnyFile, func: ir.Value) -> Iterator[ir.Function]:
        """The functions of the program that a value which is taken from a table, or a variable of it, can be.

        Of a class its constructor.
        """
        for entry in self._taken(code, func):
            what = self._held(entry)
            if isinstance(what, ir.Class):
                yield from self._files.method(self._files.owner(what), what, "__init__")
            elif what is not None:
                yield what

    def is_whole(self, code: AnyFile, func: ir.Value) -> bool:
        """Whether all that a value can be which is taken from a table is in sight, or is torch's or Python's."""
        return all(
            self._held(each) is not None
            or (isinstance(each.what, ir.Value) and _is_known(each.code.module.names.of(each.what)))
            for each in self._taken(code, func)
        )

    def _held(self, entry: Entry[AnyFile]) -> ir.Function | ir.Class | None:
        """The function, method or class of the program that a table holds."""
        if isinstance(entry.what, ir.Function):
            return entry.what
        return self._files.what(entry.code, entry.what) or local_function(entry.code.module, entry.what)

    def _taken(self, code: AnyFile, func: ir.Value) -> Iterator[Entry[AnyFile]]:
        held = [func]
        if isinstance(func, ir.Name):
            held = [each.value for each in code.module.names.bindings(func) if isinstance(each, Assigned)]
        for each in held:
            yield from self._tables.entries(code, each)

    def _run(self, code: AnyFile, source: ir.Value, name: str) -> Iterator[ir.Function]:
        """The function that a value is, or the method of the instance that a call makes."""
        what = self._files.what(code, source.func if isinstance(source, ir.Call) else source)
        if isinstance(source, ir.Call) and isinstance(what, ir.Class):
            yield from self._files.method(self._files.owner(what), what, name)
        elif not isinstance(source, ir.Call) and isinstance(what, ir.Function) and name == "__call__":
            yield what

    def sources(self, code: AnyFile, value: ir.Value | None, depth: int) -> Iterator[_Source[AnyFile]]:
        """The calls and definitions that a value can come from, each with the file that it stands in."""
        if not depth or value is None:
            return
        if isinstance(value, (ir.Conditional, ir.Bool)):
            arms = (value.then, value.other) if isinstance(value, ir.Conditional) else (value.left, value.right)
            for each in arms:
                yield from self.sources(code, each, depth - 1)
        elif isinstance(value, ir.Call):
            yield from self._made(code, value, depth)
        elif isinstance(value, ir.Attribute):
            yield from self._of_attribute(code, value, depth)
        elif isinstance(value, ir.Name):
            yield from self._of_name(code, value, depth)

    def looked_at(self, code: AnyFile, value: ir.Value) -> list[_Source[AnyFile]]:
        """The sources of a value, for a question after which the step runs with its parameters as they were."""
        before = {function: {*names} for function, names in self.followed.items()}
        found = [*self.sources(code, value, _DEPTH)]
        self.followed.clear()
        self.followed.update(before)
        return found

    def made(self, code: AnyFile, call: ir.Call) -> Iterator[tuple[AnyFile, ir.Call]]:
        """The constructions that a call may be: itself, or what the function of the program that it is of returns."""
        for of, value in self._returned(code, call):
            made: ir.Value | None = value
            if isinstance(value, ir.Name):
                found = [one.value for one in of.module.names.bindings(value) if isinstance(one, Assigned)]
                made = found[0] if len(found) == 1 else None
            if isinstance(made, ir.Call):
                yield of, made

    def _made(self, code: AnyFile, call: ir.Call, depth: int) -> Iterator[_Source[AnyFile]]:
        """A call that makes an instance; of a function of the program what that returns."""
        for of, value in self._returned(code, call):
            if value is call:
                yield of, value
            else:
                yield from self.sources(of, value, depth - 1)

    def _returned(self, code: AnyFile, call: ir.Call) -> Iterator[_Source[AnyFile]]:
        """What a call of a function of the program returns, with its file; of anything else the call itself."""
        what = self._files.what(code, call.func)
        if not isinstance(what, ir.Function):
            yield code, call
            return
        for each in ir.walk_statements(what.body, into=False):
            if isinstance(each, ir.Return) and each.value is not None:
                yield self._files.owner(what), each.value

    def _of_attribute(self, code: AnyFile, value: ir.Attribute, depth: int) -> Iterator[_Source[AnyFile]]:
        cls = owner_class(value)
        if cls is not None:
            yield from self._of_class(code, cls, value.attr, depth)
            return
        place = self._files.of(code, value)
        if place is not None and place.what is None and place.name:
            yield from self._of_place(place, depth)
        elif place is not None:
            yield code, value
        elif isinstance(value.base, ir.Name):
            found = self._classes_of(code, value.base, min(depth - 1, _OF_OBJECTS))
            for owner, each in {each.id: (owner, each) for owner, each in found}.values():
                yield from self._of_class(owner, each, value.attr, depth)

    def _of_class(self, code: AnyFile, cls: ir.Class, name: str, depth: int) -> Iterator[_Source[AnyFile]]:
        """What can come of an attribute that the methods of a class store, or of what it inherits."""
        for of, base in self._files.bases(code, cls):
            for stored in base.stored(name):
                yield from self.sources(of, stored, depth - 1)

    def _classes_of(self, code: AnyFile, name: ir.Name, depth: int) -> Iterator[tuple[AnyFile, ir.Class]]:
        """The classes of the program that a parameter is an instance of, by its annotation or by what calls give it."""
        function = with_parameter(name)
        param = function.param(name.name) if function is not None else None
        if function is None or param is None or not depth:
            return
        if function.cls is not None and param is function.params[0]:
            yield code, function.cls
            return
        annotated = self._files.what(code, param.annotation) if param.annotation is not None else None
        if isinstance(annotated, ir.Class):
            yield self._files.owner(annotated), annotated
            return
        for of, given in self.given(function, name.name):
            if isinstance(given, ir.Name):
                yield from self._classes_of(of, given, depth - 1)
            for source_of, source in self.sources(of, given, depth - 1):
                what = self._files.what(source_of, source.func) if isinstance(source, ir.Call) else None
                if isinstance(what, ir.Class):
                    yield self._files.owner(what), what

    def _of_name(self, code: AnyFile, name: ir.Name, depth: int) -> Iterator[_Source[AnyFile]]:
        for each in code.module.names.bindings(name):
            if isinstance(each, Assigned) and each.value is not name:
                yield from self.sources(code, each.value, depth - 1)
            elif isinstance(each, Imported) and (place := self._variable(code, each)) is not None:
                yield from self._of_place(place, depth)
            elif isinstance(each, (Defined, Imported)):
                yield code, name
        function = with_parameter(name)
        if function is None:
            return
        for of, given in self.given(function, name.name):
            self.followed.setdefault(function.id, set()).add(name.name)
            yield from self.sources(of, given, depth - 1)

    def _variable(self, code: AnyFile, binding: Imported) -> Place[AnyFile] | None:
        """The variable of another file that an import binds."""
        place = self._files.imported(code, binding)
        return place if place is not None and place.what is None and place.name else None

    def _of_place(self, place: Place[AnyFile], depth: int) -> Iterator[_Source[AnyFile]]:
        """What a variable of another file can come from."""
        for each in place.code.module.program.scope.bindings.get(place.name, ()):
            if isinstance(each, Assigned):
                yield from self.sources(place.code, each.value, depth - 1)

    def is_scaler(self, code: AnyFile, value: ir.Value) -> bool:
        """Whether a value is a scaler: by its use in its file, or by what it comes from, in another file maybe."""
        return objects(code.module).is_scaler(value) is not None or bool(self.scalers(code, value))

    def scalers(self, code: AnyFile, value: ir.Value) -> list[tuple[AnyFile, ir.Call]]:
        """The calls that make the scaler which a value is, as far as the program shows them."""
        return [*_of_scalers(self.sources(code, value, _DEPTH))]

    def is_imported_scaler(self, code: AnyFile, value: ir.Value) -> bool:
        """Whether a value is a scaler that is a variable of another file, or is of a class that inherits torch's."""
        place = self._files.of(code, value)
        if place is None:
            return any(map(self._is_by_class, self.looked_at(code, value)))
        if place.what is not None or not place.name:
            return False
        return any(True for _ in _of_scalers(self._of_place(place, _DEPTH)))

    def _is_by_class(self, source: _Source[AnyFile]) -> bool:
        """Whether a call makes an instance of a class of the program that inherits torch's scaler."""
        of, made = source
        what = self._files.what(of, made.func) if isinstance(made, ir.Call) else None
        bases = self._files.bases(self._files.owner(what), what) if isinstance(what, ir.Class) else ()
        return any(code.module.names.of(base.value) & SCALERS for code, each in bases for base in each.bases)

    def calls(self, function: ir.Function) -> list[tuple[AnyFile, ir.Call]]:
        """The calls of a function, in its file and in those that import it; of a constructor those of its class."""
        if function.id not in self._calls:
            self._calls[function.id] = []  # a function that is given its own result comes from elsewhere
            owner = self._files.owner(function)
            wanted = function.cls if function.name == "__init__" and function.cls is not None else function
            for code in self.may_use(owner, wanted):
                found = ((code, call) for call in code.module.calls if self._is_of(code, call, wanted))
                self._calls[function.id] += found
        return self._calls[function.id]

    def given(self, function: ir.Function, name: str) -> Iterator[_Source[AnyFile]]:
        """What the calls in sight give a parameter, each with the file that it stands in."""
        for of, call in self.calls(function):
            value = argument(call, function, name)
            if value is not None:
                yield of, value

    def set_on(
        self, name: ir.Name, attribute: str, depth: int = 3
    ) -> Iterator[tuple[AnyFile, ir.Assign, ir.Call, ir.Name]]:
        """What those who call a function set an attribute of the object to that they give it; the last ones first.

        Each statement with its file, the call, and the variable by which the caller has the object.
        """
        function = with_parameter(name)
        if function is None or not depth:
            return
        for of, call in self.calls(function):
            given = argument(call, function, name.name)
            if isinstance(given, ir.Name):
                for each in reversed(_sets(of.module, given, attribute)):
                    if each.id < call.id and ir.function_of(each) is ir.function_of(call):
                        yield of, each, call, given
                yield from self.set_on(given, attribute, depth - 1)

    def gives_region(self, call: ir.Call) -> bool:
        """Whether a `with` enters what a parameter returns, and a call in sight gives that what makes a region."""
        func = call.func
        if not isinstance(call.parent, ir.With) or not isinstance(func, ir.Name):
            return False
        function = with_parameter(func)
        if function is None or not any(of.naming(value) for of, value in self.given(function, func.name)):
            return False
        self.followed.setdefault(function.id, set()).add(func.name)
        return True

    def is_device_name(self, function: ir.Function, name: str) -> bool:
        """Whether all calls in sight that give a parameter give it the name of a device: `"cuda"`, `device.type`."""
        given = [*self.given(function, name)]
        return bool(given) and all(_names_device(of, each, _DEPTH) for of, each in given)

    def is_device(self, function: ir.Function, name: str) -> bool:
        """Whether all calls in sight that give a parameter give it a `torch.device`."""
        given = [*self.given(function, name)]
        return bool(given) and all(_makes_device(of, each, _DEPTH) for of, each in given)

    def may_repeat(self, function: ir.Function, depth: int = _DEPTH) -> bool:
        """Whether one run of the program may call a function several times: in a loop, or out of sight.

        What is called nowhere may be called for each batch by a library, but not a test; nor a function which calls
        what may repeat, where that is no method: it is what a program begins with.
        """
        code = self._files.owner(function)
        own = function.cls is not None  # whatever the object is that a method is called of
        calls = {call.id: call for _, call in self.calls(function)} | {
            call.id: call
            for call in (code.module.calls if own else ())
            if isinstance(call.func, ir.Attribute) and call.func.attr == function.name
        }
        if not calls or not depth:
            return not function.name.startswith("test") and (not depth or depth == _DEPTH or own)
        around = [ir.function_of(call) for call in calls.values()]
        return any(map(loop_of, calls.values())) or any(
            each is not None and each is not function and self.may_repeat(each, depth - 1) for each in around
        )

    def made_in(self, cls: ir.Class) -> list[tuple[AnyFile, ir.Call]]:
        """The calls that make an instance of a class, or of one that inherits it, in its file and its importers."""
        owner = self._files.owner(cls)
        return [
            (code, call)
            for code in self.may_use(owner, cls)
            for call in code.module.calls
            if isinstance(what := self._files.what(code, call.func), ir.Class)
            and self.derives(self._files.owner(what), what, cls)
        ]

    def may_use(self, owner: AnyFile, wanted: ir.Function | ir.Class) -> list[AnyFile]:
        """The files in which something can be called: its own, those that import it, or a class that inherits it."""
        found = {id(each): each for each in (owner, *self._files.importing(owner))}
        for code in [*found.values()] if isinstance(wanted, ir.Class) else ():
            if code is not owner and any(self.derives(code, each, wanted) for each in _classes(code)):
                found |= {id(each): each for each in self._files.importing(code)}
        return [*found.values()]

    def derives(self, code: AnyFile, cls: ir.Class, base: ir.Function | ir.Class) -> bool:
        """Whether a class is another one, or inherits from it."""
        return any(each is base for _, each in self._files.bases(code, cls))

    def _constructs(self, code: AnyFile, call: ir.Call, cls: ir.Class) -> bool:
        """Whether a call makes an instance by the constructor of a class: its own, or that of one that inherits it."""
        func = call.func
        if isinstance(func, ir.Attribute) and func.attr == "__init__" and isinstance(func.base, ir.Call):
            around = ir.function_of(call)
            own = around.cls if around is not None else None
            is_super = code.module.names.of(func.base.func) == {"builtins.super"}
            return is_super and own is not None and own is not cls and self.derives(code, own, cls)
        what = self._files.what(code, func) if isinstance(func, (ir.Name, ir.Attribute)) else None
        if not isinstance(what, ir.Class):
            return False
        of = self._files.owner(what)
        made_by = next(self._files.method(of, what, "__init__"), None)
        return made_by is not None and made_by.cls is cls and self.derives(of, what, cls)

    def _is_of(self, code: AnyFile, call: ir.Call, wanted: ir.Function | ir.Class) -> bool:
        func = call.func
        if isinstance(wanted, ir.Class):
            return self._constructs(code, call, wanted)
        if isinstance(func, ir.Attribute) and func.attr != wanted.name:
            return False
        if not isinstance(func, (ir.Name, ir.Attribute)):
            return False
        if self._files.what(code, func) is wanted:
            return True
        if wanted.cls is None or not isinstance(func, ir.Attribute):
            return False
        return any(each is wanted for each in self.called(code, call)) or call in code.calls_of(wanted)


def _sets(module: Module, name: ir.Name, attribute: str) -> list[ir.Assign]:
    """The statements that set an attribute of a variable."""
    home = name.scope.home(name.name)
    return [
        each
        for each in module.own.near(attribute).statements
        if isinstance(each, ir.Assign)
        and each.value is not None
        and any(
            isinstance(target, ir.Attribute)
            and target.attr == attribute
            and isinstance(target.base, ir.Name)
            and target.base.name == name.name
            and target.base.scope.home(name.name) is home
            for target in each.targets
        )
    ]


def with_parameter(name: ir.Name) -> ir.Function | None:
    """The function that a variable is a parameter of."""
    function = ir.function_of(name)
    while function is not None and function.scope is not name.scope.home(name.name):
        function = function.outer
    return function if function is not None and function.param(name.name) is not None else None


def _of_scalers(sources: Iterable[_Source[AnyFile]]) -> Iterator[tuple[AnyFile, ir.Call]]:
    """Those of the calls and definitions that make a scaler."""
    for of, source in sources:
        if isinstance(source, ir.Call) and of.module.names.of(source.func) & SCALERS:
            yield of, source


def _is_made(code: CodeFile, func: ir.Value) -> bool:
    """Whether a variable, or an attribute of `self`, holds what a call returns; or it is one that is called."""
    held: list[ir.Value | None] = [func]
    if isinstance(func, ir.Name):
        held = [each.value for each in code.module.names.bindings(func) if isinstance(each, Assigned)]
    elif isinstance(func, ir.Attribute) and (cls := owner_class(func)) is not None:
        held = [*cls.stored(func.attr)]
    return any(isinstance(each, ir.Call) for each in held)


def _names_device(code: CodeFile, value: ir.Value | None, depth: int) -> bool:
    """Whether a value is a string that names a device."""
    if isinstance(value, ir.Constant):
        return isinstance(value.value, str) and bool(_DEVICE.match(value.value))
    if isinstance(value, ir.Attribute):
        return value.attr == "type" and "device" in ir.last_name(value.base).lower()
    if isinstance(value, ir.Conditional):
        return _names_device(code, value.then, depth) and _names_device(code, value.other, depth)
    if not isinstance(value, ir.Name) or not depth:
        return False
    held = code.module.names.bindings(value)
    return bool(held) and all(
        isinstance(each, Assigned) and _names_device(code, each.value, depth - 1) for each in held
    )


def _makes_device(code: CodeFile, value: ir.Value | None, depth: int) -> bool:
    """Whether a value is what `torch.device(...)` returns."""
    if isinstance(value, ir.Call):
        return code.module.names.of(value.func) == {"torch.device"}
    held = code.module.names.bindings(value) if isinstance(value, ir.Name) and depth else []
    return bool(held) and all(
        isinstance(each, Assigned) and _makes_device(code, each.value, depth - 1) for each in held
    )


def _is_known(names: frozenset[str]) -> bool:
    return any(each.startswith(("torch.", "builtins.")) for each in names)


def _classes(code: CodeFile) -> list[ir.Class]:
    return [each for each in code.module.statements if isinstance(each, ir.Class)]


def argument(call: ir.Call, function: ir.Function, name: str) -> ir.Value | None:
    """What a call gives for a parameter; None where it gives nothing, or that can't be told."""
    named = call.keyword(name)
    if named is not None:
        return named
    bound = function.cls is not None and not function.decorators
    params = [each.name for each in function.params[bound:] if each.kind == "positional"]
    at = params.index(name) if name in params else None
    if at is None or call.unpacks("*") or at >= len(call.positional):
        return None
    return call.positional[at]
