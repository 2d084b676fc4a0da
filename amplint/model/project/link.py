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
from functools import partial
from typing import TYPE_CHECKING

from amplint.base.reads import is_file
from amplint.model.project import module_index
from amplint.model.project.module_index import Place
from amplint.model.syntax import ir, text_scan
from amplint.model.syntax.ir import Assigned, Imported, Scope
from amplint.model.syntax.lazy_lowering import CannotRead, Folded
from amplint.sources.parsing import parsed
from amplint.sources.source import Source, lines_of

if TYPE_CHECKING:
    from amplint.model import Module

    _What = ir.Function | ir.Class | Assigned

_Imports = dict[str, set[tuple[str, str] | None]]  # names, and what imports make of them (`outline.imported`)
_Stars = dict[str, str]  # the names that star imports bind, and the module of each
_MOST_LINES = 4_000
# What files of a project import for others: `from compat import autocast, GradScaler`.
_PASSED_ON = (
    "GradScaler", "ShardedGradScaler", "autocast", "clip_grad_norm_", "clip_grad_value_", "torch", "th", "nn", "F",
)  # fmt: skip
# Modules that a file passes on: their attributes are torch's, wherever they are written.
_MODULES = frozenset(("torch", "torch.nn", "torch.nn.functional", "torch.optim"))
_CLASS = re.compile(r"class(?<!\wclass)[\s\\]")
# What is registered as a hook of gradients.
_HOOKED = re.compile(r"\bregister_(?:post_accumulate_grad_)?hook\(\s*(\w+)(?:\.(\w+))?\s*\)")
# Where one of these words stands, what is called there may matter.
_NAMES = re.compile(r"autocast|[sS]caler\b|\bbackward\b|clip_grad|unscale|\bgrad\b|zero_grad|optim|TrainingArguments")
# Quicker to look for: each has one in it.
_ROOTS = ("autocast", "caler", "backward", "grad", "unscale", "optim", "TrainingA")


def name_passed_on(module: Module) -> None:
    """Say of a module's imports which of AMP's names, and torch's modules, other files only pass on to it."""
    path = os.path.abspath(module.source.filename)
    if is_file(path):
        _name_passed_on(module, path, module.folded.tree or parsed(module.source.text))


def _name_passed_on(module: Module, path: str, tree: ast.Module) -> _Stars:
    """The same; the names that star imports bind."""
    stars = module_index.of_stars(path, tree, module.source.text)
    module.folded.on_import(lambda scope: _bind_passed_on(path, scope, stars, module.source.text))
    return stars


def link(module: Module) -> None:
    """Take into a module what it uses of its project's other files."""
    path = os.path.abspath(module.source.filename)
    if not is_file(path):
        return
    tree = module.folded.tree or parsed(module.source.text)
    stars = _name_passed_on(module, path, tree)
    imports = _imports(tree)
    imports.update((name, {(of, name)}) for name, of in stars.items() if name not in imports)
    concerned = list(_concerned(tree.body, module.source.text))
    constants = set(_constants(path, concerned, imports))
    renamed = filter(None, map(module_index.class_named_by, constants))
    used = sorted({*_uses(module, path, concerned, imports), *renamed})
    if not used and not constants:
        return
    names: dict[str, set[str]] = {place.path: set() for place in sorted(constants)}
    for place in _closure(path, used):
        names.setdefault(place.path, set()).add(place.name)
    # What something sets of another file, as in `helpers.step = ...`, is not what stands there.
    own = module_index.sets(module.source.text, imports, lambda name: _module(path, imports[name]))
    changed = {*own, *(place for other in names for place in module_index.changed(other))}
    files = _files(module, names, constants, changed)
    taken = _taken({other: folded.program for other, folded in files.items()}, constants)
    if taken:
        module.folded.on_import(lambda scope: _bind(path, scope, taken, stars, module.source.text))
        for other, folded in files.items():
            of = module_index.outline(other)
            text = of.source.text if of is not None else ""
            folded.on_import(partial(_bind, other, taken=taken, stars=module_index.of_own_stars(other), text=text))


