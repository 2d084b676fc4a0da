"""Looks at each operation of one step, and says which ones make values that are not finite out of good ones."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from amplint.doctor.births import (
    Birth,
    Flush,
    Origin,
    finite_mask,
    has_nan,
    is_finite,
    is_plain,
    kind_of,
    largest,
    name_of,
    rows_of,
)
from amplint.doctor.calls import Call, Running, look, node_name, spoken
from amplint.doctor.findings import Place
from amplint.doctor.lineage import Key, Lineage, find_flush, swap_all
from amplint.doctor.places import user_place
from amplint.doctor.shadow import again, by_name, tensors_in

_COLLECTIVES = frozenset({"c10d", "_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "symm_mem"})
# What memory holds that nothing has been written to says nothing.
_UNINITIALISED = frozenset(
    f"aten::{name}"
    for name in (
        "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_",
        "resize_as_", "_resize_output_",
    )
)  # fmt: skip
# Operations that write their first argument and don't read it.
_FILLS = frozenset(
    f"aten::{name}_"
    for name in ("copy", "fill", "zero", "normal", "uniform", "bernoulli", "random", "exponential", "set", "log_normal")
)
# Arguments that are written though the schema doesn't say so.
_ALSO_WRITES = {
    "aten::native_batch_norm": (3, 4),
    "aten::cudnn_batch_norm": (3, 4),
    "aten::miopen_batch_norm": (3, 4),
}
_NO_WRITES = frozenset({"aten::detach_", "aten::requires_grad_", "aten::lift_fresh", "aten::record_stream"})
_CASTS = frozenset({"aten::_to_copy", "aten::copy_", "aten::to", "aten::copy"})
# Operations in which infinities by intention become NaN where all of a row are masked.
_MASKED = frozenset(
    {"softmax", "log_softmax", "logsumexp", "sub", "rsub", "scaled_dot_product_attention", "logcumsumexp", "softmin"}
)
_FEW = 40  # operations between a mask and the division that a row without any weight fails in


class CollectiveRefused(RuntimeError):
    """An operation would have waited for other processes. It did not run."""

    def __init__(self, op: str) -> None:
        super().__init__(f"{op} talks to other processes")
        self.op = op


class OutsideWrite(RuntimeError):
    """An operation would have written to a tensor that lives longer than what is looked at. It did not run."""

    def __init__(self, op: str, place: Place | None) -> None:
        super().__init__(f"{op} writes to a tensor of the program")
        self.op = op
        self.place = place


@dataclass
class _Cell:
    """What is known of a storage: which births reach its values, and how often it was written."""

    alive: Any  # keeps the address from being used again
    is_own: bool
    births: set[int] = field(default_factory=set)
    is_blank: bool = False  # not yet written completely
    writes: int = 0


@dataclass(frozen=True)
class _Signature:
    """What the schema of an operation says of its arguments."""

    name: str
    writes: tuple[int, ...]  # positions
    written: tuple[str, ...]  # names
    is_fill: bool


@dataclass
class _Step:
    """An operation on its way: its arguments as they were before it ran, and what is known of them."""

    func: Any
    signature: _Signature
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    call: Call
    node: Any
    keys: dict[int, Key] = field(default_factory=dict)
    inputs: list[Tensor] = field(default_factory=list)
    bad: list[Tensor] = field(default_factory=list)
    births: set[int] = field(default_factory=set)
    storages: set[int] = field(default_factory=set)
    targets: list[Tensor] = field(default_factory=list)  # tensors that are written


@dataclass(frozen=True)
class _Origins:
    """What a birth comes from."""

    origin: Origin
    value: float | None = None
    zero: Flush | None = None
    parameter: str = ""


class Detail(TorchDispatchMode):
    """Looks at each operation while it is entered. It changes nothing, and draws no random numbers.

    Args:
        modules: The names of the modules that births are said to be in.
        is_intended_ok: Whether infinities that are meant, such as those of a mask, are no births.
        allowed: Tensors outside that may be written to, such as buffers that someone puts back.

    Attributes:
        births: The births so far, in order.
        incoming: The same of values that were not finite in a tensor from outside, where they are first read.
        failed: How often the look itself failed; the program's operation ran all the same.
    """

    supports_higher_order_operators = True

    def __init__(
        self, modules: Mapping[nn.Module, str], is_intended_ok: bool = True, allowed: Iterable[Tensor] = ()
    ) -> None:
        super().__init__()
        self.failed = 0
        self._modules = modules
        self._names = {id(module): name for module, name in modules.items()}
        self._is_intended_ok = is_intended_ok
        self._allowed = {key for tensor in allowed if (key := _storage(tensor)) is not None}
        self._all: list[Birth] = []
        self._meant: set[int] = set()  # infinities by intention
        self._incoming: set[int] = set()
        self._cells: dict[int, _Cell] = {}
        self._lineage = Lineage()
        self._nodes: dict[int, tuple[Call, str]] = {}
        self._read: dict[str, set[int]] = {}  # births by what a Python number shows that was read from a tensor
        self._signatures: dict[Any, _Signature] = {}
        self._last: FrameType | None = None
        self._depth = 0
        self._parameters: dict[int, str] | None = None

    @property
    def births(self) -> list[Birth]:
        """The births so far, in order."""
        hidden = self._incoming | (self._meant if self._is_intended_ok else set())
        return [birth for index, birth in enumerate(self._all) if index not in hidden]

    @property
    def incoming(self) -> list[Birth]:
        """Where values from outside that are not finite were first read, in order."""
        return [self._all[index] for index in sorted(self._incoming)]

    def reaching(self, *tensors: Tensor) -> list[Birth]:
        """Say which births have values that reach some tensors.

        Args:
            tensors: Results of what was looked at, such as the loss.

        Returns:
            The births, the first one first.
        """
        hidden = self._incoming | (self._meant if self._is_intended_ok else set())
        return [self._all[index] for index in sorted(self._births_of(tensors) - hidden)]

    def arriving(self, *tensors: Tensor) -> list[Birth]:
        """Say which values from outside that are not finite reach some tensors.

        Args:
            tensors: Results of what was looked at.

        Returns:
            For each tensor from outside the operation that reads it first, with the origin INCOMING.
        """
        return [self._all[index] for index in sorted(self._births_of(tensors) & self._incoming)]

    def _births_of(self, tensors: Iterable[Tensor]) -> set[int]:
        births: set[int] = set()
        for tensor in tensors:
            key = _storage(tensor)
            cell = self._cells.get(key) if key is not None else None
            if cell is not None and cell.births and not (is_plain(tensor) and is_finite(tensor.detach())):
                births |= cell.births
        return births

    def __enter__(self) -> Detail:
        if not self._depth:
            self._last = sys._getframe(1)
        self._depth += 1
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._depth -= 1
        if not self._depth:
            self._last = None
            self._lineage.clear()
            self._nodes.clear()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operation, and look at what went in and came out."""
        kwargs = kwargs or {}
        schema = getattr(func, "_schema", None)
        if schema is None:  # an operator on functions
            return func(*args, **kwargs)
        if schema.name.partition("::")[0] in _COLLECTIVES:
            raise CollectiveRefused(schema.name)
        if torch.is_inference_mode_enabled():
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        step: _Step | None = None
        try:
            step = self._before(func, args, kwargs, sys._getframe(1))
        except OutsideWrite:
            raise
        except Exception:
            self.failed += 1
        result = func(*args, **kwargs)
        if step is not None:
            try:
                self._after(step, result)
            except Exception:
                self.failed += 1
        return result

    # Before an operation.

    def _signature(self, func: Any) -> _Signature:
        known = self._signatures.get(func)
        if known is None:
            name = func._schema.name
            arguments = [] if name in _NO_WRITES else func._schema.arguments
            writes = {at for at, each in enumerate(arguments) if each.alias_info and each.alias_info.is_write}
            writes |= set(_ALSO_WRITES.get(name, ()))
            written = tuple(func._schema.arguments[at].name for at in sorted(writes))
            is_out = any(func._schema.arguments[at].is_out for at in writes)
            known = _Signature(name, tuple(sorted(writes)), written, name in _FILLS or is_out)
            self._signatures[func] = known
        return known

    def _before(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> _Step:
        signature = self._signature(func)
        node = _current_node()
        call = look(frame, self._last, self._names, node is not None)
        step = _Step(func, signature, args, kwargs, call, node)
        targets = [args[at] for at in signature.writes if at < len(args)]
        targets += [kwargs[name] for name in signature.written if name in kwargs]
        step.targets = list(tensors_in(targets))
        for tensor in step.targets:
            self._check_write(tensor, signature.name)
        filled = {id(tensor) for tensor in step.targets} if signature.is_fill else set()
        for tensor in tensors_in((args, kwargs)):
            self._take(step, tensor, id(tensor) in filled)
        self._note_node(step)
        if step.targets and not signature.is_fill:
            self._keep_targets(step)
        return step

    def _check_write(self, tensor: Tensor, op: str) -> None:
        key = _storage(tensor)
        if key is None or key in self._allowed:
            return
        cell = self._cells.get(key)
        if cell is None or not cell.is_own:
            raise OutsideWrite(op, user_place())

    def _take(self, step: _Step, tensor: Tensor, is_filled: bool) -> None:
        """Learn what is known of an argument."""
        storage = _storage(tensor)
        if storage is None:
            return
        cell = self._cells.get(storage)
        is_number = is_plain(tensor)
        if cell is None:
            is_own = step.signature.name == "aten::lift_fresh"  # `torch.tensor(...)`
            cell = self._cells[storage] = _Cell(StorageWeakRef(tensor.untyped_storage()), is_own)
            if is_number and not is_filled and not is_finite(tensor):
                self._note_incoming(step, tensor, cell)
        step.storages.add(storage)
        if not is_number:
            return
        step.keys[id(tensor)] = _key(tensor, storage, cell)
        if is_filled:
            return
        step.inputs.append(tensor)
        if (cell.births or cell.is_blank) and not is_finite(tensor):
            step.bad.append(tensor)
            step.births |= cell.births

    def _note_incoming(self, step: _Step, tensor: Tensor, cell: _Cell) -> None:
        """Remember a tensor from outside that is not finite; one with infinities alone may be meant, like a mask."""
        index = self._add(self._birth(step, tensor, _Origins(Origin.INCOMING), ()))
        cell.births.add(index)
        if not has_nan(tensor) and not isinstance(tensor, nn.Parameter):
            self._meant.add(index)
        if not cell.is_own or index not in self._meant:
            self._incoming.add(index)

    def _note_node(self, step: _Step) -> None:
        """Remember the line of an operation for its node in the backward pass."""
        call = step.call
        if call.running is not Running.FORWARD:
            return
        # Within the forward of a custom Function nothing is recorded: the last node is the Function's own.
        if call.function or (torch.is_grad_enabled() and any(each.requires_grad for each in step.inputs)):
            number = _sequence_number()
            if number is not None:
                self._nodes.setdefault(number, (call, step.signature.name))

    def _keep_targets(self, step: _Step) -> None:
        """Copy what is written in place, to be able to run the operation again."""
        copies: dict[int, Tensor] = {}
        for tensor in step.targets:
            if id(tensor) not in copies and is_plain(tensor):
                copy = copies[id(tensor)] = tensor.clone()
                if id(tensor) in step.keys:
                    step.keys[id(copy)] = step.keys[id(tensor)]
                step.inputs = [copy if each is tensor else each for each in step.inputs]
                step.bad = [copy if each is tensor else each for each in step.bad]
        step.args = _replaced(step.args, copies)
        step.kwargs = _replaced(step.kwargs, copies)

    # After an operation.

    def _after(self, step: _Step, result: Any) -> None:
        name = step.signature.name
        outputs = list(tensors_in(result)) or list(step.targets)
        written = {id(tensor) for tensor in step.targets}
        outputs += [tensor for tensor in step.targets if not any(tensor is each for each in outputs)]
        if name == "aten::_local_scalar_dense":
            self._note_read(step, result)
            return
        births: set[int] | None = None
        made: list[tuple[Key, int]] = []
        for index, tensor in enumerate(outputs):
            storage = _storage(tensor)
            if storage is None:
                made.append(((), 0))
                continue
            cell = self._cells.get(storage)
            is_view = cell is not None and storage in step.storages and id(tensor) not in written
            if cell is None or not (is_view or id(tensor) in written):
                cell = self._cells[storage] = _Cell(StorageWeakRef(tensor.untyped_storage()), True)
            if id(tensor) in written:
                cell.writes += 1
            if name in _UNINITIALISED:
                cell.is_blank = True
            elif not is_view and is_plain(tensor):
                births = self._judge(step, tensor, cell, index, outputs, births)
            made.append((_key(tensor, storage, cell), 0 if is_view else tensor.numel() * tensor.element_size()))
        self._keep(step, outputs, made)

    def _judge(
        self, step: _Step, tensor: Tensor, cell: _Cell, index: int, outputs: list[Tensor], births: set[int] | None
    ) -> set[int] | None:
        """Bring up to date what is known of an output; returns the births of the operation's values if it has any."""
        is_whole = tensor.numel() * tensor.element_size() >= _size(tensor)
        if is_finite(tensor):
            if is_whole:
                cell.births = set()
                cell.is_blank = False
            return births
        if births is None:
            births = self._births(step, tensor, index, outputs)
        if is_whole:
            cell.births = set(births)
            cell.is_blank = False
        else:
            cell.births |= births
        return births

    def _keep(self, step: _Step, outputs: list[Tensor], made: list[tuple[Key, int]]) -> None:
        """Keep how the outputs were computed, where that can be told later."""
        inputs = set(step.keys.values())
        if step.signature.name in ("aten::as_strided", "aten::lift_fresh") or step.signature.name in _UNINITIALISED:
            return
        if all(key not in inputs for key, _ in made) and any(is_plain(tensor) for tensor in outputs):
            self._lineage.add(made, step.func, step.args, step.kwargs, step.keys, step.call)

    def _note_read(self, step: _Step, number: Any) -> None:
        """Remember which births a Python number shows."""
        if isinstance(number, float) and not math.isfinite(number):
            self._read[repr(number)] = self._read.get(repr(number), set()) | step.births

    def _births(self, step: _Step, tensor: Tensor, index: int, outputs: list[Tensor]) -> set[int]:
        """The births that the values of an output which is not finite go back to, a new one among them maybe."""
        result = tensor if len(outputs) == 1 else tuple(outputs)
        if step.bad:
            return self._inherited(step, tensor, index, result)
        constants = [number for number in _numbers((step.args, step.kwargs)) if not math.isfinite(number)]
        if constants:
            read = set().union(*(self._read.get(repr(number), set()) for number in constants))
            if read:
                return read
            if not has_nan(tensor):
                return {self._meant_birth(step, tensor)}
        elif self._is_log_of_mask(step):
            return {self._meant_birth(step, tensor)}
        return {self._add(self._birth(step, tensor, self._origin(step, tensor, index, result), self._sizes(step)))}

    def _inherited(self, step: _Step, tensor: Tensor, index: int, result: Any) -> set[int]:
        """The births of inputs that are not finite; a new one where intended infinities become NaN."""
        if not step.births or not step.births <= self._meant:
            return step.births
        if has_nan(tensor):
            if self._is_masked(step):
                origins = _Origins(Origin.MASK)
            elif step.births & self._incoming:
                for each in step.births & self._incoming:
                    self._meant.discard(each)
                return step.births
            else:
                origins = _Origins(Origin.MATH)
            return {self._add(self._birth(step, tensor, origins, self._sizes(step)))}
        wide = again(step.func, step.args, step.kwargs, result, torch.float32)
        if wide is not None and index < len(wide) and wide[index].shape == tensor.shape:
            lost = finite_mask(wide[index]) & ~finite_mask(tensor)
            if bool(lost.any()):
                origins = _Origins(
                    Origin.CAST if step.signature.name in _CASTS else Origin.OVERFLOW, largest(wide[index])
                )
                return step.births | {self._add(self._birth(step, tensor, origins, self._sizes(step)))}
        return step.births

    def _is_masked(self, step: _Step) -> bool:
        """Whether infinities became NaN as those of a row do that is masked completely."""
        op = _forward_name(step)
        return (op in _MASKED or _operation(step) in _MASKED) and not any(
            bool(torch.isposinf(tensor).any()) for tensor in step.bad
        )

    def _is_log_of_mask(self, step: _Step) -> bool:
        """Whether the logarithm of a mask is taken, which makes an additive mask of one that holds 0 and 1."""
        if step.signature.name not in ("aten::log", "aten::log_") or len(step.inputs) != 1:
            return False
        (tensor,) = step.inputs
        return bool(((tensor == 0) | (tensor == 1)).all()) and bool((tensor == 1).any())

    # What is said of a birth.

    def _origin(self, step: _Step, tensor: Tensor, index: int, result: Any) -> _Origins:
        """Why an operation whose inputs are finite gives what is not."""
        if step.signature.name in _CASTS:
            source = step.inputs[-1] if step.inputs else tensor
            return _Origins(Origin.CAST, largest(source), parameter=self._parameter(source))
        bad = ~finite_mask(tensor)
        wide = self._again(step, tensor, index, result, torch.float32, bad)
        if wide is not None:
            flush = self._flushed_constant(step, tensor, wide)
            return _Origins(Origin.UNDERFLOW if flush else Origin.OVERFLOW, largest(wide), flush)
        if step.keys and (found := self._by_lineage(step, tensor, index, result, bad)) is not None:
            return found
        wide = self._again(step, tensor, index, result, torch.float64, bad)
        if wide is not None:
            return _Origins(Origin.OVERFLOW, largest(wide))
        if self._has_lost_mask(step):
            return _Origins(Origin.MASK)
        return _Origins(Origin.MATH)

    def _again(
        self, step: _Step, tensor: Tensor, index: int, result: Any, dtype: torch.dtype, bad: Tensor, swap: Any = None
    ) -> Tensor | None:
        """The output in a wider dtype, None where it is not finite then or can't be computed."""
        outputs = again(step.func, step.args, step.kwargs, result, dtype, swap)
        if outputs is None or index >= len(outputs) or outputs[index].shape != tensor.shape:
            return None
        wide = outputs[index]
        return wide if bool(finite_mask(wide)[bad].all()) else None

    def _flushed_constant(self, step: _Step, tensor: Tensor, wide: Tensor) -> Flush | None:
        """A number in the program that is 0 in the dtype of the operation, where the true result would fit."""
        if not tensor.is_floating_point() or largest(wide) > torch.finfo(tensor.dtype).max:
            return None
        for number in _numbers((step.args, step.kwargs)):
            if number and math.isfinite(number) and not float(torch.tensor(number, dtype=tensor.dtype)):
                place = step.call.lines[0].place if step.call.lines else None
                return Flush(place, self._op(step), number, name_of(tensor.dtype))
        return None

    def _by_lineage(self, step: _Step, tensor: Tensor, index: int, result: Any, bad: Tensor) -> _Origins | None:
        """UNDERFLOW where the operation is finite once what it got is computed in float32, too."""
        values = self._lineage.wide(step.keys)
        if not values:
            return None
        wide = self._again(step, tensor, index, result, torch.float32, bad, swap_all(step.keys, values))
        if wide is None:
            return None
        flush = find_flush(self._lineage, (step.args, step.kwargs), step.keys, values)
        return _Origins(Origin.UNDERFLOW, largest(wide), flush)

    def _has_lost_mask(self, step: _Step) -> bool:
        """Whether weights that add up to 0 are divided by their sum, and all of them were masked by infinities."""
        if plain_division(step.signature.name):
            for recipe in self._lineage.before(step.keys)[:_FEW]:
                for tensor in tensors_in((recipe.args, recipe.kwargs)):
                    storage = _storage(tensor)
                    cell = self._cells.get(storage) if storage is not None else None
                    if cell is not None and cell.births & self._meant and is_plain(tensor) and not is_finite(tensor):
                        return True
        if "scaled_dot_product" in step.signature.name:
            named = by_name(step.func, step.args, step.kwargs)
            return isinstance(named.get("attn_mask", named.get("attn_bias")), Tensor)
        return False

    def _meant_birth(self, step: _Step, tensor: Tensor) -> int:
        index = self._add(self._birth(step, tensor, _Origins(Origin.MASK), self._sizes(step)))
        self._meant.add(index)
        return index

    def _add(self, birth: Birth) -> int:
        self._all.append(birth)
        return len(self._all) - 1

    def _sizes(self, step: _Step) -> tuple[float, ...]:
        return tuple(largest(tensor) for tensor in step.inputs)

    def _birth(self, step: _Step, tensor: Tensor, origins: _Origins, sizes: tuple[float, ...]) -> Birth:
        call, stack = self._where(step)
        return Birth(
            origin=origins.origin,
            op=self._op(step),
            place=call.outside[0].place if call is not step.call and call.outside else (stack[0] if stack else None),
            stack=stack,
            module=call.module,
            dtype=name_of(tensor.dtype),
            backward=step.call.running is not Running.FORWARD,
            value=origins.value,
            inputs=sizes,
            kind=kind_of(tensor),
            rows=rows_of(tensor),
            zero=origins.zero,
            parameter=origins.parameter,
        )

    def _node(self, step: _Step) -> tuple[Call, str] | None:
        """How the forward operation of the running node was called."""
        if step.node is None or step.call.running not in (Running.NODE, Running.FUNCTION):
            return None
        number = _number_of(step.node)
        if number is None:
            return None
        # The node of a write into a view is made right after that of the operation itself.
        numbers = (number - 1, number) if "CopySlices" in step.node.name() else (number,)
        return next((self._nodes[each] for each in numbers if each in self._nodes), None)

    def _where(self, step: _Step) -> tuple[Call, tuple[Place, ...]]:
        """The call that a birth belongs to, and the frames to show."""
        known = self._node(step)
        own = tuple(line.place for line in step.call.lines)
        if known is None:
            return step.call, own
        call = known[0]
        return call, (own + tuple(line.place for line in call.outside))[:8]

    def _op(self, step: _Step) -> str:
        if step.call.running is Running.NODE:
            known = self._node(step)
            return _forward_name(step) if known is None else spoken(known[0], known[1].rpartition("::")[2])
        return spoken(step.call, _operation(step))

    def _parameter(self, tensor: Tensor) -> str:
        """The dotted name of the parameter that a tensor is, or is a view of."""
        if self._parameters is None:
            self._parameters = {}
            for module, name in self._modules.items():
                for own, parameter in module.named_parameters(recurse=False):
                    storage = _storage(parameter)
                    if storage is not None:
                        self._parameters.setdefault(storage, f"{name}.{own}" if name else own)
        storage = _storage(tensor)
        return self._parameters.get(storage, "") if storage is not None else ""


def plain_division(name: str) -> bool:
    """Whether an operation of `aten` divides."""
    return name in ("aten::div", "aten::div_", "aten::true_divide", "aten::divide")


def _operation(step: _Step) -> str:
    return step.signature.name.rpartition("::")[2].rstrip("_").lstrip("_")


def _forward_name(step: _Step) -> str:
    """The name of an operation, or of the one that a running node belongs to."""
    return node_name(step.node.name()) if step.node is not None else _operation(step)


def _current_node() -> Any:
    """The node of the autograd graph that is running."""
    current = getattr(torch._C, "_current_autograd_node", None)
    return current() if current is not None else None


def _sequence_number() -> int | None:
    """The number of the node that was made last in this thread."""
    number = getattr(torch.autograd, "_get_sequence_nr", None)
    return number() - 1 if number is not None else None


def _number_of(node: Any) -> int | None:
    number = getattr(node, "_sequence_nr", None)
    return number() if number is not None else None


def _storage(tensor: Tensor) -> int | None:
    """What identifies the memory of a tensor."""
    try:
        if tensor.layout is torch.sparse_coo:
            tensor = tensor._values()
        address: int = tensor.untyped_storage()._cdata
    except (RuntimeError, NotImplementedError):
        return None
    return address


def _size(tensor: Tensor) -> int:
    return int(tensor.untyped_storage().nbytes())


def _key(tensor: Tensor, storage: int, cell: _Cell) -> Key:
    """What identifies the value of a tensor."""
    if tensor.layout is not torch.strided:
        return (storage, cell.writes, id(tensor))
    return (storage, cell.writes, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)


def _numbers(value: Any) -> Iterator[float]:
    """The floating numbers in arguments."""
    if isinstance(value, float):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, Mapping):
        yield from _numbers(tuple(value.values()))


def _replaced(value: Any, copies: Mapping[int, Tensor]) -> Any:
    """Arguments with copies for some tensors."""
    if isinstance(value, Tensor):
        return copies.get(id(value), value)
    if isinstance(value, (list, tuple)):
        return type(value)([_replaced(item, copies) for item in value])
    if isinstance(value, dict):
        return {name: _replaced(item, copies) for name, item in value.items()}
    return value
