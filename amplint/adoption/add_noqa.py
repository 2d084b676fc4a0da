"""`--add-noqa`: a comment at each finding, so that old code passes as it is and only what is new is reported."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from amplint.base.edits import apply
from amplint.base.findings import Applicability, Edit, Finding, Fix, Kind
from amplint.base.paths import is_document
from amplint.config.selection import SettingsError
from amplint.config.settings import Settings
from amplint.engine.file import check_bytes
from amplint.engine.result import Result
from amplint.sources.comments import layout
from amplint.sources.parsing import Refusal, python_tree, with_room
from amplint.sources.source import Source, SourceError
from amplint.suppression.directives import Directive, directives
from amplint.suppression.suppressions import UNSUPPRESSIBLE

# One round is enough, unless what it silences stood for others of the same cause, or a comment brings something new.
ROUNDS = 100
# What Python takes for the name of an encoding, where it stands at the top.
_ENCODING = re.compile(r"coding[:=]")


class Silenced(NamedTuple):
    """A file's new bytes, how many comments came or grew, what they silence, by its kind, and what is left."""

    data: bytes
    comments: int
    findings: Counter[Kind]
    result: Result


def refused(reason: str) -> str | None:
    """Why a text can't stand as the reason in a comment."""
    if not reason.isprintable() or _ENCODING.search(reason):
        return "it must be one line, and must not look like an encoding declaration"
    source = Source("", f"x  {_comment(['AMP401'], reason)}")
    said = [(len(each.codes or ()), each.end) for each in directives(source, layout(source.text))]
    return None if said == [(1, len(source.text))] else "it would start another comment"


def silence(data: bytes, filename: str, settings: Settings, reason: str) -> Silenced:
    """Put comments into a file that silence what is found in it.

    Raises:
        SettingsError: its encoding doesn't allow it.
    """
    result = check_bytes(data, filename, settings)
    found, rows = _silenceable(result), set[int]()
    for _ in range(ROUNDS):
        source = result.source
        added = comments_for(source, result.findings, reason) if source else []
        if source is None or not added:
            break
        data = _written(source, data, added)
        rows.update(source.row(each.start) for each in added)
        result = check_bytes(data, filename, settings)
    return Silenced(data, len(rows), found - _silenceable(result), result)


def _silenceable(result: Result) -> Counter[Kind]:
    return Counter(each.kind for each in result.findings if each.code not in UNSUPPRESSIBLE)


def comments_for(source: Source, findings: Iterable[Finding], reason: str = "") -> list[Edit]:
    """The edits that put comments into a program which silence findings of its; none where there is no room for one.

    Code in documents and docstrings is left as it is: readers would take the comment for a part of the example.
    """
    tree = python_tree(source)
    if isinstance(tree, Refusal) or is_document(source.filename):
        return []
    texts = [*_texts(source, tree)]
    findings = [each for each in findings if not any(each.start in text for text in texts)]
    edits = _edits(source, _places(source, findings), reason)
    # Behind what IPython reads a comment would be a part of that.
    return [each for each in edits if each.content and not source.replaced(each.start - 1)]


def _texts(source: Source, tree: ast.Module) -> Iterator[range]:
    """Where strings stand by themselves, as docstrings do."""
    for each in ast.walk(tree):
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) and isinstance(each.value.value, str):
            row = each.end_lineno or each.lineno
            column = len(source.line(row).encode()[: each.end_col_offset].decode())
            yield range(source.offset(each.lineno, 1), source.offset(row, 1) + column)


def _places(source: Source, findings: Iterable[Finding]) -> dict[int, list[str]]:
    """The rows that get a comment, and its codes: one is enough for a code in a statement."""
    places: dict[int, list[str]] = {}
    seen: set[tuple[int, str]] = set()
    for each in findings:
        if each.code in UNSUPPRESSIBLE:
            continue
        row = source.row(each.start)
        key = layout(source.text).statement(row).start, each.code
        place = layout(source.text).row_with_room(row)
        if place is not None and key not in seen:
            seen.add(key)
            places.setdefault(place, []).append(each.code)
    return places


def _edits(source: Source, places: dict[int, list[str]], reason: str) -> Iterator[Edit]:
    known: dict[int, Directive] = {}
    for each in directives(source, layout(source.text)):
        if each.codes and each.kind in ("noqa", "ignore"):
            row = source.row(each.start)
            if row not in known or known[row].kind == "ignore":
                known[row] = each
    for row, codes in places.items():
        if row in known:
            yield from _more(source.text, known[row], codes, reason)
        else:
            end = source.offset(row, 1) + len(source.line(row))
            blanks = len(source.line(row)) - len(source.line(row).rstrip(" "))
            yield Edit(end, end, " " * (2 - blanks) + _comment(codes, reason))


def _more(text: str, directive: Directive, codes: list[str], reason: str) -> Iterator[Edit]:
    """The edits that add codes to a comment, and the reason if it gives none."""
    own = directive.codes or ()
    between = text[own[0].end : own[1].start] if len(own) > 1 else ", "
    named = {code.text for code in own}
    added = "".join(between + code for code in codes if code not in named)
    end = own[-1].end if directive.kind == "noqa" else text.index("]", own[-1].end) + 1
    why = f"{' -' * (directive.kind == 'noqa')} {reason}" if reason and not text[end : directive.end].strip() else ""
    if end == own[-1].end:
        yield Edit(end, end, added + why)
    else:
        yield Edit(own[-1].end, own[-1].end, added)
        if why:
            yield Edit(end, end, why)


def _comment(codes: list[str], reason: str) -> str:
    return f"# noqa: {', '.join(codes)}{f' - {reason}' if reason else ''}"


def _written(source: Source, data: bytes, added: list[Edit]) -> bytes:
    """A file's bytes with comments added."""
    text, _ = apply(source.text, [Fix(Applicability.SAFE, "", tuple(added))])
    try:
        same, written = source.encode(source.text) == data, source.encode(text)
    except SourceError as error:
        raise SettingsError(f"{source.filename}: {error}") from None
    if not same:
        raise SettingsError(f"{source.filename}: the file's {source.encoding} text can't be written back unchanged")
    if not with_room(lambda: _program(source) == _program(source.like(text))):
        raise ValueError("the comments would change the program")
    return written


def _program(source: Source) -> str | None:
    tree = python_tree(source)
    return ast.dump(tree) if isinstance(tree, ast.Module) else None