def _files(module: Module, names: dict[str, set[str]], constants: set[Place], changed: set[Place]) -> dict[str, Folded]:
    """The files that can be read, with what the module takes of them."""
    files = {}
    for other, of in names.items():
        own_constants = {place.name for place in constants if place.path == other}
        folded = _take(module, other, of, own_constants, {place.name for place in changed if place.path == other})
        if folded is not None:
            files[other] = folded
    return files


def _taken(programs: dict[str, ir.Program], constants: set[Place]) -> dict[Place, _What]:
    """The functions, classes and constants that were taken from some files."""
    taken: dict[Place, _What] = {
        Place(other, each.name): each
        for other, program in programs.items()
        for each in program.body.statements
        if isinstance(each, (ir.Function, ir.Class))
    }
    for place in constants:
        only = _only_binding(programs[place.path], place.name) if place.path in programs else None
        if only is not None:
            taken[place] = only
    return taken


def _only_binding(program: ir.Program, name: str) -> Assigned | None:
    """What sets a variable at the top of a file, where nothing else does."""
    bindings = program.scope.bindings.get(name, [])
    only = bindings[0] if len(bindings) == 1 else None
    return only if isinstance(only, Assigned) else None


def is_idle(module: Module, value: ir.Value) -> bool:
    """Whether what is called is a function of another file of the project that has nothing to do with gradients."""
    attribute = value.attr if isinstance(value, ir.Attribute) else ""
    name = value.base if isinstance(value, ir.Attribute) else value
    only = module.names.only_binding(name) if isinstance(name, ir.Name) else None
    path = os.path.abspath(module.source.filename)
    if not isinstance(only, Imported) or not module.is_own(only.statement) or not is_file(path):
        return False
    meaning = module_index.imported(only.statement.module, only.alias.name, only.alias.asname)
    found = _place(path, name.name, attribute, {name.name: {meaning}}) if isinstance(name, ir.Name) else None
    return found is not None and not module_index.is_class(found) and not module_index.matters(found)


def _imports(tree: ast.Module) -> _Imports:
    """What a file's imports, those in functions too, make of names."""
    imports: _Imports = {}
    for statement in module_index.statements(tree):
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            for name, meaning in module_index.bound_by(statement):
                imports.setdefault(name, set()).add(meaning)
    return imports


def _constants(path: str, concerned: list[tuple[ast.stmt, str]], imports: _Imports) -> Iterator[Place]:
    """The constants of the project that are mentioned where the file has to do with AMP."""
    for name, attribute in {each for _, text in concerned for each in text_scan.mentions(text) if each[0] in imports}:
        meaning = next(iter(imports[name])) if len(imports[name]) == 1 else None
        if meaning is not None and bool(meaning[1]) is not bool(attribute):
            found = module_index.constant(path, meaning[0], meaning[1] or attribute)
            if found is not None:
                yield found


def _uses(module: Module, path: str, concerned: list[tuple[ast.stmt, str]], imports: _Imports) -> Iterator[Place]:
    """What of the project is called, or inherited, where the file has to do with AMP, as far as it can matter."""
    opens_regions = "autocast" in module.source.text  # where a model's own operations may run in half precision
    for statement, text in concerned:
        used = text_scan.called(text).union(map(_words, _inherited(statement, text)))
        places = {each: _place(path, *each, imports) for each in used if each[0] in imports}
        yield from _settings(path, text, imports) if opens_regions else ()
        for each in {(name, attribute) for name, attribute in _HOOKED.findall(text) if name in imports}:
            place = _place(path, *each, imports)
            if place is not None and place.path != path and not module_index.is_class(place):
                yield place
        of_others = {each: place for each, place in places.items() if place is not None and place.path != path}
        for each in [each for each, place in of_others.items() if _matters(place, opens_regions)]:
            yield of_others.pop(each)
        for call in ast.walk(statement) if text_scan.may_hand(text, of_others) else ():
            if isinstance(call, ast.Call) and _words(call.func) in of_others and text_scan.is_handed(call):
                yield of_others[_words(call.func)]


