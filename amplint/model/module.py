"""`build` makes a `Module` of a `Source`: what the rules ask, and the only way from them to the syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from amplint.base.paths import seen_from
from amplint.base.target import nothing_declared
from amplint.model.syntax import ir
from amplint.model.syntax.lazy_lowering import CannotRead, Folded
from amplint.model.syntax.positions import Layout, Span
from amplint.model.syntax.queries import Nodes, meaning
from amplint.model.syntax.scopes import Names
from amplint.sources.source import Joined, Source, has_lone_backslash

if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple, Unpack

    from amplint.base.target import Target

    Given = TypeVarTuple("Given")

T = TypeVar("T")
K = TypeVar("K")
_NOT_MADE = object()
# Answers that are found for one question which no other one asks.
_MOST_ANSWERS = 5_000
_ON_A_LINE = re.compile(r"(?m)^[ \t\f]*\f[ \t\f]*$")
# What is left of line breaks in brackets where a text is put on one line.
_BROKEN = re.compile(r"([(\[{]) | ([)\]}])")
_LAST_COMMA = re.compile(r",\)$")
_AT_FIRST = re.compile(r"[ \t\f]*\f")
_AT_START = re.compile(r"(?<!\\)(\r\n|[\r\n])([ \t\f]*\f)")


class Part(NamedTuple):
    """What is taken from another file: where its text starts in the module's source."""

    filename: str
    start: int


class Module:
    """One file: its IR, its names, its layout, and what the readers make of them.

    `own` are the file's nodes, `whole` those and what it takes from other files of its project
    (`amplint.model.project.link`). The text of the latter stands behind the file's own in `source`.
    """

    def __init__(self, source: Source, target: Target, folded: Folded, frameworks: Callable[[str], Target]) -> None:
        self.source = source
        self.target = target
        self.target_of = frameworks  # of lightning, say: looked for on the first question
        self.device: str | None = None  # what the project says of code that shows none
        self.selected: frozenset[str] | None = None  # the codes of which fixes may change something; None: all
        self.folded = folded
        self.program = folded.program
        self.last_id = self.last_of_all = folded.last_id  # of the file's own nodes, and of all
        self.names = Names()
        self.layout = Layout(source, folded)
        self.own = self.whole = Nodes((folded,))
        self.parts: list[Part] = []
        self._made: dict[Any, Any] = {}
        self._meanings: dict[tuple[str, ...], tuple[tuple[str, ...], list[ir.Value]]] = {}
        self._by_id: dict[int, dict[int, ir.Value]] = {}  # by the first ids of the pieces

    @property
    def own_length(self) -> int:
        """How many characters the file itself has."""
        return self.parts[0].start - 1 if self.parts else len(self.source.text)

    def take(self, source: Source, folded: Folded) -> None:
        """Put what is used of another file behind the file's own."""
        joined = Joined(self.source, source)
        self.parts.append(Part(source.filename, len(self.source.text) + 1))
        self.layout.add(folded, self.parts[-1].start)
        self.source = self.layout.source = joined
        self.whole = Nodes((*self.whole.files, folded))
        self.last_of_all = folded.last_id

    @property
    def texts(self) -> Iterator[str]:
        """The file's own text, and what is taken from others."""
        yield self.source.text[: self.own_length]
        yield from (piece.text for file in self.whole.files[1:] for piece in file.pieces)

    def is_own(self, node: ir.Node) -> bool:
        """Whether a node stands in the file itself."""
        return node.id <= self.last_id

    def place(self, offset: int) -> tuple[str | None, int]:
        """The file, None for this one, and the line in it, from 1, that an offset is in."""
        row = self.source.row(offset)
        part = next((each for each in reversed(self.parts) if offset >= each.start), None)
        return (part.filename, row - self.source.row(part.start) + 1) if part is not None else (None, row)

    def line(self, node: ir.Node) -> str:
        """The line on which a node starts, as messages say it: `line 12`, `line 12 of utils.py`."""
        filename, row = self.place(self.layout.span(node)[0])
        if filename is None:
            return self.source.named(self.layout.span(node)[0])
        return f"line {row} of {seen_from(filename, self.source.filename)}"

    def once(self, make: Callable[[Module, Unpack[Given]], T], *given: Unpack[Given]) -> T:
        """What `make` makes of this module and of what it is `given`; made on the first question, for all who ask."""
        key = (make, *given) if given else make
        made: T = self._made.get(key, _NOT_MADE)
        if made is _NOT_MADE:
            made = self._made[key] = make(self, *given)
        return made

    def known(self, make: Callable[[Module], T]) -> T | None:
        """What `make` has made of this module, if it was asked for."""
        return cast("T | None", self._made.get(make))

    @property
    def statements(self) -> list[ir.Statement]:
        """Every statement of the file, in the order of the text."""
        return self.own.statements

    @property
    def values(self) -> list[ir.Value]:
        """Every value of the file, operands before what uses them; those of lambdas' bodies too."""
        return self.own.values

    @property
    def functions(self) -> list[ir.Function]:
        """Every function of the file that is a statement, in the order of the text."""
        return self.own.functions

    @property
    def calls(self) -> list[ir.Call]:
        """Every call of the file."""
        return self.own.calls

    def statements_round(self, offset: int) -> list[ir.Statement]:
        """The statements that stand round an offset, in other files too, in the order of the text."""
        number = sum(part.start <= offset for part in self.parts)
        start = self.parts[number - 1].start if number else 0
        pieces = self.whole.files[number].pieces_round(offset - start)
        near = (each for piece in pieces for each in piece.statements)
        return [each for each in near if self.span(each)[0] <= offset < self.span(each)[1]]

    def statement_at(self, offset: int) -> ir.Statement | None:
        """The innermost statement round an offset."""
        found: ir.Statement | None = None
        for each in self.statements_round(offset):
            if found is None or self.span(each)[0] >= self.span(found)[0]:
                found = each
        return found

    def value_of(self, number: int) -> ir.Value | None:
        """The value with an id, in other files too."""
        piece = self.whole.piece_of(number)
        if piece.first_id not in self._by_id:
            self._by_id[piece.first_id] = {each.id: each for each in piece.values}
        return self._by_id[piece.first_id].get(number)

    def value(self, number: int) -> ir.Value:
        """The value that has an id."""
        found = self.value_of(number)
        assert found is not None
        return found

    def cls(self, number: int) -> ir.Class | None:
        """The class with an id, in other files too."""
        return next((each for each in self.whole.piece_of(number).classes if each.id == number), None)

    def function(self, number: int) -> ir.Function | None:
        """The function with an id, in other files too; a lambda is none."""
        return next((each for each in self.whole.piece_of(number).all_functions if each.id == number), None)

    def references(self, *names: str) -> Iterator[ir.Value]:
        """The file's names and attributes, read or bound, that can stand for one of the qualified `names`.

        Not those that the file takes from another one of the project, which imports them: they stand for that one's.
        """
        return (each for each in self.meaning(*names) if self.is_own(each) and not self.names.is_passed_on(each))

    def calls_of(self, *names: str) -> list[ir.Call]:
        """The calls, those in other files too, of what can be one of the qualified `names`; in the text's order."""
        parents = ((each, each.parent) for each in self.meaning(*names))
        found = (call for value, call in parents if isinstance(call, ir.Call) and call.func is value)
        return sorted(found, key=lambda call: call.id)

    def meaning(self, *names: str) -> list[ir.Value]:
        """The names and attributes that can stand for one of the qualified `names`; `torch.optim.*` is all in there.

        Only what is written with the last word of one of the names, or with a word that stands for it, is looked at.
        """
        return self._meaning(names)[1]

    def words(self, *names: str) -> tuple[str, ...]:
        """The words with which what can stand for one of the qualified `names` is written, for `near`."""
        return self._meaning(names)[0]

    def _meaning(self, names: tuple[str, ...]) -> tuple[tuple[str, ...], list[ir.Value]]:
        if names not in self._meanings:
            self._meanings[names] = meaning(self.whole, self.names, names)
        return self._meanings[names]

    def span(self, node: ir.Node) -> Span:
        """Where a node stands in the original text."""
        return self.layout.span(node)

    def text(self, node: ir.Node) -> str:
        """A node as it is written."""
        start, end = self.layout.span(node)
        return self.source.text[start:end]

    def on_one_line(self, node: ir.Node) -> str:
        """A node as it is written, on one line."""
        text = self.text(node)
        line = " ".join(text.split())
        if len(text.splitlines()) > 1:
            line = _BROKEN.sub(lambda found: found[1] or found[2], line)
            if isinstance(node, ir.Call):
                line = _LAST_COMMA.sub(")", line)
        return line

    def row(self, node: ir.Node) -> int:
        """The line of the source, from 1, on which a node starts."""
        return self.source.row(self.layout.span(node)[0])


