"""Where code stands in a document: fenced blocks of Markdown, blocks of reStructuredText, doctests, in docstrings too.

Nothing is decided here about what the code means; what claims to be Python is given as it stands, without what the
document puts before each line.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from amplint.sources.parsing import python_tree
from amplint.sources.source import LINE_END, Source, starts_of_lines

_PYTHON = {"py", "py3", "pycon", "pycon3", "python", "python3", "python-repl", "ipython", "ipython3", "doctest"}
_FENCE = re.compile(
    r"(?P<lead>(?:[ \t]*>)*[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?)(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)$"
)
_QUOTED = re.compile(r"[ \t]*(?:>[ \t]?)*")
# `python`, `{.python .numberLines}`, `{code-block} python`, `python title="x"`
_ROLE = re.compile(r"\{(?:code-block|code-cell|code|sourcecode|testcode|doctest)\}[ \t]*(?P<name>[\w-]*)")
_INFO = re.compile(r"\{?[ \t]*\.?(?P<name>[\w+#-]*)")
_DIRECTIVE = re.compile(r"(?P<lead>[ \t]*)\.\.[ \t]+(?P<what>[\w-]+)::(?:[ \t]*(?P<name>[\w+-]+))?[ \t]*$")
_CODE_DIRECTIVES = {"code", "code-block", "sourcecode", "testcode", "testsetup", "doctest", "jupyter-execute"}
_PROMPT = re.compile(r"(?P<lead>[ \t]*)(?P<mark>>>>|\.\.\.)(?:[ ]|$)")
_OPTION = re.compile(r"[ \t]*:[\w-]+:")
_DOCSTRING = re.compile(r"""(?P<prefix>[rRuU]?)(?P<quotes>\"\"\"|''')(?P<body>.*)(?P=quotes)""", re.DOTALL)


class Line(NamedTuple):
    """A line of code: where it starts in the document, and its text; `lead` stands before it."""

    start: int
    text: str
    lead: str


class Region(NamedTuple):
    """The whole lines that a snippet was found in, and how they are read."""

    start: int
    end: int
    fences: bool
    rest: bool
    margin: str = ""  # what the other lines of a docstring are indented by, where this begins with its first one
    docstring: tuple[int, int] | None = None  # with its quotes


class Snippet(NamedTuple):
    """Lines of code that belong together; with `prompts` there may be output between them."""

    lines: tuple[Line, ...]
    region: Region
    prompts: bool = False

    @property
    def code(self) -> str:
        """The lines as one text."""
        return "".join(f"{line.text}\n" for line in self.lines)


def in_markdown(text: str) -> Iterator[Snippet]:
    """The fenced blocks of Python in a Markdown document."""
    yield from _snippets(text, Region(0, len(text), fences=True, rest=False))


def in_rest(text: str) -> Iterator[Snippet]:
    """The code blocks of a reStructuredText document, and its doctests."""
    yield from _snippets(text, Region(0, len(text), fences=False, rest=True))


def in_docstrings(text: str, tree: ast.Module) -> Iterator[Snippet]:
    """Code of all these forms in a program's docstrings; none that has an escape in it."""
    starts = [*starts_of_lines(text), len(text)]
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) or not node.body:
            continue
        first = node.body[0]
        value = first.value if isinstance(first, ast.Expr) else None
        if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
            continue
        first_row, last_row = value.lineno - 1, (value.end_lineno or value.lineno) - 1
        line, last = (text[starts[row] : starts[row + 1]] for row in (first_row, last_row))
        before = line.encode()[: value.col_offset].decode()
        start = starts[first_row] + len(before)
        end = starts[last_row] + len(last.encode()[: value.end_col_offset].decode())
        found = _DOCSTRING.fullmatch(text, start, end)
        if found is None or found["quotes"] in found["body"]:
            continue
        margin = "" if before.strip() else before
        for each in _snippets(text, Region(*found.span("body"), True, True, margin, (start, end))):
            if "\\" not in each.code or found["prefix"] in ("r", "R"):
                yield each


def again(text: str, region: Region) -> Snippet | None:
    """The snippet in a region that was changed, or None if something else is there now, or what follows is read anew.

    `text` is that of the region, or of its docstring.
    """
    outer = region.docstring or region[:2]
    start, end = region.start - outer[0], len(text) - (outer[1] - region.end)
    if region.docstring and not _is_docstring(text):
        return None
    found = [*_snippets(text, region._replace(start=start, end=end))]
    if len(found) != 1 or found[0].region[:2] != (start, end):
        return None
    escapes = region.docstring and "\\" in found[0].code and text[0] not in "rR"
    return None if escapes else found[0]


def _is_docstring(text: str) -> bool:
    """Whether a text is one string, as in_docstrings takes it."""
    found = _DOCSTRING.fullmatch(text)
    if found is None or found["quotes"] in found["body"]:
        return False
    tree = python_tree(Source("", text))
    return isinstance(tree, ast.Module) and len(tree.body) == 1


