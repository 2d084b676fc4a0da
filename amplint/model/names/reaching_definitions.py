"""Which bindings of a name a read can still see: those that no later assignment on every way to it replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.syntax import ir
from amplint.model.syntax.control import block_leaves, may_suppress
from amplint.model.syntax.ir import Assigned, Binding, Scope, node_of
from amplint.model.syntax.nesting import is_within
from amplint.model.syntax.scopes import Names

if TYPE_CHECKING:
    pass


def reaching(names: Names, read: ir.Name) -> list[Binding]:
    """The bindings of `read` without those that are surely replaced before it, or made only after it."""
    bindings = names.bindings(read)
    home = read.scope.home(read.name)
    if len(bindings) < 2 or home is None or home.kind == "class":
        return bindings
    around, later = _around(read, home)
    passed = _passed([each for each in bindings if is_made_in(home, each)], around, later)
    if not later:
        passed |= _set_by_loops(bindings, around)
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


def is_bound(bindings: list[Binding], home: Scope, at: ir.Node) -> bool:
    """Whether every way to a node passes one of the bindings of a name of the scope `home`."""
    around, later = _around(at, home)
    bindings = [each for each in bindings if is_made_in(home, each)]
    if _passed(bindings, around, later):
        return True
    for each in bindings:
        node = node_of(each)
        if isinstance(node, ir.Function) and node.scope is home:
            return True  # a parameter
        made = ir.statement_of(node) if node is not None else None
        if isinstance(made, ir.For) and made in around and not later:
            return True  # its target, in its body
        plain = isinstance(made, (ir.Assign, ir.Import, ir.Function, ir.Class, ir.With))
        if plain and isinstance(made, ir.Statement) and (made in around or _passed_by(made, around, later) is made):
            return True
    return False


def comes_first(made: ir.Statement, node: ir.Node) -> bool:
    """Whether every way to a node of the same function passes a statement."""
    function = ir.function_of(node)
    around = _around(node, function.scope)[0] if function is not None else []
    return any(each.block is made.block and made.id < each.id for each in around)


def _around(node: ir.Node, home: Scope) -> tuple[list[ir.Statement], bool]:
    """The statements round a node in the function of a scope, and whether it stands in a function inside, run later."""
    around: list[ir.Statement] = []
    later = False
    up: ir.Node | None = node
    while up is not None and not (isinstance(up, ir.Function) and up.scope is home):
        later = later or isinstance(up, ir.Function)
        if isinstance(up, ir.Statement):
            around.append(up)
        up = up.parent
    return around, later


def only_reaching(names: Names, read: ir.Name) -> Binding | None:
    """The one binding that a read can see."""
    bindings = reaching(names, read)
    return bindings[0] if len(bindings) == 1 else None


def only_assignment(names: Names, read: ir.Name) -> Assigned | None:
    """The assignment that a read sees, where it can see no other binding."""
    only = only_reaching(names, read)
    return only if isinstance(only, Assigned) else None


def returned(function: ir.Function) -> list[ir.Return]:
    """The return statements of a function."""
    return [each for each in ir.walk_statements(function.body, into=False) if isinstance(each, ir.Return)]


def is_made_in(home: Scope, binding: Binding) -> bool:
    """Whether a binding is made by the scope's own code, and not by a function with `global` or `nonlocal`.

    When that function is called, and whether it ever is, can't be told.
    """
    assign = _assignment(binding)
    function = ir.function_of(assign) if assign is not None else None
    return assign is None or (function.scope if function is not None else home.module) is home


def _passed(bindings: list[Binding], around: list[ir.Statement], later: bool) -> dict[ir.Statement, float]:
    """The statements that every way to the read passes, and the place of the last binding that each surely makes."""
    made = {assign.id: _place(each) for each in bindings if (assign := _assignment(each)) is not None}
    tops = [_passed_by(_assignment(each), around, later) for each in bindings]
    places = {each: _bound_by(each, made) for each in tops if each is not None}
    return {each: place for each, place in places.items() if 0 < place < float("inf")}


def _set_by_loops(bindings: list[Binding], around: list[ir.Statement]) -> dict[ir.Statement, float]:
    """The loops that a read is in the body of and that set the variable in each round, with the target's place."""
    found: dict[ir.Statement, float] = {}
    for each in bindings:
        loop = ir.loop_of_target(node_of(each))
        if loop is not None and any(one.block is loop.body for one in around):
            found[loop] = max(found.get(loop, 0), _place(each))
    return found


def _assignment(binding: Binding) -> ir.Assign | None:
    """The plain assignment that makes a binding."""
    target = node_of(binding)
    assign = target.parent if isinstance(target, ir.Name) else None
    while isinstance(assign, (ir.Sequence, ir.Starred)):  # `a, b = c, d`, `a, *b = made()`
        assign = assign.parent
    return assign if isinstance(assign, ir.Assign) else None


def _passed_by(made: ir.Statement | None, around: list[ir.Statement], later: bool) -> ir.Statement | None:
    """The statement that every way to the read passes and another one stands in, below withs, ifs and tries only."""
    each: ir.Node | None = made
    while each is made or isinstance(each, (ir.If, ir.With, ir.Try)):
        if not isinstance(each, ir.Statement):
            return None
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
    if isinstance(statement, ir.Try):
        tried = [each for each in (statement.body, statement.orelse) if each is not None]
        goes_well = max(_bound_in(each, made) for each in tried)
        return min([goes_well, *(_bound_in(each.body, made) for each in statement.handlers)])
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
    return node is not None and is_within(node, loop)
