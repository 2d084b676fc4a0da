"""What a graph has saved for its backward pass: infinities that a finite loss hides."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch

from amplint.doctor.graph import graph_nodes
from amplint.doctor.readings import HALF, all_finite, can_wait_for

_names: dict[str, tuple[str, ...]] = {}  # by kind of node: the attributes with what it has saved


def holds_infinity(roots: Sequence[torch.Tensor]) -> bool:
    """Whether an operation of a graph has saved a tensor in half precision that holds infinities.

    Nothing is looked at where activations are checkpointed: reading what such a graph has saved computes it again.
    """
    if _is_checkpointed():
        return False
    saved = (getattr(node, name, None) for node in graph_nodes(roots) for name in _saved_names(node))
    return not all_finite([each.detach() for each in saved if isinstance(each, torch.Tensor) and _is_read(each)])


def _saved_names(node: Any) -> tuple[str, ...]:
    kind = node.name()
    if kind not in _names:
        _names[kind] = tuple(name for name in dir(node) if name.startswith("_saved_"))
    return _names[kind]


def _is_read(tensor: torch.Tensor) -> bool:
    return tensor.dtype in HALF and can_wait_for(tensor)


def _is_checkpointed() -> bool:
    """Whether the program has imported what checkpoints activations, and used it."""
    module = sys.modules.get("torch.utils.checkpoint")
    return module is not None and getattr(module, "_amplint_used", False)
