"""The files of a program: the one that is verified, and those of its project that it takes something from."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic

from amplint.base.paths import TooLargeError, contents, seen_from
from amplint.config.settings import Settings
from amplint.engine.reading import UnreadableError, read_alone
from amplint.model import Module
from amplint.model.calls.external_calls import local_class, method
from amplint.model.project.importers import importers, reaches
from amplint.model.project.link import link, name_passed_on
from amplint.model.project.module_index import home
from amplint.model.project.resolve_import import module_file
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Binding, Defined, Imported, node_of
from amplint.model.syntax.nesting import handler_of
from amplint.sources.load import load
from amplint.sources.source import Source, SourceError
from amplint.verify.program.code_file import AnyFile, CodeFile

IDS = 1 << 24  # of nodes in a file
_MOST, _LARGEST, _DEPTH = 48, 1 << 18, 5  # files, bytes of one, re-exports followed
_MOST_IMPORTERS = 8  # files that are asked what they give a function
# A file with none of these words does nothing to scaler, gradients or regions, nor says which release of torch runs.
_WORDS = re.compile(rb"autocast|[sS]caler|backward|clip_grad|unscale|zero_grad|\.step\(|accelerate|__version__")


def lowered(source: Source, last_id: int = 0) -> Module:
    """A file's text, whatever its project is set to: nothing is looked for in it.

    Raises:
        UnreadableError: it can't be parsed.
    """
    module = read_alone(source, Settings(frozenset(), isolated=True).target(source.filename), last_id)
    name_passed_on(module)
    return module


def linked(source: Source) -> Module:
    """The same with what it takes from others of its project, also from those that have nothing to do with AMP.

    Raises:
        UnreadableError, UnfoldableError: it can't be parsed.
    """
    target = Settings(frozenset(), isolated=True).target(source.filename)
    module = read_alone(source, target, fold=True)
    link(module)
    return module


@dataclass(frozen=True, slots=True)
class Place(Generic[AnyFile]):
    """What an import of this project stands for: a file's function, class or variable `name`; "": the module."""

    code: AnyFile
    name: str
    what: ir.Function | ir.Class | None


def _is_plain(code: CodeFile, value: ir.Value) -> bool:
    name = value.base if isinstance(value, ir.Attribute) else value
    member = value.attr if isinstance(value, ir.Attribute) else ""
    bindings = code.module.names.bindings(name) if isinstance(name, ir.Name) else []
    if isinstance(value, ir.Name) and not bindings:
        made_in = home(os.path.abspath(code.module.source.filename), value.name)  # by `from module import *`
        return made_in is not None and not reaches(made_in, _WORDS.search)
    return bool(bindings) and all(
        isinstance(each, Imported) and _lies_in_plain(code, each, member) for each in bindings
    )


def _lies_in_plain(code: CodeFile, binding: Imported, member: str) -> bool:
    """Whether an import takes something from a file without AMP, and from nothing that this imports; or a `member` is.

    What a package passes on is of the file that makes it.
    """
    path = _path_of(code, binding, of_module=bool(member))
    if path is None:
        return False
    made_in = home(path, member or binding.alias.name)
    return not reaches(made_in or path, _WORDS.search)


def _path_of(code: CodeFile, binding: Imported, *, of_module: bool) -> str | None:
    """The file of the project that an import takes something from, or that it is."""
    module, name = binding.statement.module, binding.alias.name
    within = [name] if module is None else [f"{module}{'' if module.endswith('.') else '.'}{name}", module]
    found = (module_file(code.module.source.filename, each) for each in (within if of_module else within[-1:]))
    return next((each for each in found if each is not None), None)


def where_all_goes_well(bindings: Sequence[Binding]) -> Sequence[Binding]:
    """The bindings of a variable without those that only handle an exception, as of a torch that lacks something."""
    return [each for each in bindings if not _handles(each)] or bindings


def _handles(binding: Binding) -> bool:
    node = node_of(binding)
    statement = ir.statement_of(node) if node is not None else None
    return statement is not None and (statement.block.role.startswith("handler") or handler_of(statement) is not None)


