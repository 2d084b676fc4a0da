"""Code for where something is missing: an older release of torch, or a device that can't do what was asked first.

It stands in a handler of what was tried, behind such a try, or in the arm of a test that found support wanting. What it
lacks it lacks on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.inference.values import values_of
from amplint.model.names.version_guards import asks_version
from amplint.model.syntax import ir
from amplint.model.syntax.control import block_leaves, conditions_round
from amplint.model.syntax.nesting import following

if TYPE_CHECKING:
    from amplint.model import Module

_SUPPORT = re.compile(r"(?i)support|capab|compat|signature|ampere|(?:^|_)(?:has|have|can)_")
# What is raised where an argument, a name or a dtype is not known; anything else ends the program, or is about data.
_RAISED = {
    "TypeError", "RuntimeError", "AttributeError", "ImportError", "ModuleNotFoundError", "NameError", "ValueError",
    "NotImplementedError", "AssertionError", "Exception", "BaseException",
}  # fmt: skip


def is_fallback(module: Module, node: ir.Node) -> bool:
    """Whether a node runs only where something else failed, or is not supported."""
    if any(_is_wanting(module, test, holds) for test, holds in conditions_round(node)):
        return True
    up: ir.Node | None = ir.statement_of(node)
    while isinstance(up, ir.Statement) and not isinstance(up, (ir.Function, ir.Class)):
        if _is_handled(up) or _comes_after_try(up) or _is_tried_anew(up):
            return True
        up = up.parent
    return False


def _is_handled(statement: ir.Statement) -> bool:
    """Whether a statement stands in a handler."""
    handlers = statement.parent.handlers if isinstance(statement.parent, ir.Try) else ()
    return any(each.body is statement.block and _catches(each) for each in handlers)


def _catches(handler: ir.Handler) -> bool:
    """Whether a handler is for what an older release, or a device that can't do it, raises."""
    caught = handler.type.items if isinstance(handler.type, ir.Sequence) else (handler.type,)
    return any(each is None or ir.last_name(each) in _RAISED for each in caught)


def _comes_after_try(statement: ir.Statement) -> bool:
    """Whether a statement is reached only where a try before it failed, as its body leaves and a handler does not."""
    return any(block_leaves(body) and goes_on for before in _before(statement) for body, goes_on in _tried(before))


def _before(statement: ir.Statement) -> Iterator[ir.Statement]:
    for each in statement.block.statements if statement.block is not None else ():
        if each is statement:
            return
        yield each


def _tried(statement: ir.Statement) -> Iterator[tuple[ir.Block, bool]]:
    """The body of a try, or of a `with suppress(...)`; and whether code goes on behind it where that failed."""
    if isinstance(statement, ir.Try):
        yield statement.body, any(_catches(each) and not block_leaves(each.body) for each in statement.handlers)
    elif isinstance(statement, ir.With):
        calls = [each.context for each in statement.items if isinstance(each.context, ir.Call)]
        yield statement.body, any(ir.last_name(each.func) == "suppress" for each in calls)


def _is_tried_anew(statement: ir.Statement) -> bool:
    """Whether what a statement assigns is assigned anew by the body of a try right behind it, which may fail."""
    if not isinstance(statement, ir.Assign) or statement.block is None:
        return False
    names = [ir.last_name(each) for each in statement.targets]
    return any(
        isinstance(each, ir.Assign) and [ir.last_name(target) for target in each.targets] == names and goes_on
        for tried in following(statement)
        for body, goes_on in _tried(tried)
        for each in body.statements
    )


def _is_wanting(module: Module, test: ir.Value, holds: bool) -> bool:
    """Whether a test asks for a release, or found that something is not supported."""
    if isinstance(test, ir.Unary) and test.op == "Not":
        return _is_wanting(module, test.operand, not holds)
    if isinstance(test, ir.Bool) and holds is (test.op == "and"):
        return any(_is_wanting(module, each, holds) for each in (test.left, test.right))
    if not holds and any(map(_shows_support, _origins(module, test))):
        return True
    return asks_version(module.names, test) and not any(_reads_setting(module, each) for each in ir.walk_values(test))


def _origins(module: Module, test: ir.Value) -> Iterator[ir.Value]:
    """What a test is made of, and what its variables come from."""
    for each in ir.walk_values(test):
        yield each
        for leaf in values_of(module, each).leaves if isinstance(each, (ir.Name, ir.Attribute, ir.Call)) else ():
            yield from ir.walk_values(leaf.value)


def _shows_support(value: ir.Value) -> bool:
    """Whether a part of a test asks what can be done, by its name, or is what a handler sets where it can't."""
    if isinstance(value, ir.Constant):
        statement = ir.statement_of(value)
        return value.value is False and isinstance(statement.parent, ir.Try) and _is_handled(statement)
    return bool(_SUPPORT.search(ir.last_name(value)))


def _reads_setting(module: Module, value: ir.Value) -> bool:
    """`getattr(args, "bf16", False)`."""
    given = value.positional if isinstance(value, ir.Call) and ir.last_name(value.func) == "getattr" else []
    return bool(given) and not any(name.startswith("torch") for name in module.names.of(given[0]))
