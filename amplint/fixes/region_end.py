"""Where a region ends and begins: the tail of a `with` moves out (AMP301, AMP302), what follows it moves in (AMP303).

Lines are shifted only where they don't start inside a string; comments move with the statements below them. Where the
moved tail is followed by statements that belong to the region, a second region is opened for them.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Edit, Fix
from amplint.fixes.edits import indentation, insert, line_end, line_start
from amplint.fixes.movable import is_movable
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import region_of
from amplint.model.syntax import ir
from amplint.model.syntax.scopes import owner_class
from amplint.sources.newer_strings import for_older_python

if TYPE_CHECKING:
    from amplint.model import Module


_BLANK_LINES = re.compile(r"(?:[ \t\f]*(?:\r\n?|\n))+")
_PURE = {f"builtins.{name}" for name in ("bool", "int", "str", "getattr", "isinstance", "len")}
# The methods that change a list, a set, a dict or a deque.
_CHANGING = {
    "append", "appendleft", "extend", "insert", "pop", "popleft", "popitem", "remove", "discard", "clear", "add",
    "update", "setdefault",
}  # fmt: skip


class Refused(NamedTuple):
    """Why the region can't be ended by an edit."""

    reason: str


def end_region(
    module: Module, region: ir.With, item: ir.Item, offending: list[ir.Statement], *, safe: bool
) -> Fix | Refused:
    """End `region` before each of the `offending` statements, which stand directly in its suite, in order.

    `item` is the autocast among the with's items. `safe` is what the caller knows of the statements that move.
    """
    body = region.body.statements
    runs = _runs(module, body, offending)
    if runs is None:
        mixed = module.line(next(each for each in offending if not is_movable(module, each)))
        return Refused(f"the statement on {mixed} also has code that may need the region; split that statement by hand")
    margins = _margins(module, region)
    if margins is None:
        return Refused("the region is on one line with other code; move the code by hand")
    outer, unit = margins
    if not _go_on_with_forwards(module, body, runs):
        return Refused("amplint sees no forward pass in the rest of the region; end the region by hand")
    if len(region.items) > 1:
        if len(runs) > 1 or runs[0][1] < len(body):
            return Refused(_leaves(module, region, item))
        return _split_items(module, region, item, runs[0][0], unit, safe=safe)
    header = _header(module, region)
    reopened = runs[-1][1] < len(body) or len(runs) > 1
    if (reason := _why_header_stays(module, region, item, reopened=reopened, goes=runs[0][0] == 0)) is not None:
        return Refused(reason)
    edits = [_without_header(module, region)] if runs[0][0] == 0 else []
    for first, stop in runs:
        stretch = _tail_start(module, region, first), _end(module, body[stop - 1])
        edits += shift(module, stretch, outer + unit, unit, outward=True)
        if stop < len(body):
            at = _after_blank_lines(module.source.text, _tail_start(module, region, stop))
            edits.append(insert(at, f"{outer}{header}{module.source.newline}"))
    title = "End the region before this statement" + (", and open a new region after it" if reopened else "")
    return Fix(_applicability(safe), title, tuple(sorted(edits)))


def _after_blank_lines(text: str, start: int) -> int:
    """Where the first line begins that isn't blank, from the beginning of a line on."""
    blank = _BLANK_LINES.match(text, start)
    return blank.end() if blank is not None else start


def _margins(module: Module, region: ir.With) -> tuple[str, str] | None:
    """The indentation of a region, and what its suite has more; None: not all have lines of their own."""
    outer, *inner = (indentation(module, each) for each in (region, *region.body.statements))
    if outer is None or inner[0] is None or not inner[0].startswith(outer) or None in inner:
        return None
    return outer, inner[0].removeprefix(outer)


def _without_header(module: Module, region: ir.With) -> Edit:
    """The edit that takes the `with` line away."""
    start = module.span(region)[0]
    return Edit(line_start(module, start), line_end(module, start), "")


def _why_header_stays(module: Module, region: ir.With, item: ir.Item, *, reopened: bool, goes: bool) -> str | None:
    """Why the `with` line can't be written again behind what leaves, where that is needed, or go from its place."""
    if _header(module, region) is None and (reopened or goes):
        return "the `with` line has a comment or a line break, which a fix can't keep in place; end the region by hand"
    if reopened and not _is_repeatable(module, region):
        return "a second region is needed, but a name in the `with` line has changed by then; write that region by hand"
    if item.target is not None and goes:
        return "the `with` has an `as` name, which a fix would remove; end the region by hand"
    return None