class Files(Generic[AnyFile]):
    """Finds what a file imports from others of the project, and reads those when something is asked for.

    `make` makes a file of the program of what it says.
    """

    def __init__(self, make: Callable[[Module], AnyFile]) -> None:
        self._make = make
        self.codes: list[AnyFile] = []
        self.is_full = False  # there are more files, which aren't read
        self.unread: dict[str, str] = {}  # files that something was asked of, and why they are out of sight
        self._by_path: dict[str, AnyFile | None] = {}
        self._values: dict[int, Place[AnyFile] | None] = {}
        self._places: dict[tuple[int, int], Place[AnyFile] | None] = {}
        self._importing: dict[int, list[AnyFile]] = {}

    @property
    def main(self) -> AnyFile:
        """The file that is verified."""
        return self.codes[0]

    def owner(self, node: ir.Node) -> AnyFile:
        """The file that a node is of."""
        return self.codes[node.id // IDS]

    def imported(self, code: AnyFile, binding: Imported) -> Place[AnyFile] | None:
        """What an import binds, if it is of this project and has to do with AMP."""
        key = id(code), id(binding)
        if key not in self._places:
            self._places[key] = self._find(code, binding, _DEPTH)
        return self._places[key]

    def of(self, code: AnyFile, value: ir.Value) -> Place[AnyFile] | None:
        """The same of a name, or of an attribute of an imported module."""
        if value.id not in self._values:
            self._values[value.id] = self._place(code, value)
        return self._values[value.id]

    def _place(self, code: AnyFile, value: ir.Value) -> Place[AnyFile] | None:
        if isinstance(value, ir.Attribute):
            module = self.of(code, value.base) or self._submodule(code, value.base)
            return self._in(module.code, value.attr, _DEPTH) if module is not None and not module.name else None
        if not isinstance(value, ir.Name):
            return None
        if value.scope.home(value.name) is None:
            return self.passed_on(code, value.name)
        found = [self.imported(code, each) for each in code.module.names.bindings(value) if isinstance(each, Imported)]
        return next((each for each in found if each is not None), None)

    def _submodule(self, code: AnyFile, value: ir.Value) -> Place[AnyFile] | None:
        """The module that `a.b` is behind `import a.b`."""
        parts: list[str] = []
        base = value
        while isinstance(base, ir.Attribute):
            parts.insert(0, base.attr)
            base = base.base
        if not isinstance(base, ir.Name) or not parts:
            return None
        dotted = ".".join([base.name, *parts])
        for each in code.module.names.bindings(base):
            if isinstance(each, Imported) and each.statement.module is None and each.alias.asname is None:
                if any(alias.name == dotted for alias in each.statement.aliases):
                    of = self._read(code, dotted)
                    return Place(of, "", None) if of is not None else None
        return None

    def what(self, code: AnyFile, value: ir.Value) -> ir.Function | ir.Class | None:
        """The function or class of the program that a value is, of this file or another."""
        found = code.module.names.definition(value)
        if isinstance(found, (ir.Function, ir.Class)):
            return found
        place = self.of(code, value)
        return place.what if place is not None else None

    def bases(self, code: AnyFile, cls: ir.Class, depth: int = _DEPTH) -> Iterator[tuple[AnyFile, ir.Class]]:
        """A class and what it inherits in the program, each with its file."""
        yield code, cls
        for base in cls.bases if depth else ():
            found = local_class(code.module, base.value)
            place = self.of(code, base.value)
            if found is not None:
                yield from self.bases(code, found, depth - 1)
            elif place is not None and isinstance(place.what, ir.Class):
                yield from self.bases(place.code, place.what, depth - 1)

    def is_plain(self, code: AnyFile, value: ir.Value) -> bool:
        """Whether a name, or an attribute of a module, is of a file of the project that has nothing to do with AMP."""
        return code.known(_is_plain, value)

    def why_unread(self, code: AnyFile, value: ir.Value) -> str:
        """Why the file that a name, or an attribute of a module, is of is out of sight, with its path; else ""."""
        name = value.base if isinstance(value, ir.Attribute) else value
        for each in code.module.names.bindings(name) if isinstance(name, ir.Name) else ():
            path = _path_of(code, each, of_module=name is not value) if isinstance(each, Imported) else None
            if path in self.unread:
                return f"{seen_from(path, code.module.source.filename)} is not read: {self.unread[path]}"
        return ""

    def importing(self, code: AnyFile) -> list[AnyFile]:
        """The other files of the project that import one."""
        if id(code) not in self._importing:
            paths = islice(importers(os.path.abspath(code.module.source.filename)), _MOST_IMPORTERS)
            found = [self._at(each) for each in paths]
            self._importing[id(code)] = [each for each in found if each is not None and each is not code]
        return self._importing[id(code)]

    def method(self, code: AnyFile, cls: ir.Class, name: str, depth: int = _DEPTH) -> Iterator[ir.Function]:
        """The method of a class of the program, its own or inherited."""
        found = method(code.module, cls, name)
        yield from [found] if found is not None else self.inherited(code, cls, name, depth)

    def inherited(self, code: AnyFile, cls: ir.Class, name: str, depth: int = _DEPTH) -> Iterator[ir.Function]:
        """A method that a class has from one of another file."""
        for base in cls.bases:
            place = self.of(code, base.value)
            if place is not None and isinstance(place.what, ir.Class) and depth:
                yield from self.method(place.code, place.what, name, depth - 1)

    def _find(self, code: AnyFile, binding: Imported, depth: int) -> Place[AnyFile] | None:
        module, name = binding.statement.module, binding.alias.name
        if module is None:
            if binding.alias.asname is None and "." in name:
                return None  # `import a.b` binds `a`
            of = self._read(code, name)
            return Place(of, "", None) if of is not None else None
        of = self._read(code, module)
        if of is not None and (place := self._in(of, name, depth)) is not None:
            return place
        if of is not None and name in of.module.program.scope.bindings:
            return None
        of = self._read(code, f"{module}{'' if module.endswith('.') else '.'}{name}")
        return Place(of, "", None) if of is not None else None

    def _in(self, code: AnyFile, name: str, depth: int) -> Place[AnyFile] | None:
        bindings = code.module.program.scope.bindings.get(name, ())
        usual = where_all_goes_well(bindings)
        for each in reversed(usual):
            if isinstance(each, Defined):
                return Place(code, name, each.what)
            if isinstance(each, Imported):
                found = self._find(code, each, depth - 1) if depth else None
                # With a fallback it is a variable, which is a library's where all goes well.
                return found or (Place(code, name, None) if len(usual) < len(bindings) else None)
            return Place(code, name, None) if isinstance(each, Assigned) else None
        return self.passed_on(code, name, depth)

    def passed_on(self, code: AnyFile, name: str, depth: int = _DEPTH) -> Place[AnyFile] | None:
        """What a file has of another one by `from module import *`."""
        for each in reversed(code.module.program.scope.stars if depth and not name.startswith("_") else ()):
            of = self._read(code, each.module or "")
            place = self._in(of, name, depth - 1) if of is not None else None
            if place is not None:
                return place
        return None

    def _read(self, code: AnyFile, module: str) -> AnyFile | None:
        path = module_file(code.module.source.filename, module)
        return self._at(path) if path is not None else None

    def _at(self, path: str) -> AnyFile | None:
        if path == os.path.abspath(self.main.module.source.filename):
            return self.main  # as it is verified: with fixes, maybe
        if path not in self._by_path:
            self._by_path[path] = self._lowered(path)
        return self._by_path[path]

    def _lowered(self, path: str) -> AnyFile | None:
        if len(self.codes) > _MOST:
            self.is_full = True
            return None
        try:
            data = contents(path, _LARGEST)
            # A package's own file may only pass on what others have, and a script only call it.
            if not (path.endswith("__init__.py") or reaches(path, _WORDS.search)):
                return None
            return self._make(lowered(load(data, path), IDS * len(self.codes)))
        except TooLargeError:
            why = f"the file has more than {_LARGEST >> 10} KiB"
        except OSError as error:
            why = f"the file can't be read: {error.strerror or error}"
        except (SourceError, UnreadableError):
            why = "the file can't be parsed"
        self.unread[path] = why
        return None