def _lines(text: str, start: int, end: int) -> list[Line]:
    """The lines of a stretch of text; the first of a docstring has no indentation, which is that of the others."""
    found = []
    for each in LINE_END.finditer(text, start, end):
        found.append(Line(start, text[start : each.start()], ""))
        start = each.end()
    return [*found, Line(start, text[start:end], "")]


def _snippets(text: str, region: Region) -> Iterator[Snippet]:
    """The snippets in a region of a text, each with its own."""
    lines = _lines(text, region.start, region.end)
    at = 0
    while at < len(lines):
        first = at
        body, at = _block(lines, at, region)
        if body:
            start, end = lines[first].start, lines[at].start if at < len(lines) else region.end
            own = region._replace(start=start, end=end, margin="" if first else region.margin)
            found = _made(body, own)
            if found.lines:
                yield found


def _block(lines: list[Line], at: int, region: Region) -> tuple[list[Line] | None, int]:
    """The lines of code of the block that a line begins, if it begins one, and where the document goes on."""
    line = lines[at].text
    if region.fences and (fence := _FENCE.match(line)):
        return _fenced(lines, at, fence)
    if not region.rest:
        return None, at + 1
    if (opened := _opens(line)) is not None:
        body, after = _indented(lines, at + 1, opened if at else region.margin + opened)
        return body, after if body else at + 1
    end = at
    if (prompt := _PROMPT.match(line)) and prompt["mark"] == ">>>":
        while end < len(lines) and (lines[end].text.strip() or _goes_on(lines, end)):
            end += 1
    return lines[at:end], max(end, at + 1)


def _goes_on(lines: list[Line], at: int) -> bool:
    """Whether a doctest goes on behind an empty line."""
    return at + 1 < len(lines) and _PROMPT.match(lines[at + 1].text) is not None


def _fenced(lines: list[Line], at: int, fence: re.Match[str]) -> tuple[list[Line] | None, int]:
    """What stands between two fences, if it is Python, and where the document goes on."""
    mark = fence["mark"]
    closing = re.compile(rf"(?:[ \t]*>)*[ \t]*{re.escape(mark[0])}{{{len(mark)},}}[ \t]*$")
    end = at + 1
    while end < len(lines) and not closing.match(lines[end].text):
        end += 1
    role = _ROLE.match(fence["info"].strip())
    info = role or _INFO.match(fence["info"].strip())
    name = info["name"].lower() if info else ""
    if not (name in _PYTHON or (role and not name)):
        return None, end + 1
    body = lines[at + 1 : end]
    if ">" in fence["lead"]:
        leads = [_QUOTED.match(each.text) for each in body]
        ends = [lead.end() if lead else 0 for lead in leads]
        body = [Line(each.start + n, each.text[n:], each.text[:n]) for each, n in zip(body, ends, strict=True)]
    while body and _OPTION.match(body[0].text):
        body = body[1:]
    return body, end + 1


def _opens(text: str) -> str | None:
    """The indentation of a line of reStructuredText behind which an indented block of code may stand."""
    if directive := _DIRECTIVE.match(text):
        python = directive["what"] in _CODE_DIRECTIVES and (directive["name"] or "python").lower() in _PYTHON
        return directive["lead"] if python else None
    said = text.strip(" \t")
    literal = said.endswith("::") and not said.startswith((".. ", "..\t"))
    return text[: len(text) - len(text.lstrip(" \t"))] if literal else None


def _indented(lines: list[Line], at: int, outer: str) -> tuple[list[Line], int]:
    """The lines from `at` on that are indented deeper than `outer`, without options, and where they end."""
    wide = len(outer.expandtabs())
    end = at
    while end < len(lines):
        text = lines[end].text.expandtabs()
        if text.strip() and len(text) - len(text.lstrip()) <= wide:
            break
        end += 1
    while at < end and (_OPTION.match(lines[at].text) or not lines[at].text.strip()):
        at += 1
    return lines[at:end], end


def _made(body: list[Line], region: Region) -> Snippet:
    """A snippet of the lines of a block: without prompts and output, or without what all lines are indented by."""
    prompts = [(line, found) for line in body if (found := _PROMPT.match(line.text))]
    if prompts and prompts[0][1]["mark"] == ">>>":
        kept = [
            Line(line.start + found.end(), line.text[found.end() :], line.lead + found[0].ljust(found.end("mark") + 1))
            for line, found in prompts
        ]
        return Snippet(tuple(kept), region, prompts=True)
    while body and not body[-1].text.strip():
        body = body[:-1]
    full = [line.text for line in body if line.text.strip()]
    indents = {line[: len(line) - len(line.lstrip(" \t"))] for line in full}
    common = min(indents, key=len, default="")
    if not all(each.startswith(common) for each in indents):
        return Snippet((), region)
    n = len(common)
    own = (Line(each.start + min(n, len(each.text)), each.text[n:], each.lead + common) for each in body)
    return Snippet(tuple(own), region)