def extend_region(module: Module, region: ir.With, last: ir.Statement) -> Fix | Refused:
    """Take the statements behind `region`, up to `last` in the same suite, into it."""
    suite = region.block.statements
    if last.block is not region.block or suite.index(last) <= suite.index(region):
        return Refused("the region and the loss are in different blocks; move the loss into the region by hand")
    taken = suite[suite.index(region) + 1 : suite.index(last) + 1]
    outer, inner = indentation(module, region), indentation(module, region.body.statements[0])
    if outer is None or inner is None or any(indentation(module, each) != outer for each in taken):
        return Refused("the region is on one line with other code; move the code by hand")
    if len(region.items) > 1:
        return Refused(
            f"a fix would move the loss into {_others(module, region)} too; compute the loss in a `with` for autocast "
            "alone"
        )
    stretch = _end(module, region), _end(module, last)
    edits = shift(module, stretch, outer, inner.removeprefix(outer), outward=False)
    between = ", and the code between it and the region," if len(taken) > 1 else ""
    title = f"Move this statement{between} into the region"
    return Fix(Applicability.UNSAFE, title, tuple(sorted(edits)))


def begin_region_at(module: Module, region: ir.With, first: ir.Statement) -> Fix | Refused:
    """Let `region` begin before `first`, which stands further up in the same suite."""
    suite = region.block.statements
    between = suite[suite.index(first) : suite.index(region)]
    outer, inner = indentation(module, region), indentation(module, region.body.statements[0])
    header = _header(module, region)
    if outer is None or inner is None or any(indentation(module, each) != outer for each in between):
        return Refused("the region is on one line with other code; move the code by hand")
    if len(region.items) > 1:
        return Refused(
            f"a fix would move the forward pass into {_others(module, region)} too; begin a `with` for autocast alone "
            "before the forward pass"
        )
    if region.items[0].target is not None:
        return Refused("the `with` has an `as` name, which other code may use; move the `with` by hand")
    bound = {name for each in between for name in objects(module).assigned_in(each)}
    if (
        header is None
        or not _is_repeatable(module, region)
        or objects(module).names_in(region.items[0].context) & bound
    ):
        return Refused(
            "a name in the `with` line may change between the forward pass and the region; move the `with` by hand"
        )
    start = line_start(module, module.span(first)[0])
    own = _without_header(module, region)
    moved = insert(start, f"{outer}{header}{module.source.newline}")
    edits = shift(module, (start, own.start), outer, inner.removeprefix(outer), outward=False)
    return Fix(
        Applicability.UNSAFE,
        "Begin the region before the forward pass (the model then runs in half precision)",
        (moved, *edits, own),
    )


def _leaves(module: Module, region: ir.With, item: ir.Item) -> str:
    return f"ending the `with` would also end {_others(module, region, item)}; give autocast a `with` of its own"


def _others(module: Module, region: ir.With, item: ir.Item | None = None) -> str:
    """What a `with` enters besides autocast; `item`: autocast, if it isn't known by its name."""
    contexts = [each.context for each in region.items if each is not item]
    if item is None:
        contexts = [each for each in contexts if not (isinstance(each, ir.Call) and region_of(module, each))]
    return " and ".join(f"`{module.on_one_line(each)}`" for each in contexts) or "another context"


def _applicability(safe: bool) -> Applicability:
    return Applicability.SAFE if safe else Applicability.UNSAFE


def _runs(module: Module, body: list[ir.Statement], offending: list[ir.Statement]) -> list[tuple[int, int]] | None:
    """The stretches of the suite that leave: from an offending statement on as long as statements can move."""
    runs: list[tuple[int, int]] = []
    for statement in offending:
        first = body.index(statement)
        if runs and first < runs[-1][1]:
            continue
        stop = first
        while stop < len(body) and is_movable(module, body[stop]):
            stop += 1
        if stop == first:
            return None
        runs.append((first, stop))
    return runs


