"""Folding: a file is taken apart before libcst reads it, and each piece is read when something asks for it.

libcst reads half a megabyte a second, and most functions of most files have nothing to do with AMP. Python's parser,
which has to accept the file first anyway, is fifteen times as fast and says where statements stand. The pieces are the
functions at the top of a file, the classes there without their methods, the methods, and the statements in between.
The statements at the top are lowered at once. A function or class knows its name, and is lowered on the first question
about anything else; what nobody asks about is never read. But for the time nobody can tell: who walks over everything
gets everything.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from operator import itemgetter

import libcst as cst
from libcst._nodes.expression import ExpressionPosition

from amplint.model.syntax import ir
from amplint.model.syntax.ir import Defined, Scope
from amplint.model.syntax.lower_expressions import casts_in
from amplint.model.syntax.lower_statements import Lowering
from amplint.model.syntax.text_scan import Gap, has_global
from amplint.sources.source import starts_of_lines

# Ids are handed out by where a piece stands, so that they grow with the text in whatever order the pieces are read.
# There are fewer nodes than characters.
_IDS = 2
# Puts the lines of a class's body, which are indented, into a class; and gives one a body whose own is in other pieces.
_AROUND, _BODY = "class _:\n", " 0\n"
# When a fix is tried, or a text edited, most pieces are what they were.
MOST_TREES = 256
_DEFINITION = re.compile(r"def[\s\\]+([^\W\d]\w*)")
_ERROR_ROW = re.compile(r"error at (\d+):")
_TAB = re.compile(r"^ *\t", re.MULTILINE)
_EXPECTED = re.compile(r": expected one of .*", re.DOTALL)


class CannotRead(Exception):
    """libcst refuses a text that Python accepts; `row` is the line (from 1) where it stopped."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row


class Piece:
    """Whole lines that are parsed by themselves, with something before and behind them that makes a program of them.

    `shift` is what has to be added to an offset in `parsed` to get one in the file.
    """

    def __init__(self, text: str, start: int, first_id: int, before: str = "", behind: str = "") -> None:
        self.text = text
        self.start = start
        self.first_id = first_id
        self.parsed = f"{before}{text}{behind}"
        self.shift = start - len(before)
        self.end: int | None = None  # of a class whose body is in other pieces
        self.owner: ir.Class | None = None  # the class in whose body the lines are
        self.is_function = False
        self.top: list[ir.Statement] = []  # the statements of the lines; empty until the owner is unfolded
        self.unfold: Callable[[], None]  # of a function or class

    @cached_property
    def statements(self) -> list[ir.Statement]:
        """Every statement of the piece, in the order of the text."""
        if self.owner is not None and isinstance(self.owner, ir.FoldedClass):
            self.owner.node.unfold()
        found: list[ir.Statement] = []
        for each in self.top:
            found.append(each)
            for block in each.blocks() if self.end is None else ():
                found += ir.walk_statements(block)
        return found

    @cached_property
    def values(self) -> list[ir.Value]:
        """Every value of the piece, operands before what uses them; those of lambdas' bodies too."""
        return values_of(self.statements)

    @cached_property
    def calls(self) -> list[ir.Call]:
        """Every call of the piece."""
        return [each for each in self.values if isinstance(each, ir.Call)]

    @cached_property
    def imports(self) -> list[ir.Import]:
        """Every import of the piece."""
        return [each for each in self.statements if isinstance(each, ir.Import)]

    @cached_property
    def classes(self) -> list[ir.Class]:
        """Every class of the piece."""
        return [each for each in self.statements if isinstance(each, ir.Class)]

    @cached_property
    def all_functions(self) -> list[ir.Function]:
        """Every function of the piece that is a statement."""
        return [each for each in self.statements if isinstance(each, ir.Function)]

    def named(self, words: Iterable[str]) -> list[ir.Value]:
        """The names of the piece that are one of some words, and the attributes that end with one; as in `values`."""
        found = [each for word in words for each in self._by_word.get(word, ())]
        return [value for _, value in sorted(found, key=itemgetter(0))]

    @cached_property
    def _by_word(self) -> dict[str, list[tuple[int, ir.Value]]]:
        """The names and attributes by their last word, with their places in `values`."""
        found: dict[str, list[tuple[int, ir.Value]]] = {}
        for place, value in enumerate(self.values):
            if isinstance(value, (ir.Name, ir.Attribute)):
                found.setdefault(ir.last_name(value), []).append((place, value))
        return found

    def functions(self, name: str, count: int) -> Iterator[ir.Function]:
        """The functions of a name, of which the text has `count` at the most; the piece's own is known by its name."""
        if self.owner is not None and isinstance(self.owner, ir.FoldedClass):
            self.owner.node.unfold()
        only = self.top[0] if self.top else None
        if count == 1 and isinstance(only, ir.FoldedFunction) and only.name == name:
            yield only
        else:
            yield from (each for each in self.all_functions if each.name == name)

    @cached_property
    def tree(self) -> cst.Module:
        """The tree of `parsed`.

        Raises:
            CannotRead: libcst does not take it.
        """
        return _tree(self.parsed)


