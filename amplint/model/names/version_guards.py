"""Which code runs only on some releases of torch: version tests, `hasattr`, and imports that may fail."""

from __future__ import annotations

import re
from collections.abc import Iterator

from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_between
from amplint.model.syntax.ir import Assigned, Imported
from amplint.model.syntax.nesting import is_within
from amplint.model.syntax.scopes import Names

# TORCH_2_4, is_torch_greater_equal_than_2_4, _torch_ge_2_4, pt24, digit_version, LooseVersion ...
_VERSION_NAME = re.compile(
    r"(?i)version|torch_?\d|torch.*(?:_ge|_gt|_lt|_le|least|greater|less|\d)|^_?pt_?\d|^has_\w*amp|_has_"
)
_CATCHES = {
    "ImportError",
    "ModuleNotFoundError",
    "AttributeError",
    "TypeError",
    "NameError",
    "Exception",
    "BaseException",
}


def asks_version(names: Names, test: ir.Value, depth: int = 4) -> bool:
    """Whether a condition asks for a release of a library, or for what a module offers."""
    for value in ir.walk_values(test):
        word = ir.last_name(value)
        if word in ("__version__", "hasattr", "getattr", "find_spec") or _VERSION_NAME.search(word):
            return True
        if isinstance(value, ir.Name) and depth and word not in ("torch", "self"):
            for binding in names.bindings(value):
                if isinstance(binding, Assigned) and asks_version(names, binding.value, depth - 1):
                    return True
                if isinstance(binding, Imported) and _VERSION_NAME.search(binding.name.rpartition(".")[2]):
                    return True
    return False


def guarded(names: Names, node: ir.Node, modern: list[ir.Node]) -> bool:
    """Whether `node`, an old name, runs only where the new one is missing; `modern` are the file's uses of the new one.

    That is: in an arm of a version test, behind one that left, the default of a `getattr`, or in one try with the new.
    """
    parent = node.parent
    if isinstance(parent, ir.Call) and isinstance(parent.func, ir.Name) and parent.func.name == "getattr":
        return len(parent.args) == 3 and parent.args[2].value is node
    if not modern:
        return False
    return any(asks_version(names, test) for test in tests_of(node)) or any(
        is_within(each, around) for around in _fallible(node) for each in modern
    )


def may_be_missing(node: ir.Node) -> bool:
    """Whether `node` stands in a try that catches the error of a name that does not exist."""
    return any(True for _ in _fallible(node))


def tests_of(node: ir.Node) -> Iterator[ir.Value]:
    """The conditions under which `node` runs, or on which something before it in its suite leaves."""
    return (test for test, _ in conditions_of(node))


def conditions_of(node: ir.Node) -> Iterator[tuple[ir.Value, bool]]:
    """The tests that decide on `node`, from the inside out, with the outcome for which it runs."""
    child, parent = node, node.parent
    while parent is not None:
        yield from conditions_between(child, parent)
        child, parent = parent, parent.parent


def _fallible(node: ir.Node) -> Iterator[ir.Try]:
    """The try statements around `node` that catch a missing name."""
    parent = node.parent
    while parent is not None:
        if isinstance(parent, ir.Try) and any(_catches_missing(handler) for handler in parent.handlers):
            yield parent
        parent = parent.parent


def _catches_missing(handler: ir.Handler) -> bool:
    if handler.type is None:
        return True
    caught = handler.type.items if isinstance(handler.type, ir.Sequence) else (handler.type,)
    return any(isinstance(each, ir.Name) and each.name in _CATCHES for each in caught)
