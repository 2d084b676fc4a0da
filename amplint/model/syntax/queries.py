"""The nodes of a file that a question can be about: what is not is not read (`amplint.model.syntax.lazy_lowering`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache

import libcst as cst

from amplint.model.syntax import ir
from amplint.model.syntax.lazy_lowering import Folded, Piece, values_of
from amplint.model.syntax.scopes import Names, canonical

_MOST_PATTERNS = 4096
# What the text has wherever something is imported, for `near`.
IMPORTS = re.compile(r"import(?<!\wimport)(?=[\s\\(*])")


class Nodes:
    """The nodes of some files; with `words`, those of the pieces of them in which one of the words stands, or those of
    some `pieces`.
    """

    def __init__(
        self,
        files: tuple[Folded, ...],
        words: tuple[str | re.Pattern[str], ...] = ("",),
        pieces: list[Piece] | None = None,
    ) -> None:
        self.files = files
        self._words = words
        self._chosen = pieces
        self._near: dict[tuple[str | re.Pattern[str], ...], Nodes] = {}
        self._within: dict[int | None, Nodes] = {}

    def near(self, *words: str | re.Pattern[str]) -> Nodes:
        """The nodes that a question about some words can be about.

        Those of every piece (`amplint.model.syntax.lazy_lowering`) in whose text one of the words stands, so that the
        others are not read for it. A piece is a function, a method, or statements between; it is the more selective
        word that helps. `near(a).near(b)` are those where both stand.
        """
        if words not in self._near:
            chosen: list[Piece] | None = None
            if self._words != ("",):
                own = {each.first_id for each in self.pieces}
                chosen = [each for file in self.files for each in file.pieces_with(words) if each.first_id in own]
            self._near[words] = Nodes(self.files, words, chosen)
        return self._near[words]

    def calling(self, *names: str) -> Nodes:
        """The nodes of the pieces in which something of one of the names is called."""
        return self.near(*map(call_of, names))

    def called(self, *names: str) -> list[ir.Call]:
        """The calls of what is written with one of the names, by itself or as an attribute."""
        return [call for call in self.calling(*names).calls if ir.last_name(call.func) in names]

    def defined(self, name: str) -> list[ir.Function]:
        """The functions and methods of a name; those that are pieces of their own are not read for it."""
        pieces = (each for file in self.files for each in file.defining(name))
        return [function for piece, count in pieces for function in piece.functions(name, count)]

    def defines(self, name: str) -> bool:
        """Whether there may be functions or methods of a name."""
        return any(file.defines(name) for file in self.files)

    def within(self, function: ir.Function | None) -> Nodes:
        """The nodes of a function, and of what stands in one piece with it; with None those outside of functions."""
        home = self.piece_of(function.id) if function is not None else None
        key = home.first_id if home is not None else None
        if key not in self._within:
            outside = (each for file in self.files for each in file.pieces if not each.is_function)
            self._within[key] = Nodes(self.files, (), [home] if home is not None else list(outside))
        return self._within[key]

    def piece_of(self, number: int) -> Piece:
        """The piece in which the node of the files stands that has an id."""
        return next(each for each in self.files if number <= each.last_id).piece_of(number)

    @cached_property
    def pieces(self) -> list[Piece]:
        """The pieces, in the order of the text."""
        if self._chosen is not None:
            return self._chosen
        return [piece for file in self.files for piece in file.pieces_with(self._words)]

    @cached_property
    def statements(self) -> list[ir.Statement]:
        """Every statement, in the order of the text."""
        return [each for piece in self.pieces for each in piece.statements]

    @cached_property
    def values(self) -> list[ir.Value]:
        """Every value, operands before what uses them; those of lambdas' bodies too."""
        return [each for piece in self.pieces for each in piece.values]

    @cached_property
    def functions(self) -> list[ir.Function]:
        """Every function that is a statement, in the order of the text."""
        return [each for piece in self.pieces for each in piece.all_functions]

    @property
    def classes(self) -> list[ir.Class]:
        """Every class, in the order of the text."""
        return [each for piece in self.pieces for each in piece.classes]

    @property
    def imports(self) -> list[ir.Import]:
        """Every import, in the order of the text."""
        return [each for piece in self.pieces for each in piece.imports]

    @cached_property
    def calls(self) -> list[ir.Call]:
        """Every call."""
        return [each for piece in self.pieces for each in piece.calls]


