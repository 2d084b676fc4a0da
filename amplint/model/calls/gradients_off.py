"""Whether anything that runs at a node has gradients: by what is around it, and around the calls that lead to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.calls.call_sites import callers
from amplint.model.names.grad_mode import without_gradients
from amplint.model.syntax import ir

if TYPE_CHECKING:
    from amplint.model import Module

_DEEPEST = 4  # calls from one function to the next


def never_has_gradients(module: Module, node: ir.Node, depth: int = _DEEPEST) -> bool:
    """Whether no gradients are made at a node, there or in each of the file's calls of its function."""
    if without_gradients(module, node):
        return True
    calls = callers(module, ir.function_of(node)) if depth else []
    return bool(calls) and all(never_has_gradients(module, each, depth - 1) for each in calls)
