"""What the files of a project define and mention, by their syntax alone: which of it can have to do with AMP.

Python's own parser reads a file ten times as fast as libcst, and most of what is imported says nothing about AMP.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from functools import cache, cached_property, lru_cache
from math import inf
from typing import NamedTuple

from amplint.guard import parse
from amplint.model.imports import module_file
from amplint.paths import version
from amplint.source import LINE_END, Source, SourceError

_LARGEST = 1 << 19  # bytes of a file that is read
_DEPTH = 5  # re-exports that are followed
# A function with none of these words does nothing to scaler, gradients or regions.
WORDS = re.compile(
    r"autocast|[sS]caler\b|backward\(|clip_grad|unscale|\.grad\b|zero_grad|optim\w*\.(step|state_dict)\(|BCELoss"
    r"|binary_cross_entropy\b"
)
# What a call that is out of sight may do something to, by its name.
HANDED = re.compile(r"(?i)optim|^opt$|scaler|loss")
DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# What may be an attribute of a name that is set, alone or as one of several.
_SETS = re.compile(r"\b(\w+)\.(\w+)[ \t]*(?:=(?!=)|,)")
_GLOBAL = re.compile(r"\bglobal\b")
_PARTS = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)


class Gap(ast.Pass):
    """Stands where a statement is left out."""


class Unit:
    """A function or class at the top of a file: its lines, from 1, and whether it says one of the words."""

    def __init__(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, lines: list[str]) -> None:
        self.node = node
        self.first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        self.last = node.end_lineno or node.lineno
        self.says = WORDS.search("\n".join(lines[self.first - 1 : self.last])) is not None

    @cached_property
    def mentions(self) -> frozenset[tuple[str, str]]:
        """The names and attributes in it: (name, attribute or "")."""
        return frozenset(_mentions(self.node))

    @cached_property
    def hands(self) -> frozenset[tuple[str, str]]:
        """Those of them that are called with an optimizer, a scaler or a loss."""
        return frozenset(_hands(self.node))


class Outline:
    """One file of a project."""

    def __init__(self, source: Source, tree: ast.Module) -> None:
        self.source = source
        self.tree = tree
        self.imports: dict[str, tuple[str, str]] = {}  # bound name -> module, and the name in it ("": the module)
        self.stars: list[tuple[int, str]] = []  # the lines of star imports, and of what
        self.units: dict[str, Unit] = {}
        self.lines = LINE_END.split(source.text)
        self.has_globals = _GLOBAL.search(source.text) is not None
        for node in tree.body:
            if isinstance(node, DEFINED):
                self.units[node.name] = Unit(node, self.lines)
        for statement in _imports(tree.body):
            for name, meaning in bound_by(statement):
                if meaning is not None and meaning[1] == "*":
                    self.stars.append((statement.lineno, meaning[0]))
                elif meaning is not None:
                    self.imports[name] = meaning
        self.bound: dict[str, list[ast.AST]] = {}  # the names of the file, and what binds them
        for node in tree.body:
            for name, what in _bound(node, self.has_globals):
                self.bound.setdefault(name, []).append(what)
        self._known: dict[str, float] = {}

    def is_sure(self, name: str) -> bool:
        """Whether a name can stand for one thing only: the last of its functions and classes, or one import."""
        if name not in self._known:
            self._known[name] = self._known_from(name)
        after = self._known[name]
        return after < inf and not any(row > after and offers(self.source.filename, of, name) for row, of in self.stars)

    def _known_from(self, name: str) -> float:
        """The line from which on a name stands for one thing, star imports aside; beyond all where it never does."""
        bound = self.bound.get(name, [])
        meanings = {_meaning(each, name) for each in bound}
        if name in self.units and all(isinstance(each, DEFINED) and each in self.tree.body for each in bound):
            meanings = {("", "")}  # the last of them
        sure = len(meanings) == 1 and None not in meanings
        return max((each.lineno for each in bound if isinstance(each, ast.stmt)), default=0) if sure else inf

    @cached_property
    def sets(self) -> frozenset[tuple[str, str]]:
        """The attributes of imported names that the file sets: of a module they are another file's variables."""
        return sets(self.source.text, self.tree, self.imports)