@lru_cache(maxsize=_MOST_PATTERNS)
def word_of(name: str) -> re.Pattern[str]:
    """What the text has wherever a name is written that is no part of another one, for `near`."""
    name = re.escape(name)
    return re.compile(rf"{name}\b(?<!\w{name})")


@lru_cache(maxsize=_MOST_PATTERNS)
def call_of(name: str) -> re.Pattern[str]:
    """What the text has wherever something of a name is called, for `near`."""
    name = re.escape(name)
    not_defined = rf"(?<!\w{name})(?<!def {name})(?<!class {name})"
    return re.compile(rf"{name}\b{not_defined}(?:[\s\\)]|#.*\n)*\(")  # `(name)(...)` too


def calls_in(function: ir.Function) -> list[ir.Call]:
    """The calls in a function, those in functions inside it left out; in the order of `Nodes.calls`."""
    values = values_of((function, *ir.walk_statements(function.body)))
    return [each for each in values if isinstance(each, ir.Call) and ir.function_of(each) is function]


def meaning(nodes: Nodes, names: Names, sought: tuple[str, ...]) -> tuple[tuple[str, ...], list[ir.Value]]:
    """The words with which what can stand for one of the qualified names is written, and the names and attributes.

    `package.*` is every name of a package, `package.*Name` one of whichever of its modules. What stands for one of them
    is written with its last word, or with a word that an import or an assignment gives it.
    """
    exact = {each for each in sought if "*" not in each}
    within = [each for each in sought if "*" in each]

    def is_sought(name: str) -> bool:
        return name in exact or any(fnmatchcase(name, each) for each in within)

    words: set[str] = set()
    more = {re.findall(r"\w+", each)[-1] for each in sought}
    packages = tuple(each.removesuffix("*") for each in within)
    while more - words:
        words |= more
        near = nodes.near(*sorted(words))
        more.update(word for word, name in _imported(near, packages) if is_sought(name))
        named = near.values if within else [each for piece in near.pieces for each in piece.named(words)]
        found: list[ir.Value] = [
            value
            for value in named
            if isinstance(value, (ir.Name, ir.Attribute)) and any(map(is_sought, names.of(value)))
        ]
        more.update(word for value in found for word in assigned(value))
    return tuple(sorted(words)), found


def _imported(nodes: Nodes, packages: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The words that imports bind, with the qualified names that they stand for; a package's with its dot."""
    for statement in nodes.imports:
        for alias in statement.aliases:
            name = alias.name if statement.module is None else canonical(f"{statement.module}.{alias.name}")
            yield alias.bound, f"{name}." if f"{name}." in packages else name


def assigned(value: ir.Value) -> Iterator[str]:
    """The names and attributes that a value is assigned to, by itself or as one of several."""
    up, node = value.parent, value
    while isinstance(up, (ir.Conditional, ir.Bool, ir.Walrus, ir.Quoted, ir.Sequence)):
        if isinstance(up, ir.Walrus):
            yield ir.last_name(up.target)
        node, up = up, up.parent
    if isinstance(up, ir.Assign) and up.value is node:
        for target in up.targets:
            items = target.items if isinstance(target, ir.Sequence) else (target,)
            yield from (ir.last_name(each) for each in items if isinstance(each, (ir.Name, ir.Attribute)))


def fields_of(cls: ir.Class) -> list[str]:
    """The annotated names in the body of a class, in their order: those of a dataclass are its fields."""
    declared = (each.node for each in cls.body.statements if isinstance(each, ir.Assign))
    targets = (each.target for each in declared if isinstance(each, cst.AnnAssign))
    return [each.value for each in targets if isinstance(each, cst.Name)]


def is_false(value: ir.Value | None) -> bool:
    """Whether a value is the literal False."""
    return isinstance(value, ir.Constant) and value.value is False


def names_cuda(value: ir.Value | None) -> bool:
    """Whether a value is the name of cuda, or of one of its devices: `"cuda"`, `"cuda:0"`."""
    return isinstance(value, ir.Constant) and isinstance(value.value, str) and value.value.partition(":")[0] == "cuda"