def _inherited(statement: ast.stmt, text: str) -> Iterator[ast.expr]:
    """What the classes inherit that a statement is or holds."""
    inside = module_index.statements(statement) if _CLASS.search(text, text.find("\n") + 1) else ()
    return (base for each in (statement, *inside) for base in getattr(each, "bases", ()))


def _settings(path: str, text: str, imports: _Imports) -> Iterator[Place]:
    """The classes of settings that a text mentions, and the functions that may return one."""
    for name, attribute in text_scan.mentions(text):
        place = _place(path, name, "", imports) if name in imports else None
        place = place or (_place(path, name, attribute, imports) if name in imports and attribute else None)
        if place is not None and place.path != path:
            if module_index.tells_settings(place) or module_index.tells_choices(place):
                yield place


def _matters(place: Place, opens_regions: bool) -> bool:
    of_a_model = opens_regions and (module_index.is_class(place) or module_index.takes_apart(place))
    return of_a_model or module_index.matters(place) or module_index.gives_torch(place)


def _module(path: str, meanings: set[tuple[str, str] | None]) -> str | None:
    return next((found for each in meanings if (found := module_index.module_of(path, each)) is not None), None)


def _concerned(statements: list[ast.stmt], text: str) -> Iterator[tuple[ast.stmt, str]]:
    """The code that has to do with AMP: the functions and classes that say so, and those they mention; its text."""
    lines = lines_of(text)
    texts = {id(each): "\n".join(lines[each.lineno - 1 : each.end_lineno]) for each in statements}
    defined = {each.name: each for each in statements if isinstance(each, module_index.DEFINED)}
    todo = [each for each in statements if not isinstance(each, module_index.DEFINED)]
    todo += [each for each in defined.values() if text_scan.has(texts[id(each)], _NAMES, _ROOTS)]
    seen = {id(each) for each in todo}
    for statement in todo:  # grows
        yield statement, texts[id(statement)]
        for name, _ in text_scan.mentions(texts[id(statement)]):
            mentioned = defined.get(name)
            if mentioned is not None and id(mentioned) not in seen:
                seen.add(id(mentioned))
                todo.append(mentioned)


def _words(used: ast.expr) -> tuple[str, str]:
    """A name and its attribute as `written.mentions` has them; empty where it is something else."""
    if isinstance(used, ast.Attribute) and isinstance(used.value, ast.Name):
        return used.value.id, used.attr
    return used.id if isinstance(used, ast.Name) else "", ""


def _place(path: str, name: str, attribute: str, imports: _Imports) -> Place | None:
    """The project's function or class that a name, or an imported module's attribute, stands for."""
    found = {module_index.find(path, *each) if each is not None else None for each in imports[name]}
    only = found.pop() if len(found) == 1 else None
    if attribute:
        only = module_index.within(only, attribute) if isinstance(only, str) else None
    return only if isinstance(only, Place) else None


def _imported(path: str, scope: Scope, binding: Imported, paths: set[str]) -> Place | str | None:
    """What an import surely binds of the project's own: a function or class of some files, or a module's path."""
    meaning = module_index.imported(binding.statement.module, binding.alias.name, binding.alias.asname)
    found = module_index.find(path, *meaning, among=paths) if meaning is not None else None
    bound = binding.alias.asname or binding.alias.name
    if found and any(
        star.id > binding.statement.id and module_index.offers(path, star.module or "", bound) for star in scope.stars
    ):
        return None
    return found


def _closure(own: str, places: list[Place]) -> list[Place]:
    """The functions and classes that some mention, with those, as far as they matter; the nearest first."""
    seen, found = set(places), []
    lines = 0
    for place in (todo := list(places)):  # grows
        of = module_index.outline(place.path)
        lines += of.units[place.name].last - of.units[place.name].first if of is not None else 0
        if lines > _MOST_LINES:
            break
        found.append(place)
        more = [
            each
            for each, mention in module_index.targets(place)
            if each not in seen
            and each.path != own
            and (_matters(each, False) or module_index.hands(place, mention) or _told(place, each))
        ]
        seen.update(more)
        todo += more
    return found


