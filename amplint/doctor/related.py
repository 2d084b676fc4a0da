"""What the linter says of the line that a finding of a run is about, and `explain` of what ended the program."""

from __future__ import annotations

import ast
import os
import shlex
from collections.abc import Iterable

from amplint.base.findings import Finding as Linted
from amplint.base.paths import contents, look_again, shown
from amplint.config.selection import ALWAYS
from amplint.config.settings import Overrides, Resolver
from amplint.doctor.findings import Finding, Related
from amplint.engine.file import check_bytes
from amplint.explain.search import find

_LONGEST = 300  # characters of a message
# A comment with this word may silence a whole file.
_DIRECTIVE = b"amplint:"
_Functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def related_to(finding: Finding, folder: str | None = None, since: float | None = None) -> Related | None:
    """What the finding's rule says of its statement, else of its function; that it says nothing is said as well.

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
        return _related(finding.code, path, finding.place.line, folder)
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


def _related(code: str, path: str, line: int, folder: str) -> Related | None:
    data = contents(path)
    tree = ast.parse(data)
    look_again()
    settings = Resolver(Overrides()).for_file(path)
    settings = settings._replace(codes=ALWAYS | {code}, unsafe_fixes=True, suspicions=True, unfixable=frozenset())
    result = check_bytes(data, path, settings, noqa=False)
    if any(each.code in ALWAYS for each in result.findings):
        return None  # it couldn't be read
    found = [each for each in result.findings if each.code == code]
    first, last = _statement(tree, line)
    here = [each for each in found if first <= each.location.row <= last]
    function = _function(tree, line)
    near = here or [each for each in found if _function(tree, each.location.row) is function]
    if near:
        best = min(near, key=lambda each: abs(each.location.row - line))
        return _said(best, path, folder, "" if here else f"line {best.location.row}: ")
    return None if _DIRECTIVE in data else Related(is_missed=True)


def _said(found: Linted, path: str, folder: str, where: str) -> Related:
    command = ""
    if found.is_fixable(unsafe=True):
        unsafe = "" if found.is_fixable(unsafe=False) else " --unsafe-fixes"
        more = " --suspicions" if found.is_suspicion else ""
        command = f"amplint --fix{unsafe} --select {found.code}{more} {shlex.quote(_seen_from(path, folder))}"
    fix = f"{where}{found.fix.advice}" if found.fix else ""
    return Related(f"{where}{found.said}", fix, command)


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
