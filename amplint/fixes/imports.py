"""Edits of import statements that keep everything else on their lines: other names, comments, layout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Edit
from amplint.fixes.edits import alone_on_lines, has_comment, indentation, insert, line_end, line_start, remove_lines
from amplint.model.syntax import ir
from amplint.model.torch_facts.deprecated_names import Legacy

if TYPE_CHECKING:
    from amplint.model import Module


def rewrite_from_import(
    module: Module, statement: ir.Import, moved: dict[int, tuple[str, Legacy]]
) -> list[Edit] | None:
    """Import the aliases in `moved` (by id: their new home and name) from where they are now.

    Where every alias moves to one module, only that module's name changes; else the moved ones get a statement of their
    own, or join one that the suite already has. None: the statement shares its line in a way that forbids it.
    """
    homes = {home for home, _ in moved.values()}
    if len(moved) == len(statement.aliases) and len(homes) == 1:
        renamed = (edit for alias in statement.aliases for edit in _renamed(module, alias, moved))
        return [Edit(*module.layout.import_module(statement), homes.pop()), *renamed]
    # torch's own functions are renamed in place.
    stay = [alias for alias in statement.aliases if id(alias) in moved and moved[id(alias)][0] == statement.module]
    gone = [alias for alias in statement.aliases if id(alias) in moved and alias not in stay]
    return [
        *_imported_anew(module, statement, moved, sorted(homes - {statement.module})),
        *(edit for alias in stay for edit in _renamed(module, alias, moved)),
        *_without(module, statement, gone),
    ]


def _renamed(module: Module, alias: ir.Alias, moved: dict[int, tuple[str, Legacy]]) -> Iterator[Edit]:
    """The edit of an alias that has another name at its new home."""
    legacy = moved[id(alias)][1]
    if alias.name != legacy.name:
        start = module.layout.span(alias)[0]
        yield Edit(start, start + len(alias.name), legacy.name)


def _imported_anew(
    module: Module, statement: ir.Import, moved: dict[int, tuple[str, Legacy]], homes: list[str]
) -> list[Edit]:
    """What imports names from their new homes: they join an import above the statement, or get one before it."""
    edits = []
    lines = []
    for home in homes:
        names = [_alias_text(alias, moved) for alias in statement.aliases if moved.get(id(alias), ("",))[0] == home]
        existing = _existing(module, statement, home)
        if existing is not None:
            edits.append(insert(module.layout.span(existing.aliases[-1])[1], "".join(f", {name}" for name in names)))
        else:
            lines.append(f"from {home} import {', '.join(names)}")
    if lines:
        indent = indentation(module, statement)
        separator = "; " if indent is None else module.source.newline + indent
        edits.append(insert(module.span(statement)[0], "".join(line + separator for line in lines)))
    return edits


def _alias_text(alias: ir.Alias, moved: dict[int, tuple[str, Legacy]]) -> str:
    name = moved[id(alias)][1].name
    return f"{name} as {alias.asname}" if alias.asname else name


def _existing(module: Module, statement: ir.Import, home: str) -> ir.Import | None:
    """A `from home import ...` above the statement in its suite."""
    for each in statement.block.statements:
        if each is statement:
            return None
        if isinstance(each, ir.Import) and each.module == home and each.aliases[0].name != "*":
            return each
    return None


def _without(module: Module, statement: ir.Import, gone: list[ir.Alias]) -> list[Edit]:
    """Remove aliases with their commas; at least one other stays. A line that held nothing else goes as a whole."""
    edits = []
    text = module.source.text
    kept = [alias for alias in statement.aliases if alias not in gone]
    for alias in gone:
        start, end = module.layout.span(alias)
        comma = module.layout.comma(alias)
        if comma is None:
            # The last one: the comma before it goes, and everything between the two.
            last = kept[-1]
            start = module.layout.span(last)[1]
            between = module.layout.comma(last)
            if between is not None and has_comment(module, start, module.layout.span(alias)[0]):
                start = module.layout.span(alias)[0]
            edits.append(Edit(start, end, ""))
            continue
        end = comma[1]
        first, last_char = line_start(module, start), line_end(module, end)
        if not text[first:start].strip() and not text[end:last_char].strip():
            edits.append(Edit(first, last_char, ""))
        else:
            while end < len(text) and text[end] in " \t":
                end += 1
            edits.append(Edit(start, end, ""))
    return _disjoint(edits)


def _disjoint(edits: list[Edit]) -> list[Edit]:
    """Deletions that overlap become one."""
    merged: list[Edit] = []
    for edit in sorted(edits):
        if merged and edit.start < merged[-1].end:
            merged[-1] = Edit(merged[-1].start, max(merged[-1].end, edit.end), "")
        else:
            merged.append(edit)
    return merged


def alias_edit(module: Module, statement: ir.Import, alias: ir.Alias, new_module: str) -> list[Edit]:
    """`import torch.cuda.amp as amp` and `from torch.cuda import amp`: the same local name for another module."""
    start, end = module.layout.span(alias)
    if statement.module is None:
        return [Edit(start, end, f"{new_module} as {alias.asname}")]
    home, _, _ = new_module.rpartition(".")
    return [Edit(*module.layout.import_module(statement), home)]


def star_edit(module: Module, statement: ir.Import) -> list[Edit]:
    """`from torch.cuda.amp import *`: the same names from torch.amp, or from the module of it that defines them."""
    inside = (statement.module or "").partition(".amp")[2]
    return [Edit(*module.layout.import_module(statement), f"torch.amp{inside}")]


def drop_plain_import(module: Module, statement: ir.Import) -> list[Edit]:
    """`import torch.cuda.amp`, which nothing needs any more: gone where torch is imported otherwise, else that."""
    if len(statement.aliases) != 1:
        return []
    others = [
        each
        for each in statement.block.statements
        if isinstance(each, ir.Import)
        and each.module is None
        and each is not statement
        and any(alias.bound == "torch" and alias.asname is None for alias in each.aliases)
    ]
    if others and alone_on_lines(module, statement) and others[0].id < statement.id:
        return [remove_lines(module, statement)]
    return [Edit(*module.layout.span(statement.aliases[0]), "torch")]


def torch_instead(module: Module, statement: ir.Import, useless: ir.Alias | None, *, needed: bool) -> list[Edit]:
    """Import torch where that is `needed`, and drop the alias that nothing reads any more, if there is one."""
    start = module.span(statement)[0]
    indent = indentation(module, statement)
    if useless is not None and len(statement.aliases) == 1:
        if needed:
            return [Edit(*module.span(statement), "import torch")]
        return [remove_lines(module, statement)] if alone_on_lines(module, statement) else []
    edits = _without(module, statement, [useless]) if useless is not None else []
    if needed:
        edits.append(
            insert(start, "import torch; " if indent is None else f"import torch{module.source.newline}{indent}")
        )
    return edits
