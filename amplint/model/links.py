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
from functools import lru_cache
from typing import TYPE_CHECKING

from amplint.guard import Refusal, parse
from amplint.model import ir, outline
from amplint.model.folding import CannotRead, Folded
from amplint.model.imports import module_file
from amplint.model.outline import Place
from amplint.model.scopes import Imported, Scope
from amplint.source import Source

if TYPE_CHECKING:
    from amplint.model import Module

_MOST_LINES = 4_000
_MOST_TREES = 16
# Where one of these words stands, what is called there may matter.
_NAMES = re.compile(r"autocast|[sS]caler$|^backward$|^clip_grad|unscale|^grad$|zero_grad|optim")


def link(module: Module) -> None:
    """Take into a module what it uses of its project's other files."""
    path = os.path.abspath(module.source.filename)
    if not os.path.isfile(path):
        return
    module_file.cache_clear()  # files come and go
    names: dict[str, set[str]] = {}
    for place in _closure(path, sorted(set(_uses(module, path)))):
        names.setdefault(place.path, set()).add(place.name)
    changed = {*_changed(module, path), *(place for other in names for place in outline.changed(other))}
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
        for scope in (module.program.scope, *(each.scope for each in module.functions)):
            _bind(path, scope, taken)
        for other, program in programs.items():
            _bind(other, program.scope, taken)


def _uses(module: Module, path: str) -> Iterator[Place]:
    """What of the project is called, or inherited, where the file has to do with AMP, as far as it can matter."""
    opens_regions = "autocast" in module.source.text  # where a model's own operations may run in half precision
    for value in _concerned(module.program.body.statements):
        used = value.func if isinstance(value, ir.Call) else value
        place = _place(path, used) if used is not value or _is_base(value) or _is_asked_for(value) else None
        if place is not None and place.path != path:
            if _is_handed(value) or outline.matters(place) or (opens_regions and outline.is_class(place)):
                yield place


def _concerned(statements: list[ir.Statement]) -> Iterator[ir.Value]:
    """The values of the code that has to do with AMP: the functions and classes that say so, and those they mention."""
    defined = {each.name: each for each in statements if isinstance(each, (ir.Function, ir.Class))}
    todo = [each for each in statements if each not in defined.values()]
    todo += [each for each in defined.values() if any(_NAMES.search(ir.last_name(of)) for of in _values(each))]
    for statement in todo:  # grows
        for value in _values(statement):
            mentioned = defined.get(value.name) if isinstance(value, ir.Name) else None
            if mentioned is not None and mentioned not in todo:
                todo.append(mentioned)
            yield value


def _is_handed(value: ir.Value) -> bool:
    """Whether a call is given what it may do something to."""
    if not isinstance(value, ir.Call):
        return False
    inside = (each for arg in value.args for each in ir.walk_values(arg.value))
    return any(outline.HANDED.search(ir.last_name(each)) for each in inside)


def _values(statement: ir.Statement) -> Iterator[ir.Value]:
    for value in statement.values():
        yield from ir.walk_values(value)
    for block in statement.blocks():
        for each in ir.walk_statements(block):
            for value in each.values():
                yield from ir.walk_values(value)


def _is_asked_for(value: ir.Value) -> bool:
    """`isinstance(x, value)`."""
    call = value.parent
    return isinstance(call, ir.Call) and ir.last_name(call.func) == "isinstance" and value in call.positional[1:]


def _is_base(value: ir.Value) -> bool:
    return isinstance(value.parent, ir.Class) and any(value is base.value for base in value.parent.bases)


def _place(path: str, value: ir.Value) -> Place | None:
    """The project's function or class that a name, or an imported module's attribute, stands for."""
    name = value.base if isinstance(value, ir.Attribute) else value
    found: set[Place | str | None] = set()
    if isinstance(name, ir.Name) and (scope := name.scope.home(name.name)) is not None:
        for binding in scope.bindings[name.name]:
            found.add(_imported(path, scope, binding) if isinstance(binding, Imported) else None)
    only = found.pop() if len(found) == 1 else None
    if isinstance(value, ir.Attribute):
        only = outline.within(only, value.attr) if isinstance(only, str) else None
    return only if isinstance(only, Place) else None


def _imported(path: str, scope: Scope, binding: Imported) -> Place | str | None:
    """What an import binds, if it is the project's own: a function or class, or a module's path."""
    bound = binding.alias.asname or binding.alias.name
    if any(star.id > binding.statement.id and outline.offers(path, star.module or "", bound) for star in scope.stars):
        return None
    if binding.statement.module is not None:
        return outline.find(path, binding.statement.module, binding.alias.name)
    if binding.alias.asname is None and "." in binding.alias.name:
        return None  # it binds the first package
    return outline.find(path, binding.alias.name, "")


def _changed(module: Module, path: str) -> Iterator[Place]:
    """What the file sets of other files: `helpers.step = ...`."""
    for statement in module.statements:
        for target in statement.targets if isinstance(statement, ir.Assign) else ():
            if isinstance(target, ir.Attribute) and isinstance(target.base, ir.Name):
                for binding in module.names.bindings(target.base):
                    other = _imported(path, module.program.scope, binding) if isinstance(binding, Imported) else None
                    if isinstance(other, str):
                        yield Place(other, target.attr)


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
    text = outline.folded(path, names - changed, changed)
    tree = _parsed(path, text) if text is not None else None
    if text is None or tree is None:
        return None
    try:
        folded = Folded(text, tree, module.last_of_all)
    except CannotRead:
        return None
    module.take(Source(path, text), folded)
    return folded.program


@lru_cache(maxsize=_MOST_TREES)
def _parsed(path: str, text: str) -> ast.Module | None:
    """What is taken from a file as Python reads it: each trial of a fix takes the same. None where it can't be read."""
    tree = parse(Source(path, text))
    return None if isinstance(tree, Refusal) else tree


def _bind(path: str, scope: Scope, taken: dict[Place, ir.Function | ir.Class]) -> None:
    """Say of a scope's imports what they stand for."""
    for binding in (each for bindings in scope.bindings.values() for each in bindings if isinstance(each, Imported)):
        found = _imported(path, scope, binding)
        if isinstance(found, Place):
            binding.what = taken.get(found)
        elif found is not None:
            own = {place.name: what for place, what in taken.items() if outline.within(found, place.name) == place}
            binding.members.update(own)