def values_of(statements: Iterable[ir.Statement]) -> list[ir.Value]:
    """Every value of some statements, operands before what uses them; those of lambdas' bodies too."""
    found: list[ir.Value] = []

    def add(value: ir.Value) -> None:
        for child in value.children():
            add(child)
        if isinstance(value, ir.Lambda):
            for statement in ir.walk_statements(value.function.body):
                for each in statement.values():
                    add(each)
        found.append(value)

    for statement in statements:
        for value in statement.values():
            add(value)
    return found


@lru_cache(maxsize=MOST_TREES)
def _tree(text: str) -> cst.Module:
    try:
        return cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        # `raw_line` counts from another start in some errors; the message does not.
        where = _ERROR_ROW.search(error.message)
        if where is None and "dedent" in error.message and (tab := _TAB.search(text)):
            row = text.count("\n", 0, tab.start()) + 1
            raise CannotRead("blanks indent some lines of a block and tabs others: use one of them", row) from None
        raise CannotRead(_EXPECTED.sub("", error.message), int(where[1]) if where else error.raw_line) from None
    except cst.CSTValidationError as error:
        raise CannotRead(str(error), 1) from None


_unparenthesized = cst.IfExp._safe_to_use_with_word_operator


def _needs_no_space(self: cst.IfExp, position: ExpressionPosition) -> bool:
    """Whether a conditional expression needs no space next to a keyword: `[(a if b else c)for d in e]`.

    libcst 1.9 asks what the expression begins or ends with, even where parentheses stand around it, and raises
    CSTValidationError for what Python accepts.
    """
    return bool(self.lpar) or _unparenthesized(self, position)


cst.IfExp._safe_to_use_with_word_operator = _needs_no_space  # type: ignore[method-assign]


def forget_trees() -> None:
    """Forget the trees of pieces that were read; whoever has one keeps it."""
    _tree.cache_clear()