def _bound(node: ast.AST, globals_too: bool) -> Iterator[tuple[str, ast.AST]]:
    """The names of a file that a statement at its top binds, by functions' `global` too, and what binds each.

    Not those of `if __name__ == "__main__"`: who imports the file never gets there.
    """
    if isinstance(node, ast.If) and any(last_word(each) == "__name__" for each in ast.walk(node.test)):
        return
    if isinstance(node, DEFINED):
        yield node.name, node
        inside = ast.walk(node) if globals_too else ()
        yield from ((name, each) for each in inside if isinstance(each, ast.Global) for name in each.names)
        return
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from ((alias.asname or alias.name.partition(".")[0], node) for alias in node.names)
    elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id, node
    elif isinstance(node, (ast.MatchAs, ast.MatchStar, ast.ExceptHandler)) and node.name:
        yield node.name, node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.Lambda, ast.comprehension)):
            yield from _bound(child, globals_too)


def _meaning(node: ast.AST, name: str) -> tuple[str, str] | None:
    """What an import makes of a name; None where that is something else."""
    return dict(bound_by(node)).get(name) if isinstance(node, (ast.Import, ast.ImportFrom)) else None


def bound_by(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, tuple[str, str] | None]]:
    """The names that an import binds, and what each then means."""
    from_module = "." * statement.level + (statement.module or "") if isinstance(statement, ast.ImportFrom) else None
    for alias in statement.names:
        name = alias.asname or (alias.name if from_module is not None else alias.name.partition(".")[0])
        yield name, imported(from_module, alias.name, alias.asname)


def imported(module: str | None, name: str, asname: str | None) -> tuple[str, str] | None:
    """What `from module import name as asname` binds: a module, and the name in it ("": the module itself).

    Without a module that is `import name as asname`; None where it binds the package of what it names.
    """
    if module is not None:
        return module, name
    return (name, "") if asname is not None or "." not in name else None


def sets(text: str, tree: ast.Module, names: Collection[str]) -> frozenset[tuple[str, str]]:
    """The attributes of some names that a text sets or deletes."""
    if not any(name in names for name, _ in _SETS.findall(text)):
        return frozenset()  # to walk the tree takes much longer
    return frozenset(
        (each.value.id, each.attr)
        for each in ast.walk(tree)
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and not isinstance(each.ctx, ast.Load)
        if each.value.id in names
    )


def offers(filename: str, module: str, name: str) -> bool:
    """Whether a star import of a module of the project may bind a name."""
    path = module_file(filename, module)
    of = outline(path) if path is not None else None
    return of is not None and not name.startswith("_") and (name in of.bound or bool(of.stars))