def _go_on_with_forwards(module: Module, body: list[ir.Statement], runs: list[tuple[int, int]]) -> bool:
    """Whether each stretch that stays behind one that leaves surely runs a forward: for others no region is opened."""
    ends = [*(first for first, _ in runs[1:]), len(body)]
    stretches = [body[stop:end] for (_, stop), end in zip(runs, ends, strict=True) if stop < end]
    return all(any(_runs_forward(module, each) for each in stretch) for stretch in stretches)


def _runs_forward(module: Module, statement: ir.Statement) -> bool:
    """Whether a statement surely computes as a region wants it: it calls a model, or multiplies matrices.

    A call of a method whose body is out of sight, as in `net.reset_state()`, is not seen to.
    """
    known = objects(module)
    owned = {key for keys in known.owns.values() for key in keys}
    for each in (statement, *(inner for block in statement.blocks() for inner in ir.walk_statements(block))):
        if isinstance(each, ir.AugAssign) and each.op == "MatrixMultiply":
            return True
        for root in each.values():
            for value in ir.walk_values(root):
                if isinstance(value, ir.Binary) and value.op == "MatrixMultiply":
                    return True
                if isinstance(value, ir.Call) and (known.key(value.func) in owned or _may_be_model(module, value)):
                    return True
    return False


def _may_be_model(module: Module, call: ir.Call) -> bool:
    """Whether a call that is given something has a result, and is of a variable, of an attribute of the object itself,
    or of torch."""
    func = call.func
    if not call.args or isinstance(call.parent, ir.Expr):
        return False
    if isinstance(func, ir.Attribute) and owner_class(func) is None:
        return any(name.startswith("torch.") for name in module.names.of(func))
    return not any(name.startswith("builtins.") for name in module.names.of(func))


def _split_items(module: Module, region: ir.With, item: ir.Item, index: int, unit: str, *, safe: bool) -> Fix | Refused:
    """`with a, autocast():` becomes two nested ones, of which only autocast's ends."""
    body = region.body.statements
    header = _header(module, region)
    if header is None or index == 0 or region.items[-1] is not item or region.is_async:
        return Refused(_leaves(module, region, item))
    end = module.layout.comma(region.items[-2])
    if end is None:
        return Refused(_leaves(module, region, item))
    inner = indentation(module, body[0]) or ""
    context = module.source.text[module.layout.span(item)[0] : module.layout.span(item)[1]]
    start = module.span(region)[0]
    edits = [
        Edit(end[0], line_end(module, start), f":{module.source.newline}{inner}with {context}:{module.source.newline}")
    ]
    stretch = _tail_start(module, region, 0), _end(module, body[index - 1])
    edits += shift(module, stretch, inner, unit, outward=False)
    return Fix(
        _applicability(safe),
        "Give autocast its own `with`, which ends before this statement",
        tuple(sorted(edits)),
    )


def _header(module: Module, region: ir.With) -> str | None:
    """The `with` line, if it is one line without a comment."""
    start = module.span(region)[0]
    line = module.source.text[start : line_end(module, start)].rstrip("\r\n").rstrip()
    last = region.items[-1]
    closed = module.source.row(module.layout.span(last)[1]) == module.source.row(start)
    return line if closed and line.endswith(":") and module.layout.parenthesised(region) is None else None


def _is_repeatable(module: Module, region: ir.With) -> bool:
    """Whether the `with` line means the same further down: plain reads and torch's calls, of nothing that changes."""
    known = objects(module)
    changed = {*known.assigned_in(region), *_contents_changed(module, region)}
    for value in ir.walk_values(region.items[0].context):
        if isinstance(value, (ir.Name, ir.Attribute)):
            key = known.own_key(value) if isinstance(value, ir.Name) else known.key(value)
            if key in changed or (isinstance(value, ir.Attribute) and _is_rebound(module, value.attr)):
                return False
        elif isinstance(value, ir.Call):
            names = module.names.of(value.func)
            if not all(name.startswith(("torch.", "contextlib.")) or name in _PURE for name in names):
                return False
        elif isinstance(value, (ir.Walrus, ir.Suspend, ir.Lambda, ir.Comprehension)):
            return False
    return True


