"""Which bindings of a name a read can still see: those that no later assignment on every way to it replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model import ir
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
    replaced = max((_place(each) for each in bindings if _is_sure(each, around, later)), default=0)
    loops = [each for each in around if isinstance(each, (ir.For, ir.While))]
    return [
        each
        for each in bindings
        if _place(each) >= replaced
        and (later or _place(each) < read.id or any(_stands_in(each, loop) for loop in loops))
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


def _is_sure(binding: Binding, around: list[ir.Statement], later: bool) -> bool:
    """Whether a binding is a plain assignment that every way to the read passes."""
    assign = binding.target.parent if isinstance(binding, Assigned) else None
    while isinstance(assign, ir.Sequence):  # `a, b = c, d`
        assign = assign.parent
    if not isinstance(assign, ir.Assign):
        return False
    if later:
        return isinstance(assign.block.owner, (ir.Function, ir.Program))
    return any(each.block is assign.block and assign.id < each.id for each in around)


def _place(binding: Binding) -> float:
    """Where a binding stands in the order of the text; beyond its end, where that isn't known."""
    node = node_of(binding)
    return node.id if node is not None else float("inf")


def _stands_in(binding: Binding, loop: ir.Statement) -> bool:
    node = node_of(binding)
    while node is not None and node is not loop:
        node = node.parent
    return node is not None
