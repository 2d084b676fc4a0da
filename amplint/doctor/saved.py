"""What a graph has saved for its backward pass: infinities that a finite loss hides."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import torch

from amplint.doctor.graph import graph_nodes
from amplint.doctor.readings import HALF, is_readable

_names: dict[str, tuple[str, ...]] = {}  # by kind of node: the attributes with what it has saved


def holds_infinity(roots: Sequence[torch.Tensor]) -> bool:
    """Whether an operation of a graph has saved a tensor in half precision that holds infinities.

    Nothing is looked at where activations are checkpointed: reading what such a graph has saved computes it again.
    """
    if _is_checkpointed():
        return False
    return any(_is_infinite(getattr(node, name, None)) for node in graph_nodes(roots) for name in _saved_names(node))


def _saved_names(node: Any) -> tuple[str, ...]:
    kind = node.name()
    if kind not in _names:
        _names[kind] = tuple(name for name in dir(node) if name.startswith("_saved_"))
    return _names[kind]


def _is_infinite(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or value.dtype not in HALF or not is_readable(value):
        return False
    return not math.isfinite(float(value.detach().sum(dtype=torch.float32)))


def _is_checkpointed() -> bool:
    """Whether the program has imported what checkpoints activations, and used it."""
    module = sys.modules.get("torch.utils.checkpoint")
    return module is not None and getattr(module, "_amplint_used", False)