def _contents_changed(module: Module, region: ir.With) -> Iterator[str | None]:
    """The keys of the lists, dicts and the like that the region changes: by a method, an index, or `del`."""
    known = objects(module)
    for statement in ir.walk_statements(region.body, into=False):
        for target in _targets(statement):
            if isinstance(target, ir.Subscript):
                yield known.key(target.base)
        for root in statement.values():
            for value in ir.walk_values(root):
                if isinstance(value, ir.Call) and isinstance(value.func, ir.Attribute) and value.func.attr in _CHANGING:
                    yield known.key(value.func.base)


def _is_rebound(module: Module, attr: str) -> bool:
    """Whether something else than a constructor sets an attribute of that name: a call in the region may do so."""
    return any(
        isinstance(target, ir.Attribute) and target.attr == attr
        for statement in module.whole.near(attr).statements
        if (function := ir.function_of(statement)) is not None and function.name not in ("__init__", "__post_init__")
        for target in _targets(statement)
    )


def _targets(statement: ir.Statement) -> tuple[ir.Value, ...]:
    if isinstance(statement, (ir.Assign, ir.Delete)):
        return statement.targets
    return (statement.target,) if isinstance(statement, ir.AugAssign) else ()


def _tail_start(module: Module, region: ir.With, index: int) -> int:
    """Where the lines of the body's statement `index` begin, with the comments above it."""
    if index == 0:
        last = region.items[-1]
        return line_end(module, module.layout.span(last)[1])
    return _end(module, region.body.statements[index - 1])


def _end(module: Module, statement: ir.Statement) -> int:
    return line_end(module, last_offset(module, statement))


def last_offset(module: Module, statement: ir.Statement) -> int:
    """Where a statement's own text ends; for a compound one, where its last suite's last statement does."""
    blocks = [block for block in statement.blocks() if block.statements]
    if blocks:
        return last_offset(module, blocks[-1].statements[-1])
    return module.span(statement)[1]


def shift(module: Module, stretch: tuple[int, int], indent: str, unit: str, *, outward: bool) -> list[Edit]:
    """Take `unit` from the indentation `indent` of the lines in a stretch, or add it."""
    (start, end), source = stretch, module.source
    inside = module.once(_rows_inside_strings)
    edits = []
    for row in range(source.row(start), len(source.line_starts) + 1):
        at = source.line_starts[row - 1]
        if at >= end:
            break
        line = source.line(row)
        if row in inside or not line.strip():
            continue
        if not outward:
            edits.append(insert(at, unit))
        elif line.startswith(indent):
            edits.append(Edit(at + len(indent) - len(unit), at + len(indent), ""))
        elif not line.lstrip().startswith("#"):  # a comment further left stays where it is
            lead = len(line) - len(line.lstrip(" \t"))
            edits.append(Edit(at, at + min(lead, len(unit)), ""))
    return edits


def _rows_inside_strings(module: Module) -> frozenset[int]:
    """The rows (from 1) whose first character belongs to a string that began above."""
    rows: set[int] = set()
    opened: list[int] = []
    starts = {getattr(tokenize, name, -1) for name in ("FSTRING_START", "TSTRING_START")}
    ends = {getattr(tokenize, name, -1) for name in ("FSTRING_END", "TSTRING_END")}
    text = for_older_python(module.source.text)
    # tokenize counts lines as io does: with universal newlines, like ours.
    for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
        if token.type == tokenize.STRING:
            rows.update(range(token.start[0] + 1, token.end[0] + 1))
        elif token.type in starts:
            opened.append(token.start[0])
        elif token.type in ends and opened:
            rows.update(range(opened.pop() + 1, token.end[0] + 1))
    return frozenset(rows)


def top_statement(node: ir.Node, region: ir.With) -> ir.Statement | None:
    """The statement directly in the region's suite that holds `node`; None for what stands in the header."""
    while node.parent is not region:
        assert node.parent is not None
        node = node.parent
    return node if isinstance(node, ir.Statement) else None


def enclosing_with(node: ir.Node, matches: Callable[[ir.Item], bool]) -> tuple[ir.With, ir.Item] | None:
    """The innermost with round `node` that has a matching item, in the same function."""
    up = node.parent
    while up is not None and not isinstance(up, ir.Function):
        if isinstance(up, ir.With):
            for item in up.items:
                if matches(item):
                    return up, item
        up = up.parent
    return None