def _told(place: Place, other: Place) -> bool:
    """Whether what a function mentions is a class of settings, which it may return; a class, as that of a field."""
    if module_index.is_class(place):
        return module_index.tells_choices(other) and other in module_index.kept_in(place)
    return module_index.is_class(other) and module_index.tells_settings(other)


def _take(module: Module, path: str, names: set[str], constants: set[str], changed: set[str]) -> Folded | None:
    """Lower some of a file's functions, classes and constants into the module; None where they can't be read."""
    of = module_index.taken(path, names - changed, constants, changed)
    if of is None:
        return None
    try:
        folded = Folded(*of, module.last_of_all)
    except CannotRead:
        return None
    module.take(Source(path, of[0]), folded)
    return folded


def _bind_constant(path: str, binding: Imported, place: Place, what: Assigned) -> None:
    """Say of an import that it is a constant, or the module of one, where it is."""
    meaning = module_index.imported(binding.statement.module, binding.alias.name, binding.alias.asname)
    if meaning is not None and module_index.constant(path, meaning[0], meaning[1] or place.name) == place:
        if meaning[1]:
            binding.what = what
        else:
            binding.members[place.name] = what


def _bind_stars(scope: Scope, stars: _Stars) -> None:
    """Bind what star imports give, as if each name were imported by itself."""
    for name, module in stars.items():
        star = next((each for each in scope.stars if each.module == module), None)
        if star is not None and name not in scope.bindings:
            alias = ir.Alias(star.aliases[0].id, name, None, star.aliases[0].node)
            scope.bindings[name] = [Imported(f"{module}.{name}", star, alias, by_star=True)]


def _bind_passed_on(path: str, scope: Scope, stars: _Stars, text: str) -> None:
    """Say of a scope's imports of AMP's names, and torch's modules, that another file only passes them on.

    Of modules those of their names that stand in the text.
    """
    _bind_stars(scope, stars)
    for binding in (each for bindings in scope.bindings.values() for each in bindings if isinstance(each, Imported)):
        if binding.statement.module and (binding.by_star or binding.alias.name in _PASSED_ON):
            names = module_index.passed_on(path, binding.statement.module, binding.alias.name)
            if len(names) == 1 and names <= _MODULES:
                binding.name = next(iter(names))
            else:
                binding.passed_on = names
        else:
            _bind_members_passed_on(path, binding, text)


def _bind_members_passed_on(path: str, binding: Imported, text: str) -> None:
    """The same of the names of a module."""
    bound = binding.alias.asname or binding.alias.name
    asked = [each for each in _PASSED_ON if f"{bound}.{each}" in text]
    meaning = module_index.imported(binding.statement.module, binding.alias.name, binding.alias.asname)
    module = module_index.module_of(path, meaning) if asked else None
    if module is not None:
        found = {each: module_index.passed_on_by(module, each) for each in asked}
        binding.passes_on.update((name, names) for name, names in found.items() if names)


def _bind(path: str, scope: Scope, taken: dict[Place, _What], stars: _Stars, text: str) -> None:
    """Say of a scope's imports what they stand for."""
    _bind_passed_on(path, scope, stars, text)
    paths = {place.path for place in taken}
    for binding in (each for bindings in scope.bindings.values() for each in bindings if isinstance(each, Imported)):
        for place, what in taken.items():
            if isinstance(what, Assigned):
                _bind_constant(path, binding, place, what)
        found = _imported(path, scope, binding, paths)
        if isinstance(found, Place):
            binding.what = taken.get(found)
        elif found is not None:
            for place, what in taken.items():
                if module_index.within(found, place.name, among={place.path}) == place:
                    binding.members[place.name] = what
