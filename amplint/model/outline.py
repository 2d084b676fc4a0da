"""What the files of a project define and mention, by their syntax alone: which of it can have to do with AMP.

Python's own parser reads a file ten times as fast as libcst, and most of what is imported says nothing about AMP.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from amplint.model.imports import module_file
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
_PARTS = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)


class Unit(NamedTuple):
    """A function or class at the top of a file: its lines, from 1, and the names and attributes that it mentions."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    first: int
    last: int
    says: bool  # one of the words
    mentions: frozenset[tuple[str, str]]  # (name, attribute or "")
    hands: frozenset[tuple[str, str]]  # those of them that are called with an optimizer, a scaler or a loss


class Outline:
    """One file of a project."""

    def __init__(self, source: Source, tree: ast.Module) -> None:
        self.source = source
        self.tree = tree
        self.imports: dict[str, tuple[str, str]] = {}  # bound name -> module, and the name in it ("": the module)
        self.units: dict[str, Unit] = {}
        self.lines = LINE_END.split(source.text)
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                last = node.end_lineno or node.lineno
                says = WORDS.search("\n".join(self.lines[first - 1 : last])) is not None
                self.units[node.name] = Unit(
                    node, first, last, says, frozenset(_mentions(node)), frozenset(_hands(node))
                )
        for statement in _imports(tree.body):
            for alias in statement.names:
                if isinstance(statement, ast.ImportFrom):
                    module = "." * statement.level + (statement.module or "")
                    self.imports[alias.asname or alias.name] = module, alias.name
                elif alias.asname or "." not in alias.name:
                    self.imports[alias.asname or alias.name] = alias.name, ""


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
        if isinstance(each, ast.Call):
            given = (*each.args, *(keyword.value for keyword in each.keywords))
            if any(HANDED.search(_last(value)) for arg in given for value in ast.walk(arg)):
                yield from _mentions(each.func)


def _last(value: ast.AST) -> str:
    """The last word of a name or dotted name."""
    return value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""


def outline(path: str) -> Outline | None:
    """A file of the project; None where it can't be read."""
    try:
        known = os.stat(path)
    except OSError:
        return None
    return _outline(path, known.st_mtime_ns, known.st_size) if known.st_size <= _LARGEST else None


@lru_cache(maxsize=512)
def _outline(path: str, _time: int, _size: int) -> Outline | None:
    try:
        with open(path, "rb") as file:
            source = Source.from_bytes(file.read(), path)
    except (OSError, SourceError):
        return None
    if "\f" in source.text:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return Outline(source, tree)


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
    if of is None:
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
        found: Place | str | None = None
        if name in of.units:
            found = Place(place.path, name)
        elif name in of.imports:
            found = find(place.path, *of.imports[name])
        if isinstance(found, str):
            found = within(found, attribute) if attribute else None
        if isinstance(found, Place) and found != place:
            yield found, (name, attribute) in unit.hands


def is_class(place: Place) -> bool:
    """Whether a place is one of a class."""
    of = outline(place.path)
    return of is not None and isinstance(of.units[place.name].node, ast.ClassDef)


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


def folded(path: str, names: set[str]) -> str | None:
    """A file's text with nothing but some of its functions and classes, imports and variables; lines stay where they
    are."""
    of = outline(path)
    if of is None:
        return None
    kept: list[str] = [""] * len(of.lines)
    for node in of.tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            keep = node.name in names and of.units[node.name].node is node
            first = of.units[node.name].first
        else:
            keep, first = isinstance(node, _PARTS) or _only_parts(node), node.lineno
        if keep:
            last = node.end_lineno or node.lineno
            kept[first - 1 : last] = of.lines[first - 1 : last]
    return "\n".join(kept) + "\n"


def _only_parts(node: ast.stmt) -> bool:
    """Whether an `if` or `try` at the top only imports or sets variables."""
    if isinstance(node, ast.If):
        return all(isinstance(each, _PARTS) or _only_parts(each) for each in (*node.body, *node.orelse))
    if isinstance(node, ast.Try):
        inner = [*node.body, *node.orelse, *node.finalbody, *(each for one in node.handlers for each in one.body)]
        return all(isinstance(each, (*_PARTS, ast.Pass)) or _only_parts(each) for each in inner)
    return False