class Answers(Generic[K, T]):
    """Answers to questions that lead to each other, by the same one maker: remembered, and cut where they go round.

    What was found behind a cut holds for who asked first only, and is not remembered for others: where many questions
    go round, the same one would be asked again and again. So a first question leads to so many others at most.
    """

    def __init__(self, deepest: int) -> None:
        self._deepest = deepest  # questions, one inside the other
        self._left = _MOST_ANSWERS
        self._known: dict[K, T] = {}
        self._active: set[K] = set()
        self._cuts = 0

    def of(self, question: K, find: Callable[[], T], *, give_up: bool = False) -> T | None:
        """The answer; None where the question is asked for its own answer, too deep inside, or to be given up."""
        if question in self._known:
            return self._known[question]
        if not self._active:
            self._left = _MOST_ANSWERS
        if give_up or question in self._active or len(self._active) >= self._deepest or not self._left:
            self._cuts += 1
            return None
        self._left -= 1
        before = self._cuts
        self._active.add(question)
        try:
            answer = find()
        finally:
            self._active.discard(question)
        if self._cuts == before or not self._active:
            self._known[question] = answer
        return answer


def build(
    source: Source,
    target: Target,
    last_id: int = 0,
    frameworks: Callable[[str], Target] = nothing_declared,
    tree: ast.Module | None = None,
) -> Module:
    """Lower a file; the ids of its nodes come behind `last_id`. With Python's own `tree` of it, in pieces.

    Raises:
        CannotRead: libcst does not take the text, or does not keep all of it.
    """
    # libcst drops form feeds at the starts of lines, and positions would shift; on a line of its own a space will do.
    text = _ON_A_LINE.sub(lambda found: " " * len(found[0]), source.text) if "\f" in source.text else source.text
    loses = "\f" in text or has_lone_backslash(text)
    text = _moved(text) if loses else text
    folded = Folded(text, None if loses else tree, last_id)
    if loses and folded.pieces[0].tree.code != text:
        raise CannotRead("a form feed or a lone backslash stands where libcst loses it", 1)
    return Module(source, target, folded, frameworks)


def _moved(text: str) -> str:
    """A text of the same length, without form feeds in front of code.

    There they start the indentation anew, so that they may as well end the line above; the first line is given one.
    """
    first = _AT_FIRST.match(text)
    return _AT_START.sub(r"\2\1", f"{text[: first.end() - 1]}\n{text[first.end() :]}" if first else text)
