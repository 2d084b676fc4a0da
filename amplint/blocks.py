"""`--docs`: code in documents and docstrings, each block a program of its own, found and fixed where it stands."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator

from amplint.edits import apply
from amplint.findings import Edit, Finding, Fix
from amplint.guard import Refusal, parse, python_tree
from amplint.paths import is_document
from amplint.snippets import Snippet, in_docstrings, in_markdown, in_rest
from amplint.source import Source

_IGNORED = re.compile(r"(?m)^[ \t]*(?:<!--|\.\.|\{/\*)[ \t]*amplint:[ \t]*ignore-file\b")
# A snippet shows what it is about, and not what else the program does: of these rules what is found is that something
# is missing. They count where nothing is left out, and the scaler is made, used and done with in the block.
_CLOSED_WORLD = frozenset({"AMP207", "AMP310", "AMP404", "AMP407", "AMP412", "AMP413", "AMP418", "AMP420", "AMP504"})
_LEFT_OUT = re.compile(r"(?m)(?:^|[:;])[ \t]*\.\.\.[ \t]*(?:#.*)?$|#.*(?:\.\.\.|…)|…")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_INNARDS = ("AMP000", "AMP001")
# What a snippet means by a name that nothing in its document binds.
_USUAL = {"torch": "import torch", "nn": "from torch import nn", "F": "import torch.nn.functional as F"}


class Block(Source):
    """A snippet as a program; its places are those of the document. A line of imports that it takes for granted, if
    there are any, stands before it.
    """

    def __init__(
        self,
        document: Source,
        snippet: Snippet,
        tree: ast.Module | None,
        imports: str = "",
        unbound: frozenset[str] = frozenset(),
    ) -> None:
        # No file has this name, so nothing is taken from the project: a document isn't part of it.
        super().__init__(f"{document.filename}:", f"{imports}\n{snippet.code}" if imports else snippet.code)
        self.document = document
        self.snippet = snippet
        self.tree = tree  # of the snippet; None: it is no program
        self.unbound = unbound  # names, which is no mistake in a snippet
        self.own = len(self.text) - len(snippet.code)  # where the snippet starts

    def line_of(self, offset: int) -> int:
        """The line of the snippet, from 0, that holds a character of the program."""
        return self.row(offset) - self.row(self.own)

    def outside(self, offset: int, *, end: bool = False) -> int:
        """Where a character of the program, or (`end`) the end of some, stands in the document."""
        lines, at, column = self.snippet.lines, self.line_of(offset), self.location(offset)[1]
        if at < 0:
            return lines[0].start
        if at and (at == len(lines) or (end and column == 1)):
            return lines[at - 1].start + len(lines[at - 1].text)
        return lines[at].start + column - 1

    def place(self, offset: int) -> tuple[int | None, int, int]:
        """Row and column in the document."""
        return self.document.place(self.outside(offset))


def blocks(source: Source) -> list[Block]:
    """The programs in a document's text, or in a program's docstrings."""
    if not is_document(source.filename):
        tree = python_tree(source)
        found: Iterable[Snippet] = () if isinstance(tree, Refusal) else in_docstrings(source.text, tree)
    else:
        found = (in_rest if source.filename.endswith(".rst") else in_markdown)(source.text)
    known = dict(_USUAL)
    made = []
    for each in found:
        tree = parse(Source("", each.code))
        if isinstance(tree, Refusal):
            made.append(Block(source, each, None))
            continue
        unbound = _unbound(tree)
        imports = "; ".join(dict.fromkeys(known[name] for name in sorted(unbound & known.keys())))
        made.append(Block(source, each, tree, imports, frozenset(unbound - known.keys())))
        known |= _imports(tree)
    return made


def _unbound(tree: ast.Module) -> set[str]:
    """Names that are read, and that nothing binds."""
    names = [each for each in ast.walk(tree) if isinstance(each, ast.Name)]
    bound = {each.id for each in names if not isinstance(each.ctx, ast.Load)}
    bound |= {each.arg for each in ast.walk(tree) if isinstance(each, ast.arg)}
    bound |= {each.name for each in ast.walk(tree) if isinstance(each, _DEFINITIONS)}
    return {each.id for each in names} - bound - _imports(tree).keys()


def _imports(tree: ast.Module) -> dict[str, str]:
    """The names that imports bind, each with an import of its own."""
    found = {}
    for each in ast.walk(tree):
        if isinstance(each, (ast.Import, ast.ImportFrom)):
            for alias in each.names:
                name = alias.asname or alias.name.partition(".")[0]
                start = "" if isinstance(each, ast.Import) else f"from {'.' * each.level}{each.module or ''} "
                found[name] = f"{start}import {alias.name}{f' as {alias.asname}' if alias.asname else ''}"
    found.pop("*", None)
    return found


def findings(source: Source, check: Callable[[Source], Iterable[Finding]]) -> Iterator[Finding]:
    """What `check` finds in the blocks, at its place in the document and with fixes of the document."""
    if _IGNORED.search(source.text):
        return
    every = blocks(source)
    for block in every:
        if block.tree is not None:
            code = block.snippet.code
            whole = _LEFT_OUT.search(code) is None and "GradScaler" in code
            for each in check(block):
                named = block.text[each.start : each.end]
                absent = each.code in _CLOSED_WORLD and not whole
                if not (each.start < block.own or each.code in _INNARDS or absent or named in block.unbound):
                    yield _outside(each, block, every)


def broken(before: Source, after: Source) -> str | None:
    """Why a document that was fixed can't be written: a block is no program any more."""
    programs, left = ([each for each in blocks(source) if each.tree is not None] for source in (before, after))
    return "a block would be no program any more" if len(left) < len(programs) else None


