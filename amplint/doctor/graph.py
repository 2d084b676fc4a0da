"""Walks through autograd's graph: the nodes that losses depend on, and the parameters at its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

_NODES = 20_000  # of a graph that are looked at


def graph_nodes(roots: Sequence[torch.Tensor], most: int = _NODES) -> Iterator[Any]:
    """The nodes of the graph that losses depend on, until `most` are known."""
    return nodes_from([root.grad_fn for root in roots if root.grad_fn is not None], most)


def nodes_from(nodes: Sequence[Any], most: int = _NODES) -> Iterator[Any]:
    """These nodes and those that they depend on, until `most` are known."""
    todo = list(nodes)
    seen = set(todo)
    while todo and len(seen) < most:
        node = todo.pop()
        yield node
        for other, _ in node.next_functions:
            if other is not None and other not in seen:
                seen.add(other)
                todo.append(other)


def graph_leaves(roots: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The parameters that losses depend on."""
    leaves = {id(node.variable): node.variable for node in graph_nodes(roots) if hasattr(node, "variable")}
    return list(leaves.values())


def next_node() -> int:
    """The number that autograd gives to the next node of a graph."""
    return int(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]


def number_of(node: Any) -> int | None:
    """The number that autograd has given to a node, None where torch doesn't tell."""
    number = getattr(node, "_sequence_nr", None)
    return int(number()) if number is not None else None
