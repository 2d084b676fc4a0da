"""What the linter says of the line that a finding of a run is about, and `explain` of what ended the program."""

from __future__ import annotations

import ast
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from amplint.base.findings import Finding as Linted
from amplint.base.findings import Fix, Location
from amplint.base.paths import contents, look_again, shown
from amplint.config.selection import ALWAYS
from amplint.config.settings import Overrides, Resolver
from amplint.doctor.findings import Finding, Place, Related, Span
from amplint.engine.file import check_bytes
from amplint.explain.search import find
from amplint.sources.parsing import parsed
from amplint.sources.source import Source

_LONGEST = 300  # characters of a message
# A comment with this word may silence a whole file.
_DIRECTIVE = b"amplint:"
# Rules about one operation, not about how several lines go together: of another operation they say nothing.
_OF_ONE = frozenset({"AMP501", "AMP502", "AMP510"})
_Functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def related_to(finding: Finding, folder: str | None = None, since: float | None = None) -> Related | None:
    """What the finding's rule, or one of those alike, says of its statement, else of its function.

    That they say nothing is said as well.

    What it says of an operation that was not seen, or of another call of the same function, doesn't count.

    The command names the file as `folder` (the current directory) sees it. None: there is no such rule, line or file,
    or the file was changed after `since`. It never raises.
    """
    if finding.code is None or finding.place is None:
        return None
    try:
        folder = os.getcwd() if folder is None else folder
        path = os.path.normpath(os.path.join(folder, finding.place.path))
        if since is not None and os.stat(path).st_mtime > since:
            return None
        return _related((finding.code, *finding.alike), path, finding.place, folder)
    except Exception:  # a file that isn't there, or a bug of the linter's: it is said where the file is linted
        return None


def explained(error: BaseException | None) -> str:
    """The command that explains what ended a program; empty if it isn't known. It never raises."""
    if not isinstance(error, Exception):
        return ""
    try:
        message = (str(error).strip().splitlines() or [""])[0][:_LONGEST]
        return f"amplint explain {shlex.quote(message)}" if any(hit.text for hit in find(message).hits) else ""
    except Exception:
        return ""


def _related(codes: Sequence[str], path: str, place: Place, folder: str) -> Related | None:
    own = codes[0]
    data = contents(path)
    source = Source.from_bytes(data, path)
    tree = parsed(source.text)
    look_again()
    settings = Resolver(Overrides()).for_file(path)
    settings = settings._replace(codes=ALWAYS | {*codes}, unsafe_fixes=True, suspicions=True, unfixable=frozenset())
    result = check_bytes(data, path, settings, noqa=False)
    if any(each.code in ALWAYS for each in result.findings):
        return None  # it couldn't be read
    seen = _Seen.of(tree, place, source)
    found = [each for each in result.findings if each.code in codes and _is_about(each, seen)]
    first, last = _statement(tree, place.line)
    here = [each for each in found if first <= each.location.row <= last]
    function = _function(tree, place.line)
    near = here or [each for each in found if _function(tree, each.location.row) is function]
    if near:
        best = min(near, key=lambda each: (each.code != own, abs(each.location.row - place.line)))
        said = _said(best, path, folder, None if here else best.location.row)
        return said if best.code == own else replace(said, code=best.code)
    return None if _DIRECTIVE in data or (seen is None and own in _OF_ONE) else Related(is_missed=True)