def _outside(finding: Finding, block: Block, every: list[Block]) -> Finding:
    start = block.outside(finding.start)
    found = finding._replace(start=start, end=max(start, block.outside(finding.end, end=True)))
    if finding.fix is None or not finding.fix.edits:
        return found
    if min(finding.fix.edits).start < block.own:
        return found._replace(fix=None, withheld="the import that would have to change stands in another block")
    edits = _edits(finding.fix, block)
    if edits is None or not _exact(finding.fix, edits, block, every):
        return found._replace(fix=None, withheld="the layout of the block in its document is in the way")
    return found._replace(fix=finding.fix._replace(edits=edits))


def _edits(fix: Fix, block: Block) -> tuple[Edit, ...] | None:
    """A fix of a block as one of its document; None where what it replaces isn't all code."""
    edits = []
    for start, end, content in fix.edits:
        first, last, at = block.outside(start), block.outside(end), block.line_of(start)
        if at == len(block.snippet.lines):  # behind the last line
            edits.append(Edit(first, last, _led("\n" + content.removesuffix("\n"), block, at - 1)))
        elif first <= last and _is_code(block, start, end, last - first):
            edits.append(Edit(first, last, _led(content, block, at)))
        else:
            return None
    return tuple(edits)


def _is_code(block: Block, start: int, end: int, length: int) -> bool:
    """Whether nothing but the code, and what stands before its lines, is in a stretch of the document."""
    lines = block.snippet.lines[block.line_of(start) : block.line_of(end) + 1]
    leads = sum(len(line.lead) for line in lines[1:])
    more = block.text.count("\n", start, end) * (len(block.document.newline) - 1)
    return length == end - start + more + leads


def _led(content: str, block: Block, at: int) -> str:
    """What a fix writes, with what the document has before each line of the block."""
    lead = block.snippet.lines[at].lead
    first, *others = content.split("\n")
    parts = [first]
    for number, line in enumerate(others, 1):
        last, before = number == len(others), lead
        if block.snippet.prompts and not (last and not line and first):
            before = re.sub(r">>>|\.\.\.", "..." if line[:1] in (" ", "\t") else ">>>", lead)
        parts.append(f"{block.document.newline}{before if line or last else before.rstrip()}{line}")
    return "".join(parts)


def _exact(fix: Fix, edits: tuple[Edit, ...], block: Block, every: list[Block]) -> bool:
    """Whether the document, with `edits` made, has the same blocks as before, but for this one, which is fixed."""
    source = block.document
    text, done = apply(source.text, [fix._replace(edits=edits)])
    wanted = apply(block.text, [fix])[0][block.own :]
    after = blocks(source.like(text))
    same = [each.snippet.code for each in after] == [wanted if each is block else each.snippet.code for each in every]
    return bool(done) and same and _strays(after) <= _strays(every)


def _strays(every: list[Block]) -> int:
    """Lines with a prompt that begins a statement, which are indented."""
    lines = (line for block in every for line in block.snippet.lines)
    return sum(1 for line in lines if line.lead.endswith(">>> ") and line.text[:1] in (" ", "\t"))
