"""Keeps how recent tensors were computed, so that values can be computed again in float32 when a 0 needs explaining."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from amplint.doctor.births import Flush
from amplint.doctor.calls import Call, spoken
from amplint.doctor.readings import finite_mask, is_plain, name_of
from amplint.doctor.shadow import Operation, Swap, again, tensors_in

Key = tuple[Any, ...]

MOST_BYTES = 1 << 30  # of tensors that are kept alive
MOST_STEPS = 96  # operations that are run again for one explanation
MOST_EXPLANATIONS = 256  # the first births matter


class Recipe(NamedTuple):
    """How a tensor was computed: the operation, and the keys of its arguments by their ids."""

    order: int
    operation: Operation
    keys: Mapping[int, Key]
    call: Call
    output: int  # which one of the outputs it is
    size: int

    @property
    def inputs(self) -> Iterator[Tensor]:
        """The tensors that it was computed from."""
        return tensors_in((self.operation.args, self.operation.kwargs))


class Lineage:
    """The recipes of recent tensors, by the keys of the tensors.

    Args:
        is_current: Whether the tensor that a key is of still holds what it held then.
    """

    def __init__(self, is_current: Callable[[Key], bool]) -> None:
        self._is_current = is_current
        self._recipes: OrderedDict[Key, Recipe] = OrderedDict()
        self._written: dict[int, list[Key]] = {}  # what was written to a storage, in order
        self._size = 0
        self._made = 0
        self._explained = 0

    def add(self, outputs: list[tuple[Key, int]], operation: Operation, keys: Mapping[int, Key], call: Call) -> None:
        """Keep how the outputs, given as keys and sizes in bytes, were computed."""
        self._made += 1
        for index, (key, size) in enumerate(outputs):
            old = self._recipes.get(key)
            if old is not None and not size and not old.size:
                continue  # the same view again: what was computed in between goes back to the first one
            self._recipes.pop(key, None)
            self._size += size - (old.size if old else 0)
            self._recipes[key] = Recipe(self._made, operation, keys, call, index, size)
            if size:
                self._written.setdefault(key[0], []).append(key)
        while self._size > MOST_BYTES and self._recipes:
            self._size -= self._recipes.popitem(last=False)[1].size

    def clear(self) -> None:
        """Let go of all tensors."""
        self._recipes.clear()
        self._written.clear()
        self._size = 0

    def get(self, key: Key | None) -> Recipe | None:
        """How a tensor was computed."""
        return self._recipes.get(key) if key is not None else None

    def sources(self, key: Key) -> list[Recipe]:
        """How a tensor was computed, or where it was written to in parts, how these were."""
        recipe = self.get(key)
        if recipe is not None:
            return [recipe]
        parts = self._parts(key)
        return [self._recipes[part] for part in parts if part in self._recipes]

    def _parts(self, key: Key) -> list[Key]:
        """What was written to the memory of a tensor in parts, in order."""
        if len(key) < 2 or not key[1]:
            return []
        return [part for part in self._written.get(key[0], ()) if part[1] <= key[1]]

    def before(self, keys: Mapping[int, Key]) -> list[Recipe]:
        """The recipes that some tensors go back to, the last first, as many as one explanation may run again."""
        waiting = {recipe.order: recipe for key in keys.values() for recipe in self.sources(key)}
        seen: dict[int, Recipe] = {}
        while waiting and len(seen) < MOST_STEPS:
            recipe = waiting.pop(max(waiting))
            seen[recipe.order] = recipe
            for key in recipe.keys.values():
                waiting.update({each.order: each for each in self.sources(key) if each.order < recipe.order})
        return list(seen.values())

    def wide(self, arguments: Any, keys: Mapping[int, Key]) -> dict[Key, Tensor]:
        """Compute in float32 what some tensors go back to.

        Args:
            arguments: What holds the tensors.
            keys: Their keys by their ids.

        Returns:
            The float32 values of them and of what they were computed from, by their keys, as far as it is known.
        """
        self._explained += 1
        if self._explained > MOST_EXPLANATIONS:
            return {}
        values: dict[Key, Tensor] = {}
        orders = {recipe.order for recipe in self.before(keys)}
        recipes = {key: recipe for key, recipe in self._recipes.items() if recipe.order in orders}
        done: dict[int, list[Tensor] | None] = {}
        for key, recipe in sorted(recipes.items(), key=lambda item: item[1].order):
            if recipe.order not in done:
                done[recipe.order] = self._run(recipe, values)
            outputs = done[recipe.order]
            if outputs is not None and recipe.output < len(outputs):
                values[key] = outputs[recipe.output]
        self._join(tensors_in(arguments), keys, values)
        return values

    def _run(self, recipe: Recipe, values: dict[Key, Tensor]) -> list[Tensor] | None:
        """The float32 outputs of an operation; None where an argument is not there any more as it was."""
        self._join(recipe.inputs, recipe.keys, values)
        for key in recipe.keys.values():
            if key not in values and not self._is_current(key):
                return None
        return again(recipe.operation, torch.float32, swap_all(recipe.keys, values))

    def _join(self, tensors: Iterable[Tensor], keys: Mapping[int, Key], values: dict[Key, Tensor]) -> None:
        """Put the float32 values of tensors together that were written in parts."""
        for tensor in tensors:
            key = keys.get(id(tensor))
            if key is None or key in values or key in self._recipes:
                continue
            parts = [part for part in self._parts(key) if part[-1] == tensor.dtype]
            numbers = self._numbers(tensor, key, parts, values)
            if numbers is None:
                continue
            wide = numbers.float()
            for part in parts:
                value = values.get(part)
                now = _within(numbers, part)
                _within(wide, part).copy_(value if value is not None and value.shape == now.shape else now)
            values[key] = _within(wide, key).clone()

    def _numbers(self, tensor: Tensor, key: Key, parts: list[Key], values: Mapping[Key, Tensor]) -> Tensor | None:
        """What the storage of a tensor held that was written in parts; None where that is not known, or no use."""
        if self._is_current(key) and any(part in values for part in parts):
            return tensor.detach().new_empty(0).set_(tensor.untyped_storage())
        if parts and not parts[0][1] and all(part in values for part in parts):
            return tensor.new_zeros(max(_extent(part) for part in [*parts, key]))
        return None


def _extent(key: Key) -> int:
    """How many numbers of its storage a tensor reaches over."""
    _, _, offset, shape, stride, _ = key
    return int(offset + sum((size - 1) * step for size, step in zip(shape, stride, strict=True)) + 1)


def _within(numbers: Tensor, key: Key) -> Tensor:
    """The tensor that a key is of, within all numbers of its storage."""
    _, _, offset, shape, stride, _ = key
    return numbers.as_strided(shape, stride, offset)


def swap_all(keys: Mapping[int, Key], values: Mapping[Key, Tensor]) -> Swap:
    """A swap of the tensors that have these keys for their float32 values."""
    return lambda tensor: values.get(keys[id(tensor)]) if id(tensor) in keys else None


def find_flush(
    lineage: Lineage, args: Any, keys: Mapping[int, Key], values: Mapping[Key, Tensor], bad: Tensor
) -> Flush | None:
    """Say where half precision made a value 0 that an operation got.

    Args:
        lineage: How tensors were computed.
        args: The arguments of the operation.
        keys: Their keys by their ids.
        values: The float32 values.
        bad: Where the result is not finite: what became 0 elsewhere has done no harm.

    Returns:
        The flush; where nothing became 0, the largest difference that rounding made. None where there is neither.
    """
    tensor = next((each for each in tensors_in(args) if _harmed(_lost(each, keys, values), bad)), None)
    if tensor is None:
        return _rounded(lineage, args, keys, values, bad)
    best: Flush | None = None
    while tensor is not None:
        key = keys[id(tensor)]
        lost = _lost(tensor, keys, values)
        sources = lineage.sources(key)
        if lost is None or not sources:
            break
        recipe, inner = _through(sources, values)
        dtype = name_of(_narrowest(tensor, recipe))
        best = Flush(_place(recipe.call), _op(recipe), float(values[key][lost].abs().max()), dtype)
        if _rounds(recipe, lost):
            break
        keys, tensor = recipe.keys, inner
    return best


def _through(sources: list[Recipe], values: Mapping[Key, Tensor]) -> tuple[Recipe, Tensor | None]:
    """The last of some recipes that got a value that had become 0, and the tensor that it got; else the last one."""
    for recipe in reversed(sources):
        for tensor in recipe.inputs:
            if _lost(tensor, recipe.keys, values) is not None:
                return recipe, tensor
    return sources[-1], None


def _rounds(recipe: Recipe, lost: Tensor) -> bool:
    """Whether an operation itself makes something 0: in float32 it gives something else for the same arguments."""
    outputs = again(recipe.operation, torch.float32)
    if outputs is None or recipe.output >= len(outputs) or outputs[recipe.output].shape != lost.shape:
        return False
    return bool(((outputs[recipe.output] != 0) & lost).any())


def _lost(tensor: Tensor, keys: Mapping[int, Key], values: Mapping[Key, Tensor]) -> Tensor | None:
    """Where a tensor is 0 and its float32 value is not; None where that is nowhere."""
    wide = values.get(keys.get(id(tensor), ()))
    if wide is None or not is_plain(tensor) or wide.shape != tensor.shape:
        return None
    lost = (tensor == 0) & (wide != 0) & finite_mask(wide)
    return lost if bool(lost.any()) else None


def _harmed(lost: Tensor | None, bad: Tensor) -> bool:
    """Whether some of what is lost was read where the result is bad."""
    return lost is not None and bool((lost & _read_by(bad, lost)).any())


def _read_by(bad: Tensor, tensor: Tensor) -> Tensor:
    """Which elements of an argument the bad elements of a result were made from; all, where the shapes don't say."""
    shape, missing = tensor.shape, bad.dim() - tensor.dim()
    if missing < 0 or any(own not in (1, whole) for own, whole in zip(shape, bad.shape[missing:], strict=True)):
        return torch.ones_like(tensor, dtype=torch.bool)
    return bad.float().sum_to_size(shape) > 0