class _Seen(NamedTuple):
    """The call or operation that ran, and the part of its file that it is."""

    node: ast.AST
    span: Span
    tree: ast.AST
    source: Source

    @classmethod
    def of(cls, tree: ast.AST, place: Place, source: Source) -> _Seen | None:
        """What ran at a place, None where that isn't known."""
        span = place.span
        if span is None or (node := _node_at(tree, span)) is None:
            return None
        return cls(node, span, tree, source)

    def is_in(self, found: Linted) -> bool:
        """Whether the linter speaks of it, of what it is given, or of a call that has read the attribute it is."""
        marked = self._marked(found)
        if any(_span_of(each) == marked for each in _parts(self.node)):
            return True
        return isinstance(self.node, ast.Attribute) and marked[:2] <= self.span[:2] and self.span[2:] <= marked[2:]

    def is_alike(self, found: Linted) -> bool:
        """Whether the linter speaks of a call of the same function."""
        other = _node_at(self.tree, self._marked(found))
        return isinstance(other, ast.Call) and isinstance(self.node, ast.Call) and _called(other) == _called(self.node)

    def _marked(self, found: Linted) -> Span:
        """The part of the file that a finding is about."""
        start, end = found.location, found.end_location
        return Span(start.row, self._bytes_before(start), end.row, self._bytes_before(end))

    def _bytes_before(self, at: Location) -> int:
        return len(self.source.line(at.row)[: at.column - 1].encode())


def _is_about(found: Linted, seen: _Seen | None) -> bool:
    """Whether a finding can be about what was seen, and not about something alike."""
    if seen is None:
        return found.code not in _OF_ONE
    return seen.is_in(found) or not (found.code in _OF_ONE or seen.is_alike(found))


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """A call or operation, and what it is given."""
    yield node
    for each in ast.iter_child_nodes(node):
        inner = each.value if isinstance(each, (ast.keyword, ast.Starred)) else each
        yield inner.operand if isinstance(inner, ast.UnaryOp) else inner
        if isinstance(node, ast.Call) and each is node.func and isinstance(each, ast.Attribute):
            yield each.value


def _node_at(tree: ast.AST, span: Span) -> ast.AST | None:
    """The outermost call, operation or name that has just this part of the file."""
    return next((node for node in ast.walk(tree) if not isinstance(node, ast.Expr) and _span_of(node) == span), None)


def _span_of(node: ast.AST) -> Span | None:
    if not isinstance(node, (ast.expr, ast.stmt)) or node.end_lineno is None or node.end_col_offset is None:
        return None
    return Span(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _said(found: Linted, path: str, folder: str, row: int | None) -> Related:
    """What the linter says, with the row where that is another one."""
    command = ""
    if found.is_fixable(unsafe=True):
        unsafe = "" if found.is_fixable(unsafe=False) else " --unsafe-fixes"
        more = " --suspicions" if found.is_suspicion else ""
        command = f"amplint --fix{unsafe} --select {found.code}{more} {shlex.quote(_seen_from(path, folder))}"
    return Related(_at(row, found.said), _fix(found.fix, row) if found.fix else "", command)


def _fix(fix: Fix, row: int | None) -> str:
    """What a fix does; one without edits is to be made by hand."""
    return (
        _at(row, fix.advice) if fix.edits or row is None else fix.advice.replace("by hand", f"by hand in line {row}", 1)
    )


def _at(row: int | None, said: str) -> str:
    return said if row is None else f"line {row}: {said}"


def _seen_from(path: str, folder: str) -> str:
    below = folder.rstrip(os.sep) + os.sep
    return path[len(below) :] if path.startswith(below) else shown(path)


def _statement(tree: ast.AST, line: int) -> tuple[int, int]:
    """The first and the last line of the innermost statement on a line; of one that has a body its head."""
    best = (line, line)
    width = None
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            first, last = _span(node)
            if first <= line <= last and (width is None or last - first < width):
                best, width = (first, last), last - first
    return best


def _span(node: ast.stmt) -> tuple[int, int]:
    decorators: Iterable[ast.expr] = getattr(node, "decorator_list", ())
    first = min([node.lineno, *(each.lineno for each in decorators)])
    body: list[ast.stmt] = getattr(node, "body", [])
    if body and body[0].lineno > node.lineno:
        return first, max(node.lineno, _span(body[0])[0] - 1)
    return first, node.end_lineno or node.lineno


def _function(tree: ast.AST, line: int) -> ast.AST | None:
    """The innermost function that has a line; None outside of functions."""
    found = None
    for node in ast.walk(tree):  # the outer ones come first
        if isinstance(node, _Functions) and node.lineno <= line <= (node.end_lineno or node.lineno):
            found = node
    return found
