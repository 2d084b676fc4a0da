"""The comments of a text, the statements that they stand in, and the lines that have room for one."""

from __future__ import annotations

import re
import tokenize
from bisect import bisect_right
from functools import lru_cache
from typing import NamedTuple

from amplint.base.findings import Edit
from amplint.sources.newer_strings import for_older_python
from amplint.sources.source import Source, lines_of

_NO_CODE = (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
# Since Python 3.12 (3.14) a string with fields is several tokens.
_OPENING = tuple(getattr(tokenize, name) for name in ("FSTRING_START", "TSTRING_START") if hasattr(tokenize, name))
_CLOSING = tuple(getattr(tokenize, name) for name in ("FSTRING_END", "TSTRING_END") if hasattr(tokenize, name))
# What a comment says to a tool about its line: on a line of its own it would say more, or nothing.
_TO_TOOLS = re.compile(
    r"(?i)#\s*(noqa\b|nosec\b|(?:type|pyright|pyre|pytype|mypy|pylint|pragma|fmt|isort|yapf|ruff|amplint):)"
)


class Comment(NamedTuple):
    """A comment, its row from 1 and its column from 0."""

    row: int
    column: int
    text: str


class Layout(NamedTuple):
    """The comments of a text, the rows of each statement (of a compound one: of its header), and the rows with room."""

    comments: list[Comment]
    statements: list[range]
    room: set[int]  # a comment may be put at the end of these rows

    def statement(self, row: int) -> range:
        """The rows of the statement that `row` belongs to; else that row."""
        at = bisect_right(self.statements, row, key=lambda rows: rows.start) - 1
        return self.statements[at] if at >= 0 and row in self.statements[at] else range(row, row + 1)

    def row_with_room(self, row: int) -> int | None:
        """The row, this or one below in its statement, that takes a comment: no string, no backslash is in the way."""
        return next((each for each in range(row, self.statement(row).stop) if each in self.room), None)


@lru_cache(maxsize=2)
def layout(text: str) -> Layout:
    """The layout of a text, as far as it can be tokenized."""
    found, is_whole = _layout(text)
    return found if is_whole or (older := for_older_python(text)) == text else _layout(older)[0]


def _layout(text: str) -> tuple[Layout, bool]:
    """The same as this Python tokenizes it, and whether it could do so to the end."""
    found = Layout([], [], set())
    first = strings = 0
    # tokenize knows no lone \r, which Python does; the columns are the same.
    lines = (f"{line}\n" for line in lines_of(text))
    try:
        for token in tokenize.generate_tokens(lambda: next(lines, "")):
            strings += (token.type in _OPENING) - (token.type in _CLOSING)
            if token.type in (tokenize.NL, tokenize.NEWLINE) and not strings:
                found.room.add(token.start[0])
            if token.type == tokenize.COMMENT:
                found.comments.append(Comment(*token.start, token.string))
            elif token.type == tokenize.NEWLINE:
                found.statements.append(range(first or token.start[0], token.start[0] + 1))
                first = 0
            elif not first and token.type not in _NO_CODE:
                first = token.start[0]
    except (tokenize.TokenError, SyntaxError, ValueError, SystemError):
        return found, False  # Python's parser reports it. 3.12 and 3.13 raise SystemError for some texts with NUL.
    return found, True


def keeping_comments(source: Source, edits: tuple[Edit, ...]) -> tuple[Edit, ...] | None:
    """The edits, made so that they take no comment away that none of them writes; None where that can't be.

    What stands behind a statement that goes gets a line of its own, but for what tells a tool about that line.
    """
    taking = [each for each in edits if "#" in source.text[each.start : each.end]]
    left: dict[Edit, list[str]] = {}
    for row, column, comment in layout(source.text).comments if taking else ():
        start, line = source.offset(row, 1), source.line(row)
        code = line[:column].strip()
        first = start + len(line) - len(line.lstrip())
        for each in taking:
            if each.start <= start + column < each.end and not any(comment in edit.content for edit in edits):
                if each.content or not code or first < each.start:
                    return None
                if not _TO_TOOLS.match(comment):
                    left.setdefault(each, []).append(comment)
    return tuple(_leaving(source, each, left[each]) if each in left else each for each in edits)


def _leaving(source: Source, edit: Edit, comments: list[str]) -> Edit:
    """The removal of a statement that leaves its comments where it stood, a line each."""
    gone = source.text[edit.start : edit.end]
    lead = gone[: len(gone) - len(gone.lstrip())]
    line = source.line(source.row(edit.start + len(lead)))
    between = source.newline + line[: len(line) - len(line.lstrip())]
    return edit._replace(content=lead + between.join(comments) + gone[len(gone.rstrip("\r\n")) :])
