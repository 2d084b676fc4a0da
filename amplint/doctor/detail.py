"""Looks at each operation of one step, and says which ones make values that are not finite out of good ones."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from threading import get_ident
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from amplint.doctor.births import Birth, Origin
from amplint.doctor.calls import MOST_LINES, Call, Running, look, node_name, number_written, plain, spoken
from amplint.doctor.casts import Casts, constant
from amplint.doctor.findings import Place
from amplint.doctor.graph import number_of
from amplint.doctor.lineage import Key, Lineage
from amplint.doctor.origins import (
    CASTS,
    Origins,
    Output,
    is_attention,
    is_log_of_mask,
    lost_beside_infinities,
    numbers_in,
    origin_of,
)
from amplint.doctor.places import user_frame, user_place
from amplint.doctor.readings import has_nan, is_finite, is_plain, kind_of, largest, name_of, rows_of
from amplint.doctor.shadow import Operation, Signature, signature_of, tensors_in

_COLLECTIVES = frozenset({"c10d", "_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "symm_mem"})
# What memory holds that nothing has been written to says nothing.
_UNINITIALISED = frozenset(
    f"aten::{name}"
    for name in (
        "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_",
        "resize_as_", "_resize_output_",
    )
)  # fmt: skip
# Operations whose outputs are not computed again: views that depend on how numbers lie in memory.
_UNTOLD = frozenset({"aten::as_strided", "aten::lift_fresh"})
# Operations in which infinities by intention become NaN where all of a row are masked.
_MASKED = frozenset(
    {"softmax", "log_softmax", "logsumexp", "sub", "rsub", "scaled_dot_product_attention", "logcumsumexp", "softmin"}
)


class CollectiveRefused(RuntimeError):
    """An operation would have waited for other processes. It did not run."""

    def __init__(self, op: str) -> None:
        super().__init__(f"{op} talks to other processes")
        self.op = op


class TookTooLong(RuntimeError):
    """A look was ended: what is run again takes too long."""

    def __init__(self) -> None:
        super().__init__("it takes too long")


class OutsideWrite(RuntimeError):
    """An operation would have written to a tensor that lives longer than what is looked at. It did not run."""

    def __init__(self, op: str, place: Place | None) -> None:
        super().__init__(f"{op} writes to a tensor of the program")
        self.op = op
        self.place = place


@dataclass(eq=False)
class _Cell:
    """What is known of a storage.

    Attributes:
        alive: Keeps its address from being used again.
        is_own: Whether it was made while the mode was entered.
        is_sure: Whether `births` says all: not of memory from outside of which only a part was seen, nor of memory
            that was not yet written completely.
        births: Which births reach its values.
        writes: How often it was written.
    """

    alive: Any
    is_own: bool
    is_sure: bool = True
    births: set[int] = field(default_factory=set)
    writes: int = 0


@dataclass(eq=False)
class _Step:
    """An operation on its way: how it was called, and what is known of its arguments.

    Attributes:
        operation: The operation, its arguments as they were before it ran.
        signature: What it writes.
        call: How it was called.
        node: The node of the autograd graph that is running, or None.
        targets: The tensors that it writes.
        storages: The storages of all arguments.
        keys: The keys of the arguments by their ids.
        inputs: The floating tensors that it reads.
        bad: Those that are not finite.
        births: The births that reach these.
        written: The ids of the tensors that it writes.
        given: The births of its results that are not finite, None where all are finite.
    """

    operation: Operation
    signature: Signature
    call: Call
    node: Any
    targets: list[Tensor]
    storages: set[int] = field(default_factory=set)
    keys: dict[int, Key] = field(default_factory=dict)
    inputs: list[Tensor] = field(default_factory=list)
    bad: list[Tensor] = field(default_factory=list)
    births: set[int] = field(default_factory=set)
    written: set[int] = field(default_factory=set)
    given: set[int] | None = None


class Detail(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Looks at each operation while it is entered. It changes nothing, and draws no random numbers.

    Args:
        modules: The names of the modules that births are said to be in.
        is_intended_ok: Whether infinities that are meant, such as those of a mask, are no births.
        allowed: Tensors outside that may be written to, such as buffers that someone puts back.
        is_live: Whether the program itself runs, not a replay: nothing is refused.
        casts: What tensors from outside were before they were cast to half precision.
        seconds: After which the look ends with a `TookTooLong`.

    Attributes:
        births: The births so far, in order.
        incoming: The same of values that were not finite in a tensor from outside, where they are first read.
        failed: How often the look itself failed; the program's operation ran all the same.
    """

    supports_higher_order_operators = True

    def __init__(
        self,
        modules: Mapping[nn.Module, str],
        is_intended_ok: bool = True,
        allowed: Iterable[Tensor] = (),
        *,
        is_live: bool = False,
        casts: Casts | None = None,
        seconds: float = math.inf,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._end = time.monotonic() + seconds
        self._is_live = is_live
        self._casts = casts or Casts()
        self._is_closed = False
        self.failed = 0
        self._modules = modules
        self._names = {id(module): name for module, name in modules.items()}
        self._is_intended_ok = is_intended_ok
        self._allowed = {key for tensor in allowed if (key := storage_of(tensor)) is not None}
        self._all: list[Birth] = []
        self._meant: set[int] = set()  # infinities by intention
        self._incoming: set[int] = set()
        self._cells: dict[int, _Cell] = {}
        self._lineage = Lineage(self._is_current)
        self._fresh: tuple[int, Call] | None = None  # the birth of the operation before
        self._nodes: dict[int, dict[int, tuple[Call, str]]] = {}  # by their numbers and threads
        self._read: dict[str, set[int]] = {}  # births by what a Python number shows that was read from a tensor
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
        births = self._births_of(tensors) - self._incoming
        faults = births - self._meant if self._is_intended_ok else births
        if not faults:  # a loss is never infinite by intention
            faults = self._births_of(tensor for tensor in tensors if tensor.numel() == 1) - self._incoming
        return [self._all[index] for index in sorted(faults)]

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
            key = storage_of(tensor)
            cell = self._cells.get(key) if key is not None else None
            if cell is not None and cell.births and not (is_plain(tensor) and is_finite(tensor.detach())):
                births |= cell.births
        return births

    def __enter__(self) -> Detail:
        if not self._depth:
            self._last = None if self._is_live else sys._getframe(1)
            while self._last is not None and self._last.f_code.co_filename == contextlib.__file__:
                self._last = self._last.f_back
        self._depth += 1
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def close(self) -> None:
        """Look at nothing any more, though the mode is still entered."""
        self._is_closed = True
        self._lineage.clear()
        self._nodes.clear()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
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
        if self._is_closed:
            return func(*args, **kwargs)
        if schema is None:  # an operator on functions, such as flex_attention
            result = func(*args, **kwargs)
            self._pass((args, kwargs), result)
            return result
        if time.monotonic() > self._end:
            raise TookTooLong
        if schema.name.partition("::")[0] in _COLLECTIVES and not self._is_live:
            raise CollectiveRefused(schema.name)
        if torch.is_inference_mode_enabled() and not self._is_live:
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        step: _Step | None = None
        try:
            step = self._before(Operation(func, args, kwargs), sys._getframe(1))
        except OutsideWrite:
            raise
        except Exception:
            self.failed += 1
        result = func(*args, **kwargs)
        try:
            if step is not None:
                self._after(step, result)
        except Exception:
            self.failed += 1
            step = None
        if step is None:
            self._pass((args, kwargs), result)
        return result

    def _pass(self, arguments: Any, result: Any) -> None:
        """Take the births of what went in for those of what came out, where it can't be said how that was computed."""
        try:
            births = self._births_of(tensors_in(arguments))
            for tensor in tensors_in(result):
                storage = storage_of(tensor)
                if storage is not None and storage not in self._cells:
                    self._cells[storage] = _Cell(_alive(tensor), is_own=True, is_sure=False, births=set(births))
        except Exception:
            self.failed += 1

    # Before an operation.

    def _before(self, operation: Operation, frame: FrameType) -> _Step:
        signature = signature_of(operation.func)
        node = _current_node()
        call = look(frame, self._last, self._names, node is not None)
        step = _Step(operation, signature, call, node, operation.targets)
        for tensor in step.targets:
            self._check_write(tensor, signature.name)
        filled = {id(tensor) for tensor in step.targets} if signature.is_fill else set()
        for tensor in tensors_in((operation.args, operation.kwargs)):
            self._take(step, tensor, id(tensor) in filled)
        self._note_node(step)
        if step.targets and not signature.is_fill:
            self._keep_targets(step)
        return step

    def _check_write(self, tensor: Tensor, op: str) -> None:
        key = storage_of(tensor)
        if key is None or key in self._allowed or self._is_live:
            return
        cell = self._cells.get(key)
        if cell is None or not cell.is_own:
            raise OutsideWrite(plain(op.rpartition("::")[2]), user_place())

    def _take(self, step: _Step, tensor: Tensor, is_filled: bool) -> None:
        """Learn what is known of an argument."""
        storage = storage_of(tensor)
        if storage is None:
            return
        cell = self._cells.get(storage)
        if cell is None:
            is_own = step.signature.name == "aten::lift_fresh"  # `torch.tensor(...)`
            is_sure = not is_filled and is_plain(tensor) and _is_whole(tensor) and is_finite(tensor)
            cell = self._cells[storage] = _Cell(_alive(tensor), is_own, is_sure)
        step.storages.add(storage)
        if is_filled or not is_plain(tensor):
            return
        step.keys[id(tensor)] = key = _key(tensor, storage, cell)
        step.inputs.append(tensor)
        if not cell.is_own and not cell.writes and self._lineage.get(key) is None:
            self._take_cast(tensor, key)
        if (cell.births or not cell.is_sure) and not is_finite(tensor):
            step.bad.append(tensor)
            if not cell.births and (not cell.is_own or step.signature.name == "aten::lift_fresh"):
                self._note_incoming(step, tensor, cell)
            step.births |= cell.births

    def _take_cast(self, tensor: Tensor, key: Key) -> None:
        """Learn that a tensor from outside was cast to half precision, and from what."""
        cast = self._casts.of(tensor) or constant(tensor)
        if cast is not None:
            self._lineage.add([(key, tensor.numel() * tensor.element_size())], cast.operation, {}, cast.call)

    def _note_incoming(self, step: _Step, tensor: Tensor, cell: _Cell) -> None:
        """Remember a tensor from outside that is not finite; one with infinities alone may be meant, like a mask."""
        index = self._add(step, tensor, Origins(Origin.INCOMING, parameter=self._parameter(tensor)))
        memory = _memory(tensor)
        self._all[index] = replace(self._all[index], memory=memory.data_ptr() if memory is not None else 0)
        cell.births.add(index)
        is_meant = not has_nan(tensor) and not isinstance(tensor, nn.Parameter)
        if is_meant:
            self._meant.add(index)
        if not is_meant or tensor.dim():
            self._incoming.add(index)
            return
        # A number in the program: `scores[mask] = -math.inf`, or -1e9.
        self._all[index] = replace(self._all[index], origin=Origin.MASK)
        number = number_written(user_frame(sys._getframe()))
        if number is not None and math.isfinite(number):
            self._all[index] = replace(self._all[index], origin=Origin.CAST, value=abs(number))
            self._meant.remove(index)

    def _note_node(self, step: _Step) -> None:
        """Remember the line of an operation for its node in the backward pass."""
        call = step.call
        known: tuple[Call, str] | None = (call, step.signature.name)
        if call.running is not Running.FORWARD:  # with `create_graph` a backward pass makes nodes as well
            known = self._node(step)
        # Within the forward of a custom Function nothing is recorded: the last node is the Function's own. Elsewhere
        # the first operation after a node was made is the one that it was made for.
        if known is not None and (call.function is not None or torch.is_grad_enabled()):
            number = _sequence_number()
            if number is not None:
                self._nodes.setdefault(number, {}).setdefault(get_ident(), known)

    def _keep_targets(self, step: _Step) -> None:
        """Copy what is written in place, to be able to run the operation again."""
        copies: dict[int, Tensor] = {}
        for tensor in step.targets:
            if id(tensor) not in copies and is_plain(tensor):
                copy = copies[id(tensor)] = tensor.clone()
                key = step.keys.get(id(tensor))
                if key is not None and self._lineage.sources(key):
                    step.keys[id(copy)] = key
                step.inputs = [copy if each is tensor else each for each in step.inputs]
                step.bad = [copy if each is tensor else each for each in step.bad]
        args, kwargs = _replaced(step.operation.args, copies), _replaced(step.operation.kwargs, copies)
        step.operation = step.operation._replace(args=args, kwargs=kwargs)

    # After an operation.

    def _after(self, step: _Step, result: Any) -> None:
        if step.signature.name == "aten::_local_scalar_dense":
            self._note_read(step, result)
            return
        outputs = list(tensors_in(result))
        outputs += [tensor for tensor in step.targets if not any(tensor is each for each in outputs)]
        step.written = {id(tensor) for tensor in step.targets}
        step.operation = step.operation._replace(result=result)
        fresh, self._fresh = self._fresh, None
        made = [self._learn(step, tensor, index, fresh) for index, tensor in enumerate(outputs)]
        self._keep(step, outputs, made)

    def _learn(self, step: _Step, tensor: Tensor, index: int, fresh: tuple[int, Call] | None) -> tuple[Key, int]:
        """Learn what an output is; returns its key, and how much memory it takes."""
        storage = storage_of(tensor)
        if storage is None:
            return (), 0
        is_written = id(tensor) in step.written
        is_view = storage in step.storages and not is_written
        if storage not in self._cells or not (is_view or is_written):
            self._cells[storage] = _Cell(_alive(tensor), is_own=True)
        cell = self._cells[storage]
        cell.writes += is_written
        if is_view:
            if fresh is not None:
                self._unfold(step, fresh, cell, tensor)
            return _key(tensor, storage, cell), 0
        if step.signature.name in _UNINITIALISED:
            cell.is_sure = False
        elif is_plain(tensor):
            if is_finite(tensor):
                _settle(cell, tensor, set())
            else:
                if step.given is None:
                    step.given = self._births(step, self._output(step, tensor, index))
                _settle(cell, tensor, step.given)
        return _key(tensor, storage, cell), tensor.numel() * tensor.element_size()

    def _unfold(self, step: _Step, fresh: tuple[int, Call], cell: _Cell, tensor: Tensor) -> None:
        """Take the rows of a birth from the shape that its line gives it: of a batch, not of all its tokens."""
        index, call = fresh
        if cell.births == {index} and step.call.lines == call.lines:
            self._all[index] = replace(self._all[index], rows=rows_of(tensor), of_rows=len(tensor))

    def _keep(self, step: _Step, outputs: list[Tensor], made: list[tuple[Key, int]]) -> None:
        """Keep how the outputs were computed, where that can be told later."""
        if step.signature.name in _UNTOLD or step.signature.name in _UNINITIALISED:
            return
        inputs = set(step.keys.values())
        if all(key not in inputs for key, _ in made) and any(is_plain(tensor) for tensor in outputs):
            # What it gave is kept only where it says what was drawn.
            result = step.operation.result if step.signature.name == "aten::native_dropout" else None
            self._lineage.add(made, step.operation._replace(result=result), step.keys, step.call)

    def _note_read(self, step: _Step, number: Any) -> None:
        """Remember which births a Python number shows."""
        if isinstance(number, float) and not math.isfinite(number):
            self._read[repr(number)] = self._read.get(repr(number), set()) | step.births

    def _births(self, step: _Step, output: Output) -> set[int]:
        """The births that the values of an output which is not finite go back to, a new one among them maybe."""
        if step.bad:
            return self._inherited(step, output)
        arguments = (step.operation.args, step.operation.kwargs)
        constants = [repr(number) for number in numbers_in(arguments) if not math.isfinite(number)]
        read = {birth for number in constants for birth in self._read.get(number, ())}
        if read:
            return read
        if is_log_of_mask(output, self._lineage) if not constants else not has_nan(output.tensor):
            return {self._add_meant(step, output.tensor)}
        index = self._add(step, output.tensor, self._origins(step, output))
        self._fresh = index, step.call
        return {index}

    def _inherited(self, step: _Step, output: Output) -> set[int]:
        """The births of inputs that are not finite; a new one where intended infinities become NaN."""
        if not step.births or not step.births <= self._meant:
            return step.births
        if not has_nan(output.tensor):
            value = lost_beside_infinities(output)
            if value is None:
                return step.births
            origin = Origin.CAST if step.signature.name in CASTS else Origin.OVERFLOW
            return step.births | {self._add(step, output.tensor, Origins(origin, value))}
        if self._is_masked(step):
            return {self._add(step, output.tensor, Origins(Origin.MASK), is_nan=True)}
        incoming = step.births & self._incoming
        if incoming:
            self._meant -= incoming
            return incoming
        return {self._add(step, output.tensor, Origins(Origin.MATH), is_nan=True)}

    def _is_masked(self, step: _Step) -> bool:
        """Whether infinities became NaN as those of a row do that is masked completely."""
        names = {plain(_operation(step)), _forward_name(step)}
        is_softmax = is_attention(step.signature.name) or not names.isdisjoint(_MASKED)
        if not is_softmax or any(each.is_complex() for each in step.bad):
            return False
        if any(bool(torch.isposinf(each).any()) for each in step.bad):
            return False
        # A whole row of infinities is a mask's, one of them alone may be a bad number in the batch.
        return not step.births & self._incoming or any(_has_infinite_row(each) for each in step.bad)

    def _is_current(self, key: Key) -> bool:
        """Whether the tensor that a key is of has not been written since."""
        cell = self._cells.get(key[0])
        return cell is not None and cell.writes == key[1]

    def _is_meant(self, tensor: Tensor) -> bool:
        """Whether a tensor holds infinities that are meant."""
        storage = storage_of(tensor)
        cell = self._cells.get(storage) if storage is not None else None
        return cell is not None and bool(cell.births & self._meant) and is_plain(tensor) and not is_finite(tensor)

    # What is said of a birth.

    def _output(self, step: _Step, tensor: Tensor, index: int) -> Output:
        place = step.call.lines[0].place if step.call.lines else None
        return Output(step.operation, tensor, index, step.inputs, step.keys, place, self._op(step))

    def _origins(self, step: _Step, output: Output) -> Origins:
        """Why an operation whose inputs are finite gives what is not."""
        if step.signature.name in CASTS:
            source = step.operation.args[1 if step.signature.is_fill else 0]
            is_forward = step.call.running is Running.FORWARD
            origin = Origin.CAST if is_forward else Origin.OVERFLOW
            return Origins(origin, largest(source), parameter=self._parameter(source) if is_forward else "")
        return origin_of(output, self._lineage, self._is_meant)

    def _add_meant(self, step: _Step, tensor: Tensor) -> int:
        index = self._add(step, tensor, Origins(Origin.MASK))
        self._meant.add(index)
        return index

    def _add(self, step: _Step, tensor: Tensor, origins: Origins, is_nan: bool = False) -> int:
        """Remember a birth, of which only the NaNs count where `is_nan` is set; returns its number."""
        known = self._node(step)
        call = step.call if known is None else known[0]
        stack = tuple(line.place for line in step.call.lines)
        place = stack[0] if stack else None
        if known is not None:
            forward = tuple(line.place for line in call.outside)
            stack = (stack + forward)[:MOST_LINES]
            place = forward[0] if forward else place
        self._all.append(
            Birth(
                origin=origins.origin,
                op=self._op(step),
                place=place,
                stack=stack,
                module=call.module,
                dtype=name_of(tensor.dtype),
                backward=step.call.running is not Running.FORWARD,
                value=origins.value,
                inputs=tuple(largest(each) for each in step.inputs if each.numel()),
                kind="nan" if is_nan else kind_of(tensor),
                rows=rows_of(tensor, is_nan),
                of_rows=len(tensor) if tensor.dim() else 0,
                zero=origins.zero,
                parameter=origins.parameter,
                is_empty=any(not each.numel() for each in step.inputs),
            )
        )
        return len(self._all) - 1

    def _node(self, step: _Step) -> tuple[Call, str] | None:
        """How the forward operation of the running node was called."""
        if step.node is None or step.call.running not in (Running.NODE, Running.FUNCTION):
            return None
        number = number_of(step.node)
        if number is None:
            return None
        # The node of a write into a view is made right after that of the operation itself.
        numbers = (number - 1, number) if "CopySlices" in step.node.name() else (number,)
        known = next((self._nodes[each] for each in numbers if each in self._nodes), {})
        for call, name in known.values():  # threads count on their own
            if plain(name.rpartition("::")[2]) == _forward_name(step):
                return call, name
        return next(iter(known.values()), None)

    def _op(self, step: _Step) -> str:
        if step.call.running is Running.NODE:
            known = self._node(step)
            return _forward_name(step) if known is None else spoken(known[0], known[1].rpartition("::")[2])
        return spoken(step.call, _operation(step))

    def _parameter(self, tensor: Tensor) -> str:
        """The dotted name of the parameter or buffer that a tensor is, or is a view of."""
        if self._parameters is None:
            self._parameters = {}
            for module, name in self._modules.items():
                for own, parameter in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
                    storage = storage_of(parameter)
                    if storage is not None:
                        self._parameters.setdefault(storage, f"{name}.{own}" if name else own)
        storage = storage_of(tensor)
        return self._parameters.get(storage, "") if storage is not None else ""


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


def _memory(tensor: Tensor) -> torch.UntypedStorage | None:
    """The memory that holds the numbers of a tensor."""
    try:
        return (tensor._values() if tensor.layout is torch.sparse_coo else tensor).untyped_storage()
    except (RuntimeError, NotImplementedError):
        return None


def storage_of(tensor: Tensor) -> int | None:
    """What identifies the memory of a tensor, None where it has none of its own."""
    memory = _memory(tensor)
    return int(memory._cdata) if memory is not None else None


def _alive(tensor: Tensor) -> Any:
    """What keeps the address of a tensor's memory from being used again, though not the memory."""
    return StorageWeakRef(_memory(tensor))  # type: ignore[no-untyped-call]


def _is_whole(tensor: Tensor) -> bool:
    """Whether a tensor is all of its memory."""
    return tensor.numel() * tensor.element_size() >= int(tensor.untyped_storage().nbytes())


def _has_infinite_row(tensor: Tensor) -> bool:
    return tensor.dim() > 0 and tensor.shape[-1] > 1 and bool(torch.isneginf(tensor).all(dim=-1).any())


def _settle(cell: _Cell, tensor: Tensor, births: set[int]) -> None:
    """Bring up to date what is known of memory after a tensor in it was written."""
    if _is_whole(tensor):
        cell.births = set(births)
        cell.is_sure = True
    else:
        cell.births |= births


def _key(tensor: Tensor, storage: int, cell: _Cell) -> Key:
    """What identifies the value of a tensor."""
    if tensor.layout is not torch.strided or tensor.is_nested:
        return (storage, cell.writes, id(tensor))
    return (storage, cell.writes, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)


def _replaced(value: Any, copies: Mapping[int, Tensor]) -> Any:
    """Arguments with copies for some tensors."""
    if isinstance(value, Tensor):
        return copies.get(id(value), value)
    if isinstance(value, (list, tuple)):
        return type(value)([_replaced(item, copies) for item in value])
    if isinstance(value, dict):
        return {name: _replaced(item, copies) for name, item in value.items()}
    return value
