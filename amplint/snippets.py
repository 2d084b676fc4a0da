"""Where code stands in a document: fenced blocks of Markdown, blocks of reStructuredText, doctests, in docstrings too.

Nothing is decided here about what the code means; what claims to be Python is given as it stands, without what the
document puts before each line.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from amplint.source import LINE_END

_PYTHON = {"py", "py3", "pycon", "pycon3", "python", "python3", "python-repl", "ipython", "ipython3", "doctest"}
_FENCE = re.compile(
    r"(?P<lead>[ \t]*(?:>[ \t]?)*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?[ \t]*)(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)$"
)
_QUOTED = re.compile(r"[ \t]*(?:>[ \t]?)*")
# `python`, `{.python .numberLines}`, `{code-block} python`, `python title="x"`
_ROLE = re.compile(r"\{(?:code-block|code-cell|code|sourcecode|testcode|doctest)\}[ \t]*(?P<name>[\w-]*)")
_INFO = re.compile(r"\{?[ \t]*\.?(?P<name>[\w+#-]*)")
_DIRECTIVE = re.compile(r"(?P<lead>[ \t]*)\.\.[ \t]+(?P<what>[\w-]+)::[ \t]*(?P<name>[\w+-]*)[ \t]*$")
_CODE_DIRECTIVES = {"code", "code-block", "sourcecode", "testcode", "testsetup", "doctest", "jupyter-execute"}
_LITERAL = re.compile(r"(?P<lead>[ \t]*)(?!\.\.[ \t]).*::[ \t]*$")
_PROMPT = re.compile(r"(?P<lead>[ \t]*)(?P<mark>>>>|\.\.\.)(?:[ ]|$)")
_OPTION = re.compile(r"[ \t]*:[\w-]+:")
_DOCSTRING = re.compile(r"""(?P<prefix>[rRuU]?)(?P<quotes>\"\"\"|''')(?P<body>.*)(?P=quotes)""", re.DOTALL)


class Line(NamedTuple):
    """A line of code: where it starts in the document, and its text; `lead` stands before it."""

    start: int
    text: str
    lead: str


class Snippet(NamedTuple):
    """Lines of code that belong together; with `prompts` there may be output between them."""

    lines: tuple[Line, ...]
    prompts: bool = False

    @property
    def code(self) -> str:
        """The lines as one text."""
        return "".join(f"{line.text}\n" for line in self.lines)


def in_markdown(text: str) -> Iterator[Snippet]:
    """The fenced blocks of Python in a Markdown document."""
    yield from _snippets(_lines(text), fences=True, rest=False)


def in_rest(text: str) -> Iterator[Snippet]:
    """The code blocks of a reStructuredText document, and its doctests."""
    yield from _snippets(_lines(text), fences=False, rest=True)


def in_docstrings(text: str, tree: ast.Module) -> Iterator[Snippet]:
    """Code of all these forms in a program's docstrings; none that has an escape in it."""
    starts = [0, *(end.end() for end in LINE_END.finditer(text))]
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) or not node.body:
            continue
        first = node.body[0]
        value = first.value if isinstance(first, ast.Expr) else None
        if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
            continue
        line = text[starts[value.lineno - 1] :]
        start = starts[value.lineno - 1] + len(line.encode()[: value.col_offset].decode())
        last = starts[(value.end_lineno or value.lineno) - 1]
        end = last + len(text[last:].encode()[: value.end_col_offset].decode())
        found = _DOCSTRING.fullmatch(text, start, end)
        if found is None or found["quotes"] in found["body"]:
            continue
        for each in _snippets(_lines(text, *found.span("body")), fences=True, rest=True):
            if "\\" not in each.code or found["prefix"] in ("r", "R"):
                yield each


def _lines(text: str, start: int = 0, end: int | None = None) -> list[Line]:
    """The lines of a stretch of text; the first of a docstring has no indentation, which is that of the others."""
    end = len(text) if end is None else end
    found = []
    for each in LINE_END.finditer(text, start, end):
        found.append(Line(start, text[start : each.start()], ""))
        start = each.end()
    return [*found, Line(start, text[start:end], "")]


def _snippets(lines: list[Line], *, fences: bool, rest: bool) -> Iterator[Snippet]:
    at = 0
    while at < len(lines):
        text = lines[at].text
        body: list[Line] | None = None
        if fences and (fence := _FENCE.match(text)):
            body, at = _fenced(lines, at, fence)
        elif rest and (opened := _opens(text)) is not None:
            body, after = _indented(lines, at + 1, opened)
            at = after if body else at + 1
        elif rest and (prompt := _PROMPT.match(text)) and prompt["mark"] == ">>>":
            first = at
            while at < len(lines) and (lines[at].text.strip() or _goes_on(lines, at)):
                at += 1
            body = lines[first:at]
        else:
            at += 1
        if body and (found := _made(body)).lines:
            yield found


def _goes_on(lines: list[Line], at: int) -> bool:
    """Whether a doctest goes on behind an empty line."""
    return at + 1 < len(lines) and _PROMPT.match(lines[at + 1].text) is not None


def _fenced(lines: list[Line], at: int, fence: re.Match[str]) -> tuple[list[Line] | None, int]:
    """What stands between two fences, if it is Python, and where the document goes on."""
    mark = fence["mark"]
    closing = re.compile(rf"{_QUOTED.pattern}[ \t]*{re.escape(mark[0])}{{{len(mark)},}}[ \t]*$")
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
        python = directive["what"] in _CODE_DIRECTIVES and (directive["name"].lower() or "python") in _PYTHON
        return directive["lead"] if python else None
    literal = _LITERAL.match(text)
    return literal["lead"] if literal else None


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


def _made(body: list[Line]) -> Snippet:
    """A snippet of the lines of a block: without prompts and output, or without what all lines are indented by."""
    prompts = [(line, found) for line in body if (found := _PROMPT.match(line.text))]
    if prompts and prompts[0][1]["mark"] == ">>>":
        kept = [
            Line(line.start + found.end(), line.text[found.end() :], line.lead + found[0].ljust(found.end("mark") + 1))
            for line, found in prompts
        ]
        return Snippet(tuple(kept), prompts=True)
    while body and not body[-1].text.strip():
        body = body[:-1]
    full = [line.text for line in body if line.text.strip()]
    indents = {line[: len(line) - len(line.lstrip(" \t"))] for line in full}
    common = min(indents, key=len, default="")
    if not all(each.startswith(common) for each in indents):
        return Snippet(())
    n = len(common)
    return Snippet(tuple(Line(each.start + min(n, len(each.text)), each.text[n:], each.lead + common) for each in body))
