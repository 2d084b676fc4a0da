"""Takes functions and classes from other files of the project into a module: those that it calls, makes or inherits.

What is taken is part of the module's `whole` and stands behind the file's own text; readers follow a call into it as
they follow one into the file itself. It is resolved from disk, whichever files are linted, so that a file's findings
are the same by itself and with its project. What can't be resolved stays what it was: out of sight.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model import ir, outline
from amplint.model.folding import CannotRead, Folded
from amplint.model.outline import Place
from amplint.model.scopes import Imported, Scope
from amplint.source import LINE_END, Source

if TYPE_CHECKING:
    from amplint.model import Module

_Imports = dict[str, set[tuple[str, str] | None]]  # names, and what imports make of them (`outline.imported`)
_MOST_LINES = 4_000
# Where one of these words stands, what is called there may matter.
_NAMES = re.compile(r"autocast|[sS]caler\b|\bbackward\b|clip_grad|unscale|\bgrad\b|zero_grad|optim")


def link(module: Module) -> None:
    """Take into a module what it uses of its project's other files."""
    path = os.path.abspath(module.source.filename)
    if not os.path.isfile(path):
        return
    outline.look_again()
    tree = module.folded.tree or ast.parse(module.source.text)
    imports = _imports(tree)
    names: dict[str, set[str]] = {}
    for place in _closure(path, sorted(set(_uses(module, path, tree, imports)))):
        names.setdefault(place.path, set()).add(place.name)
    changed = {*_changed(module, path, tree, imports), *(place for other in names for place in outline.changed(other))}
    programs = {}
    for other, of in names.items():
        program = _take(module, other, of, {place.name for place in changed if place.path == other})
        if program is not None:
            programs[other] = program
    taken = {
        Place(other, each.name): each
        for other, program in programs.items()
        for each in program.body.statements
        if isinstance(each, (ir.Function, ir.Class))
    }
    if taken:
        module.folded.on_import(lambda scope: _bind(path, scope, taken))
        for other, program in programs.items():
            _bind(other, program.scope, taken)


def _imports(tree: ast.Module) -> _Imports:
    """What a file's imports, those in functions too, make of names."""
    imports: _Imports = {}
    for statement in _statements(tree):
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            for name, meaning in outline.bound_by(statement):
                imports.setdefault(name, set()).add(meaning)
    return imports


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements below a node, with the handlers and cases that hold some: expressions are most of a tree."""
    for name in ("body", "handlers", "cases", "orelse", "finalbody"):
        for each in getattr(node, name, ()):
            yield each
            yield from _statements(each)


def _uses(module: Module, path: str, tree: ast.Module, imports: _Imports) -> Iterator[Place]:
    """What of the project is called, or inherited, where the file has to do with AMP, as far as it can matter."""
    opens_regions = "autocast" in module.source.text  # where a model's own operations may run in half precision
    for node in (each for statement in _concerned(tree.body, module.source.text) for each in ast.walk(statement)):
        for used in _used(node):
            found = _place(path, used, imports)
            if found is not None and found.path != path:
                handed = isinstance(node, ast.Call) and outline.is_handed(node)
                if handed or outline.matters(found) or (opens_regions and outline.is_class(found)):
                    yield found


def _concerned(statements: list[ast.stmt], text: str) -> list[ast.stmt]:
    """The code that has to do with AMP: the functions and classes that say so, and those they mention."""
    lines = LINE_END.split(text)
    defined = {each.name: each for each in statements if isinstance(each, outline.DEFINED)}
    todo = [each for each in statements if not isinstance(each, outline.DEFINED)]
    todo += [each for each in defined.values() if _NAMES.search("\n".join(lines[each.lineno - 1 : each.end_lineno]))]
    for statement in todo:  # grows
        for node in ast.walk(statement):
            mentioned = defined.get(node.id) if isinstance(node, ast.Name) else None
            if mentioned is not None and mentioned not in todo:
                todo.append(mentioned)
    return todo


def _used(node: ast.AST) -> list[ast.expr]:
    """What a node calls, inherits, or asks for by `isinstance`."""
    if isinstance(node, ast.ClassDef):
        return node.bases
    if isinstance(node, ast.Call):
        return [node.func, *(node.args[1:] if outline.last_word(node.func) == "isinstance" else ())]
    return []


def _place(path: str, used: ast.expr, imports: _Imports) -> Place | None:
    """The project's function or class that a name, or an imported module's attribute, stands for."""
    name = used.value if isinstance(used, ast.Attribute) else used
    bound = imports.get(name.id, ()) if isinstance(name, ast.Name) else ()
    found = {outline.find(path, *each) if each is not None else None for each in bound}
    only = found.pop() if len(found) == 1 else None
    if isinstance(used, ast.Attribute):
        only = outline.within(only, used.attr) if isinstance(only, str) else None
    return only if isinstance(only, Place) else None


def _imported(path: str, scope: Scope, binding: Imported) -> Place | str | None:
    """What an import surely binds, if it is the project's own: a function or class, or a module's path."""
    bound = binding.alias.asname or binding.alias.name
    if any(star.id > binding.statement.id and outline.offers(path, star.module or "", bound) for star in scope.stars):
        return None
    meaning = outline.imported(binding.statement.module, binding.alias.name, binding.alias.asname)
    return outline.find(path, *meaning) if meaning is not None else None


def _changed(module: Module, path: str, tree: ast.Module, imports: _Imports) -> Iterator[Place]:
    """What the file sets of other files: `helpers.step = ...`."""
    for name, attribute in outline.sets(module.source.text, tree, imports):
        for meaning in imports[name]:
            other = outline.find(path, *meaning) if meaning is not None else None
            if isinstance(other, str):
                yield Place(other, attribute)


def _closure(own: str, places: list[Place]) -> list[Place]:
    """The functions and classes that some mention, with those, as far as they matter; the nearest first."""
    seen, found = set(places), []
    lines = 0
    for place in (todo := list(places)):  # grows
        of = outline.outline(place.path)
        lines += of.units[place.name].last - of.units[place.name].first if of is not None else 0
        if lines > _MOST_LINES:
            break
        found.append(place)
        more = [
            each
            for each, handed in outline.targets(place)
            if each not in seen and each.path != own and (handed or outline.matters(each))
        ]
        seen.update(more)
        todo += more
    return found


def _take(module: Module, path: str, names: set[str], changed: set[str]) -> ir.Program | None:
    """Lower some of a file's functions and classes into the module; None where they can't be read."""
    of = outline.taken(path, names - changed, changed)
    if of is None:
        return None
    try:
        folded = Folded(*of, module.last_of_all)
    except CannotRead:
        return None
    module.take(Source(path, of[0]), folded)
    return folded.program


def _bind(path: str, scope: Scope, taken: dict[Place, ir.Function | ir.Class]) -> None:
    """Say of a scope's imports what they stand for."""
    for binding in (each for bindings in scope.bindings.values() for each in bindings if isinstance(each, Imported)):
        found = _imported(path, scope, binding)
        if isinstance(found, Place):
            binding.what = taken.get(found)
        elif found is not None:
            own = {place.name: what for place, what in taken.items() if outline.within(found, place.name) == place}
            binding.members.update(own)