def _rounded(
    lineage: Lineage, args: Any, keys: Mapping[int, Key], values: Mapping[Key, Tensor], bad: Tensor
) -> Flush | None:
    """The largest difference, relative to the float32 value, between an argument and that value."""
    best: tuple[float, Flush] | None = None
    for tensor in tensors_in(args):
        key = keys.get(id(tensor))
        recipe = lineage.get(key)
        wide = values.get(key) if key is not None else None
        if recipe is None or wide is None or not is_plain(tensor) or wide.shape != tensor.shape or not wide.numel():
            continue
        off = ((tensor.float() - wide).abs() / wide.abs().clamp(min=1e-30)).flatten()
        at = int(torch.where(torch.isfinite(off) & _read_by(bad, tensor).flatten(), off, 0.0).argmax())
        value, result = float(wide.flatten()[at]), float(tensor.flatten()[at])
        if value != result and (best is None or float(off[at]) > best[0]):
            dtype = name_of(_narrowest(tensor, recipe))
            best = float(off[at]), Flush(_place(recipe.call), _op(recipe), value, dtype, result)
    return best[1] if best else None


def _narrowest(tensor: Tensor, recipe: Recipe) -> torch.dtype:
    """The narrowest floating dtype of a result and what it was computed from."""
    dtypes = [each.dtype for each in _floating(tensor, recipe)]
    return min(dtypes, key=lambda dtype: dtype.itemsize) if dtypes else tensor.dtype


def _floating(tensor: Tensor, recipe: Recipe) -> Iterator[Tensor]:
    yield tensor
    yield from (each for each in recipe.inputs if each.is_floating_point())


def _place(call: Call) -> Any:
    return call.lines[0].place if call.lines else None


def _op(recipe: Recipe) -> str:
    return spoken(recipe.call, recipe.operation.name.rpartition("::")[2])
