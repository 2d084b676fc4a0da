"""Which bindings of a name a read can still see: those that no later assignment on every way to it replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model import ir
from amplint.model.deciding import block_leaves, may_suppress
from amplint.model.scopes import Assigned, Binding, Defined, Names, node_of

if TYPE_CHECKING:
    from amplint.model import Module


def reaching(names: Names, read: ir.Name) -> list[Binding]:
    """The bindings of `read` without those that are surely replaced before it, or made only after it."""
    bindings = names.bindings(read)
    home = read.scope.home(read.name)
    if len(bindings) < 2 or home is None or home.kind == "class":
        return bindings
    around: list[ir.Statement] = []
    later = False  # a function inside runs after its home's own statements
    node = read.parent
    while node is not None and not (isinstance(node, ir.Function) and node.scope is home):
        later = later or isinstance(node, ir.Function)
        if isinstance(node, ir.Statement):
            around.append(node)
        node = node.parent
    passed = _passed(bindings, around, later)
    replaced = max(passed.values(), default=0)
    # A round of a loop that makes one of its own leaves none of the last round's.
    loops = [
        each
        for each in around
        if isinstance(each, (ir.For, ir.While)) and not any(_stands_in(top, each) for top in passed)
    ]
    return [
        each
        for each in bindings
        if _place(each) >= replaced
        and (later or _place(each) < read.id or any(_stands_in(node_of(each), loop) for loop in loops))
    ]


def only_assignment(names: Names, read: ir.Name) -> Assigned | None:
    """The assignment that a read sees, where it can see no other binding."""
    bindings = reaching(names, read)
    only = bindings[0] if len(bindings) == 1 else None
    return only if isinstance(only, Assigned) else None


def function_named(module: Module, name: ir.Name) -> ir.Function | None:
    """The function of this file that a name surely is."""
    home = name.scope.home(name.name)
    if home is None or len(home.bindings[name.name]) != 1:
        return None
    only = home.bindings[name.name][0]
    function = only.what if isinstance(only, Defined) and isinstance(only.what, ir.Function) else None
    return function if function is not None and module.is_own(function) and function.scope.parent is home else None


def returned(function: ir.Function) -> list[ir.Return]:
    """The return statements of a function."""
    return [each for each in ir.walk_statements(function.body, into=False) if isinstance(each, ir.Return)]


def _passed(bindings: list[Binding], around: list[ir.Statement], later: bool) -> dict[ir.Statement, float]:
    """The statements that every way to the read passes, and the place of the last binding that each surely makes."""
    made = {assign.id: _place(each) for each in bindings if (assign := _assignment(each)) is not None}
    tops = [_passed_by(_assignment(each), around, later) for each in bindings]
    places = {each: _bound_by(each, made) for each in tops if each is not None}
    return {each: place for each, place in places.items() if 0 < place < float("inf")}


def _assignment(binding: Binding) -> ir.Assign | None:
    """The plain assignment that makes a binding."""
    assign = binding.target.parent if isinstance(binding, Assigned) else None
    while isinstance(assign, ir.Sequence):  # `a, b = c, d`
        assign = assign.parent
    return assign if isinstance(assign, ir.Assign) else None


def _passed_by(assign: ir.Assign | None, around: list[ir.Statement], later: bool) -> ir.Statement | None:
    """The statement that every way to the read passes and an assignment stands in, below withs and ifs only."""
    each: ir.Node | None = assign
    while isinstance(each, (ir.Assign, ir.If, ir.With)):
        if later and isinstance(each.block.owner, (ir.Function, ir.Program)):
            return each
        if not later and any(one.block is each.block and each.id < one.id for one in around):
            return each
        each = each.parent
    return None


def _bound_by(statement: ir.Statement, made: dict[int, float]) -> float:
    """The place of the last binding that is surely made once a statement has been passed; 0: none is."""
    if isinstance(statement, ir.With):
        return _bound_in(statement.body, made) if not may_suppress(statement) else 0
    if isinstance(statement, ir.If):
        if statement.orelse is None:
            return 0
        return min(_bound_in(statement.then, made), _bound_in(statement.orelse, made))
    return made.get(statement.id, 0)


def _bound_in(block: ir.Block, made: dict[int, float]) -> float:
    if block_leaves(block):
        return float("inf")  # no way leads from here to the read
    return max((_bound_by(each, made) for each in block.statements), default=0)


def _place(binding: Binding) -> float:
    """Where a binding stands in the order of the text; beyond its end, where that isn't known."""
    node = node_of(binding)
    return node.id if node is not None else float("inf")


def _stands_in(node: ir.Node | None, loop: ir.Statement) -> bool:
    while node is not None and node is not loop:
        node = node.parent
    return node is not None