class Folded:
    """A text in pieces, in one where there is no `tree` of it; `program` is what it means.

    Raises:
        CannotRead: libcst does not take what stands at the top of the file.
    """

    def __init__(self, text: str, tree: ast.Module | None, last_id: int = 0) -> None:
        self._text = text
        self.tree = tree
        self._importing: list[Scope] = []  # the scopes of what was lowered that import something
        self._on_import: Callable[[Scope], None] = self._importing.append
        self._starts = [*starts_of_lines(text), len(text)]
        self._casts = casts_in(text)
        self._last_id = last_id + 1
        self.last_id = self._id(len(text)) + _IDS
        self._known: dict[str | re.Pattern[str], list[int]] = {}  # what was looked for -> the numbers of pieces
        self.pieces: list[Piece] = []  # in the order of the text
        self.program = ir.Program(self._last_id, None, None)
        self.program.scope = Scope("module", None)
        self.program.body = block = ir.Block(self.program, "body")
        if tree is None:
            self._lower(self._piece(1, len(self._starts) - 1), block, self.program.scope)
        for nodes in _groups(tree.body, ast.ClassDef) if tree is not None else ():
            self._top(nodes, block, self.program.scope)

    def on_import(self, tell: Callable[[Scope], None]) -> None:
        """Tell of every scope that imports something: those that are known, and each that comes to be."""
        self._on_import = tell
        for scope in {id(each): each for each in self._importing}.values():
            tell(scope)

    def pieces_with(self, words: tuple[str | re.Pattern[str], ...]) -> list[Piece]:
        """The pieces in whose text one of some words stands, or something that a pattern matches, as the text has them.

        A pattern must not match more than a line.
        """
        found = {number for word in words for number in self._numbers_with(word)}
        return [self.pieces[number] for number in sorted(found)]

    def _numbers_with(self, word: str | re.Pattern[str]) -> list[int]:
        if word not in self._known:
            found = self._known[word] = []
            at = self._find(word, 0)
            while at >= 0:
                number = bisect_right(self.pieces, at, key=_start) - 1
                if number >= 0 and at < self.pieces[number].start + len(self.pieces[number].text):
                    found.append(number)  # and not between pieces, where comments are, and what isn't taken
                last = number + 1 == len(self.pieces)
                at = -1 if last else self._find(word, max(at + 1, self.pieces[number + 1].start))
        return self._known[word]

    def defining(self, name: str) -> Iterator[tuple[Piece, int]]:
        """The pieces that may define functions of a name, and how many in each."""
        for number, count in sorted(Counter(self._definitions.get(name, ())).items()):
            yield self.pieces[number], count

    def defines(self, name: str) -> bool:
        """Whether there may be functions of a name."""
        return name in self._definitions

    @cached_property
    def _definitions(self) -> dict[str, list[int]]:
        """For the names of functions, as the text has them, the numbers of their pieces."""
        found: dict[str, list[int]] = {}
        for each in _DEFINITION.finditer(self._text):
            found.setdefault(each[1], []).append(bisect_right(self.pieces, each.start(), key=_start) - 1)
        return found

    def _find(self, word: str | re.Pattern[str], start: int) -> int:
        if isinstance(word, str):
            return self._text.find(word, start)
        found = word.search(self._text, start)
        return found.start() if found is not None else -1

    def piece_of(self, node_id: int) -> Piece:
        """The piece that a node stands in."""
        return self.pieces[bisect_right(self.pieces, node_id, key=_first_id) - 1]

    def pieces_round(self, offset: int) -> list[Piece]:
        """The piece in whose lines an offset of the text stands, and the class that this is in; in the text's order."""
        return [each for each in self.pieces if each.start <= offset < (each.end or each.start + len(each.text))]

    def _id(self, offset: int) -> int:
        return self._last_id + 1 + _IDS * offset

    def _piece(self, first: int, last: int, before: str = "", behind: str = "") -> Piece:
        """The lines from `first` to `last`, counted from 1."""
        start = self._starts[first - 1]
        piece = Piece(self._text[start : self._starts[last]], start, self._id(start), before, behind)
        self.pieces.append(piece)
        return piece

    def _piece_for(self, nodes: list[ast.stmt], before: str = "") -> Piece:
        """The lines of a function, or of other statements next to each other."""
        piece = self._piece(self._first(nodes[0]), nodes[-1].end_lineno or 0, before)
        piece.is_function = isinstance(nodes[0], (ast.FunctionDef, ast.AsyncFunctionDef))
        return piece

    def _first(self, node: ast.stmt) -> int:
        """The line on which a statement starts, with its decorators."""
        decorators = getattr(node, "decorator_list", ())
        if not decorators:
            return node.lineno
        first: int = min(each.lineno for each in decorators)
        while not self._line(first).startswith("@"):
            first -= 1  # @( and the decorator in another line
        return first

    def _line(self, row: int) -> str:
        return self._text[self._starts[row - 1] : self._starts[row]].lstrip()

    def _top(self, nodes: list[ast.stmt], block: ir.Block, scope: Scope) -> None:
        """A function, a class, or other statements next to each other, at the top of the file."""
        only = nodes[0]
        if isinstance(only, ast.ClassDef) and self._first(only.body[0]) > only.lineno:
            self._class(only, block, scope)
        else:
            self._within(nodes, self._piece_for(nodes), block, scope)

    def _within(self, nodes: list[ast.stmt], piece: Piece, block: ir.Block, scope: Scope) -> None:
        only = nodes[0]
        if isinstance(only, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._function(only, piece, block, scope)
        else:
            self._lower(piece, block, scope)

    def _lower(self, piece: Piece, block: ir.Block, scope: Scope, known: ir.Function | ir.Class | None = None) -> None:
        lowering = Lowering(piece.first_id, scope, block, known, self._casts)
        count = len(block.statements)
        piece.tree.visit(lowering)
        piece.top += block.statements[count:]
        for each in lowering.importing:
            self._on_import(each)

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, piece: Piece, block: ir.Block, scope: Scope
    ) -> None:
        function = ir.Function(piece.first_id, piece, block.owner, block, node.name)
        function.cls = piece.owner
        function.is_async = isinstance(node, ast.AsyncFunctionDef)
        block.statements.append(function)
        scope.bind(node.name, Defined(function))
        piece.top = [function]
        function.__class__ = ir.FoldedFunction

        def unfold() -> None:
            function.__class__ = ir.Function
            self._lower(piece, block, scope, function)

        piece.unfold = unfold
        if has_global(piece.text):
            unfold()  # it may bind names of the module

    def _class(self, node: ast.ClassDef, block: ir.Block, scope: Scope) -> None:
        header = self._piece(self._first(node), self._first(node.body[0]) - 1, behind=_BODY)
        line = self._starts[(node.end_lineno or 0) - 1]
        header.end = line + len(self._text[line:].encode()[: node.end_col_offset].decode())
        cls = ir.Class(header.first_id, header, block.owner, block, node.name)
        block.statements.append(cls)
        scope.bind(node.name, Defined(cls))
        header.top = [cls]
        cls.__class__ = ir.FoldedClass
        members = []
        for nodes in _groups(node.body):
            piece = self._piece_for(nodes, _AROUND)
            piece.owner = cls
            members.append((nodes, piece))

        def unfold() -> None:
            cls.__class__ = ir.Class
            self._lower(header, block, scope, cls)
            cls.body = ir.Block(cls, "body")
            for nodes, piece in members:
                self._within(nodes, piece, cls.body, cls.scope)

        header.unfold = unfold
        if any(has_global(piece.text) for _, piece in members):
            unfold()


def _first_id(piece: Piece) -> int:
    return piece.first_id


def _start(piece: Piece) -> int:
    return piece.start


def _groups(nodes: list[ast.stmt], *alone: type[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """Each function by itself, and what else is `alone`; the statements between them together."""
    group: list[ast.stmt] = []
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, Gap, *alone)):
            if group:
                yield group
                group = []
            if not isinstance(node, Gap):
                yield [node]
        else:
            group.append(node)
    if group:
        yield group
