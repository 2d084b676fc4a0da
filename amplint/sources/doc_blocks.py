"""`--docs`: code in documents and docstrings, each block a program of its own, found and fixed where it stands."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from amplint.base.edits import apply
from amplint.base.findings import Edit, Finding, Fix
from amplint.base.paths import is_document
from amplint.sources.doc_snippets import Snippet, again, in_docstrings, in_markdown, in_rest
from amplint.sources.parsing import Refusal, parse, python_tree
from amplint.sources.source import Source

_IGNORED = re.compile(r"(?m)^[ \t]*(?:<!--|\.\.|\{/\*)[ \t]*amplint:[ \t]*ignore-file\b")
_LEFT_OUT = re.compile(r"(?m)(?:^|[:;])[ \t]*\.\.\.[ \t]*(?:#.*)?$|#[^#\n]*\.\.\.|…")
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
        *,
        shared: Mapping[str, int],
        number: int,
    ) -> None:
        # No file has this name, so nothing is taken from the project: a document isn't part of it.
        super().__init__(f"{document.filename}:", f"{imports}\n{snippet.code}" if imports else snippet.code)
        self.document = document
        self.snippet = snippet
        self.tree = tree  # of the snippet; None: it is no program
        self.unbound = unbound  # names, which is no mistake in a snippet
        self._shared = shared  # the last block, by its number, that takes a name from blocks above it
        self._number = number
        self.own = len(self.text) - len(snippet.code)  # where the snippet starts

    def is_shared(self, name: str) -> bool:
        """Whether a block below takes a name from those above it."""
        return self._shared.get(name, 0) > self._number

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
    shared: dict[str, int] = {}
    made = []
    for number, each in enumerate(found):
        tree = parse(Source("", each.code))
        if isinstance(tree, Refusal):
            made.append(Block(source, each, None, shared=shared, number=number))
            shared |= dict.fromkeys(re.findall(r"\w+", each.code), number)  # it may be one for others
            continue
        unbound = _unbound(tree)
        imports = "; ".join(dict.fromkeys(known[name] for name in sorted(unbound & known.keys())))
        made.append(Block(source, each, tree, imports, frozenset(unbound - known.keys()), shared=shared, number=number))
        shared |= dict.fromkeys(_taken(tree), number)
        known |= _imports(tree)
    return made


def _unbound(tree: ast.Module) -> set[str]:
    """Names that are read, and that nothing binds."""
    names = [each for each in ast.walk(tree) if isinstance(each, ast.Name)]
    bound = {each.id for each in names if not isinstance(each.ctx, ast.Load)}
    bound |= {each.arg for each in ast.walk(tree) if isinstance(each, ast.arg)}
    bound |= {each.name for each in ast.walk(tree) if isinstance(each, _DEFINITIONS)}
    return {each.id for each in names} - bound - _imports(tree).keys()


def _taken(tree: ast.Module) -> set[str]:
    """Names that are read above what binds them, if anything does."""
    bound = dict.fromkeys(_imports(tree), 0)
    bound |= {each.name: 0 for each in ast.walk(tree) if isinstance(each, _DEFINITIONS)}
    bound |= {each.arg: 0 for each in ast.walk(tree) if isinstance(each, ast.arg)}
    names = [each for each in ast.walk(tree) if isinstance(each, ast.Name)]
    for each in names:
        if not isinstance(each.ctx, ast.Load):
            bound[each.id] = min(bound.get(each.id, each.lineno), each.lineno)
    return {
        each.id for each in names if isinstance(each.ctx, ast.Load) and each.lineno <= bound.get(each.id, each.lineno)
    }


def _meanings(tree: ast.Module) -> dict[str, str]:
    """What imports and assignments bind names to; what a call makes is the same, however it is called."""
    found = _imports(tree)
    for each in tree.body:
        if isinstance(each, ast.Assign):
            value = "" if isinstance(each.value, ast.Call) else ast.unparse(each.value)
            found |= {target.id: value for target in each.targets if isinstance(target, ast.Name)}
    return found


def _changes(block: Block, after: ast.Module) -> bool:
    """Whether a name that blocks below take means something else when the block has become `after`."""
    old, new = (_meanings(tree) if tree else {} for tree in (block.tree, after))
    changed = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    return any(block.is_shared(name) and not (name in new and new[name] == _USUAL.get(name)) for name in changed)


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


def findings(
    source: Source, check: Callable[[Source], Iterable[Finding]], is_about_absence: Callable[[str], bool]
) -> Iterator[Finding]:
    """What `check` finds in the blocks, at its place in the document and with fixes of the document.

    A snippet shows what it is about, and not what else the program does. That something is missing, which the rules
    find whose codes are told, counts where nothing is left out and the scaler is made, used and done with in the block.
    """
    if _IGNORED.search(source.text):
        return
    for block in blocks(source):
        if block.tree is not None:
            code = block.snippet.code
            whole = _LEFT_OUT.search(code) is None and "GradScaler" in code
            for each in check(block):
                named = block.text[each.start : each.end]
                absent = not whole and is_about_absence(each.code)
                if not (each.start < block.own or each.code in _INNARDS or absent or named in block.unbound):
                    yield _outside(each, block)


def broken(before: Source, after: Source) -> str | None:
    """Why a document that was fixed can't be written: a block is no program any more."""
    programs, left = ([each for each in blocks(source) if each.tree is not None] for source in (before, after))
    return "a block would no longer be a valid program" if len(left) < len(programs) else None


def _outside(finding: Finding, block: Block) -> Finding:
    start = block.outside(finding.start)
    found = finding._replace(start=start, end=max(start, block.outside(finding.end, end=True)))
    if finding.fix is None or not finding.fix.edits:
        return found
    if min(finding.fix.edits).start < block.own:
        return found._replace(fix=None, withheld="the import that would have to change is in another block")
    edits = _edits(finding.fix, block)
    after = _made(finding.fix, edits, block) if edits is not None else None
    if edits is None or after is None:
        return found._replace(fix=None, withheld="the layout of the block in its document prevents the fix")
    tree = python_tree(Source("", after.code))
    if isinstance(tree, ast.Module) and _changes(block, tree):
        return found._replace(fix=None, withheld="another block uses a name whose meaning would change")
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


def _made(fix: Fix, edits: tuple[Edit, ...], block: Block) -> Snippet | None:
    """The block in the document with `edits` made; None where that isn't the block, fixed, in the same place."""
    region = block.snippet.region
    start, end = region.docstring or (region.start, region.end)
    if not all(region.start <= each.start <= each.end <= region.end for each in edits):
        return None
    moved = tuple(each._replace(start=each.start - start, end=each.end - start) for each in edits)
    text, done = apply(block.document.text[start:end], [fix._replace(edits=moved)])
    after = again(text, region) if done else None
    if after is None or after.code != apply(block.text, [fix])[0][block.own :]:
        return None
    return after if _spoiled(after) <= _spoiled(block.snippet) else None


def _spoiled(snippet: Snippet) -> int:
    """How many examples of a doctest it refuses: those that are no single statement."""
    examples: list[str] = []
    for line in snippet.lines if snippet.prompts else ():
        if line.lead.rstrip().endswith(">>>"):
            examples.append("")
        examples[-1] += f"{line.text}\n"
    return sum(1 for each in examples if not _is_one(python_tree(Source("", each))))


def _is_one(tree: ast.Module | Refusal) -> bool:
    return isinstance(tree, ast.Module) and len({each.lineno for each in tree.body}) < 2