def _imports(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports at the top of a file, those in `try` and `if` too."""
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.If):
            yield from _imports(node.body)
            yield from _imports(node.orelse)
        elif isinstance(node, ast.Try):
            yield from _imports(node.body)
            for handler in node.handlers:
                yield from _imports(handler.body)


def _mentions(node: ast.AST) -> Iterator[tuple[str, str]]:
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            yield each.value.id, each.attr
        elif isinstance(each, ast.Name):
            yield each.id, ""


def _hands(node: ast.AST) -> Iterator[tuple[str, str]]:
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and is_handed(each):
            yield from _mentions(each.func)


def is_handed(call: ast.Call) -> bool:
    """Whether a call is given what it may do something to."""
    given = (*call.args, *(keyword.value for keyword in call.keywords))
    return any(HANDED.search(last_word(value)) for arg in given for value in ast.walk(arg))


def last_word(value: ast.AST) -> str:
    """The last word of a name or dotted name."""
    return value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""


def look_again() -> None:
    """Files come, go and change: what is known of them is held until this is called."""
    module_file.cache_clear()
    outline.cache_clear()
    matters.cache_clear()


@cache
def outline(path: str) -> Outline | None:
    """A file of the project; None where it can't be read."""
    try:
        return _outline(path, version(path))
    except OSError:
        return None


@lru_cache(maxsize=128)
def _outline(path: str, _version: tuple[int, int, int]) -> Outline | None:
    with open(path, "rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST or b"\f" in data:
        return None
    try:
        source = Source.from_bytes(data, path)
    except SourceError:
        return None
    tree = parse(source)
    return Outline(source, tree) if isinstance(tree, ast.Module) else None


class Place(NamedTuple):
    """A function or class of a file of the project."""

    path: str
    name: str


def find(filename: str, module: str, name: str, depth: int = _DEPTH) -> Place | str | None:
    """What `from module import name` means in a file: a function or class of the project, or a module's path."""
    path = module_file(filename, module)
    if path is not None and name:
        place = within(path, name, depth)
        if place is not None:
            return place
        path = module_file(filename, f"{module}{'' if module.endswith('.') else '.'}{name}")
    return path


def within(path: str, name: str, depth: int = _DEPTH) -> Place | str | None:
    """What a name of a module stands for, if it is the project's own."""
    of = outline(path)
    if of is None or not of.is_sure(name):
        return None
    if name in of.units:
        return Place(path, name)
    if name in of.imports and depth:
        module, original = of.imports[name]
        return find(path, module, original, depth - 1)
    return None


def targets(place: Place) -> Iterator[tuple[Place, bool]]:
    """The functions and classes of the project that a function or class mentions; whether it hands them something."""
    of = outline(place.path)
    if of is None:
        return
    unit = of.units[place.name]
    for name, attribute in sorted(unit.mentions):
        found = within(place.path, name) if name in of.bound else None
        if isinstance(found, str):
            found = within(found, attribute) if attribute else None
        if isinstance(found, Place) and found != place:
            yield found, (name, attribute) in unit.hands


def changed(path: str) -> Iterator[Place]:
    """What a file sets of others: functions that it replaces, and variables."""
    of = outline(path)
    if of is None:
        return
    for name, attribute in sorted(of.sets):
        found = find(path, *of.imports[name]) if name in of.imports else None
        if isinstance(found, str):
            yield Place(found, attribute)


def is_class(place: Place) -> bool:
    """Whether a place is one of a class."""
    of = outline(place.path)
    return of is not None and isinstance(of.units[place.name].node, ast.ClassDef)


@cache
def matters(place: Place) -> bool:
    """Whether a function or class can do something to scaler, gradients or regions, itself or by what it mentions."""
    todo, seen = [place], {place}
    while todo:
        each = todo.pop()
        of = outline(each.path)
        if of is None or of.units[each.name].says:
            return True
        more = [found for found, _ in targets(each) if found not in seen]
        seen.update(more)
        todo += more
    return False


def taken(path: str, names: set[str], changed: set[str]) -> tuple[str, ast.Module] | None:
    """A file's text, and of what stands in it some functions and classes, the imports and the variables.

    Variables that something else sets, as `changed` does from other files, are set to what can't be known, behind it.
    """
    of = outline(path)
    if of is None:
        return None
    kept: list[ast.stmt] = []
    for node in of.tree.body:
        if isinstance(node, DEFINED):
            keep = node.name in names and of.units[node.name].node is node
        else:
            keep = isinstance(node, _PARTS) or _only_parts(node)
        kept.append(node if keep else Gap())
        if not keep:
            changed = changed | {name for name, what in _bound(node, of.has_globals) if what is not node}
    unknown = [f"{name} = globals()[{name!r}]\n" for name in sorted(changed) if name in of.bound and name not in names]
    behind = ast.increment_lineno(ast.parse("".join(unknown)), len(of.lines))
    return of.source.text + "\n" + "".join(unknown), ast.Module([*kept, *behind.body], [])


def _only_parts(node: ast.stmt) -> bool:
    """Whether an `if` or `try` at the top only imports or sets variables."""
    if isinstance(node, ast.If):
        return all(isinstance(each, _PARTS) or _only_parts(each) for each in (*node.body, *node.orelse))
    if isinstance(node, ast.Try):
        inner = [*node.body, *node.orelse, *node.finalbody, *(each for one in node.handlers for each in one.body)]
        return all(isinstance(each, (*_PARTS, ast.Pass)) or _only_parts(each) for each in inner)
    return False
