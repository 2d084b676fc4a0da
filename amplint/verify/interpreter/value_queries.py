"""What is asked of values: the tensors and parameters in them, how the program writes them, where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from amplint.model.syntax import ir
from amplint.verify.interpreter.standins import Instance, Unknown, value_of


def origins(value: Any, depth: int = 5) -> Iterator[ir.Call]:
    """The unseen calls that a value comes from."""
    if isinstance(value, Unknown) and depth:
        if value.origin is not None:
            yield value.origin
        for each in value.inputs:
            yield from origins(each, depth - 1)


def lasting(value: Unknown | Instance) -> Any:
    """What is the same for as long as an object lives: itself where the run has made it, else how it is written."""
    root: Any = value
    while isinstance(root, Unknown) and root.origin is None and root.inputs:
        root = root.inputs[0]
    by_call = isinstance(root, Unknown) and root.origin is not None and not root.fixed
    is_made = by_call or (isinstance(root, Instance) and root.given is not None)
    return root if is_made else text_of(value)


def text_of(value: Any) -> str | None:
    """How the program writes a value that is out of sight, so that it is told from others."""
    if isinstance(value, Unknown):
        return value.identity
    return value.text if isinstance(value, Instance) else None


def tensors_in(values: Iterable[Any]) -> Iterable[torch.Tensor]:
    """The tensors among values, in containers too."""
    for each in values:
        found = value_of(each)
        if isinstance(found, torch.Tensor) and not isinstance(found, torch.nn.Parameter):
            yield found
        elif isinstance(found, (list, tuple)):
            yield from tensors_in(found)
        elif isinstance(found, dict):
            yield from tensors_in(found.values())


def parameters_in(values: Iterable[Any]) -> list[torch.nn.Parameter]:
    """The parameters that an unseen call was given, on their own or in containers."""
    found: list[torch.nn.Parameter] = []
    for each in values:
        if isinstance(each, torch.nn.Parameter):
            found.append(each)
        elif isinstance(each, (list, tuple, dict)):
            found += parameters_in(each.values() if isinstance(each, dict) else each)
    return found


def is_simple(value: Any) -> bool:
    """Whether torch can be given a value as it is."""
    return value is None or isinstance(value, (bool, int, float, str, torch.dtype, torch.Tensor, torch.device))
