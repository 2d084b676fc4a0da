"""Where weights and data that are not finite come from: what was loaded, or the line of the user's that writes them."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice, pairwise, repeat
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.data import DataLoader, Dataset, Subset

from amplint.doctor.capture import tensors_in
from amplint.doctor.findings import Cause, Evidence, Finding, Place
from amplint.doctor.places import is_users, place_of, user_place, users_frames
from amplint.doctor.random_state import RandomState, generators_restored, moment_of
from amplint.doctor.readings import (
    HALF,
    bad_of,
    can_read,
    can_wait_for,
    finite_mask,
    has_nan,
    is_finite,
    is_plain,
    is_readable,
    may_be_bad,
    name_of,
)
from amplint.doctor.slices import draws_of, line_that_fills, line_that_sets, tree_of, updated_by

_MOST_GIVEN = 1 << 24  # numbers of a parameter that are looked at when a module gets it

_FEW = 64  # of them that are not finite, which are remembered

_FEW_LINES = 3  # that write to a parameter, and are named
_MOST_SECONDS = 5.0  # that lines are followed
_DEPTH = 4  # of datasets in datasets
_DEEP = 3  # objects in objects
_CLOSE = 2  # lines between two of one update
_MOST_ITEMS = 4096  # of a dataset that are looked at
_ROUNDS = 4  # through a small one, whose items may be random


class Sources:
    """Remembers where states were loaded, and looks for lines that write a parameter."""

    def __init__(self) -> None:
        self._loaded: dict[int, tuple[weakref.ref[nn.Module], Place | None]] = {}
        self._given: dict[tuple[int, str], _Given] = {}  # by the module's id and the name in it
        self.cast_at: Place | None = None  # where weights were cast to half precision last

    def loaded(self, module: nn.Module) -> None:
        """A state was loaded into a module, and so into those in it."""
        place = user_place()
        for each in module.modules():
            self._loaded[id(each)] = weakref.ref(each), place

    def given(self, module: nn.Module, name: str, tensor: object) -> None:
        """A module was given a parameter or buffer, which is remembered if the program has made it bad before."""
        if not isinstance(tensor, torch.Tensor) or tensor.numel() > _MOST_GIVEN or not is_plain(tensor):
            return
        if not may_be_bad(tensor, waits=True):
            return
        for frame in users_frames():
            for variable, value in list(frame.f_locals.items()):
                if isinstance(value, torch.Tensor) and _is_same(value, tensor) and not isinstance(value, nn.Parameter):
                    place = line_that_sets(frame, variable) or place_of(frame)
                    if place is not None:
                        bad = (~finite_mask(tensor.detach())).flatten().nonzero().flatten()[:_FEW].tolist()
                        self._given[id(module), name] = _Given(weakref.ref(module), bad, place, variable)
                    return

    def moved(self, module: nn.Module) -> None:
        """A module was moved or cast."""
        if any(each.dtype in HALF for each in module.parameters()):
            self.cast_at = user_place()

    def of(self, model: nn.Module, name: str) -> tuple[Place, str] | None:
        """Where a parameter or buffer of a model got its values, and what happens there, as far as that is known.

        Args:
            model: The model.
            name: The dotted name of the parameter or buffer in it.
        """
        owner = model.get_submodule(name.rpartition(".")[0])
        reference, place = self._loaded.get(id(owner), (None, None))
        if reference is not None and reference() is owner and place is not None:
            return place, "loaded"
        given = self._given.get((id(owner), name.rpartition(".")[2]))
        if given is not None and given.is_of(owner, name.rpartition(".")[2]):
            return given.place, f"set as `{given.variable}`"
        written = _only_writer(_files(model.modules()), *name.split(".")[-2:])
        written = written or _only_writer(_files([owner]), "self", name.rpartition(".")[2])
        written = written or _last_of(list(_lines_that_update(_files([owner]), name.rpartition(".")[2])))
        # What has a layer by another name, such as a callback: the one line of the program that writes to a `weight`.
        written = written or _only_writer(_users_files(), name.rpartition(".")[2])
        return (written, "written") if written is not None else None

    def writers(self, model: nn.Module, name: str) -> list[Place]:
        """The lines of the user's code that write to a parameter or buffer of a model, or to a part of it; none where
        they are more than a few.
        """
        names = name.split(".")[-2:]
        lines = _writers(_files(model.modules()), *names) | _writers(_files(model.modules()), *names, "")
        return sorted(lines, key=lambda line: (line.path, line.line)) if len(lines) <= _FEW_LINES else []


class _Given(NamedTuple):
    """A tensor that was bad when a module got it: the module, which numbers were, and the line of the variable."""

    module: weakref.ref[nn.Module]
    bad: list[int]
    place: Place
    variable: str

    def is_of(self, module: nn.Module, name: str) -> bool:
        """Whether it is that module's, and the same numbers are bad still: to initialize them would mend them."""
        held = getattr(module, name, None)
        if self.module() is not module or not isinstance(held, torch.Tensor) or held.numel() <= self.bad[-1]:
            return False
        return not bool(torch.isfinite(held.detach().flatten()[self.bad]).any())


def _is_same(value: torch.Tensor, tensor: torch.Tensor) -> bool:
    """Whether two tensors are the same numbers in memory."""
    return value.shape == tensor.shape and is_plain(value) and value.data_ptr() == tensor.data_ptr()


class Buffers:
    """Buffers of modules that were finite, and are not any more."""

    def __init__(self) -> None:
        self._finite: dict[int, weakref.ref[torch.Tensor]] = {}

    def look(self, modules: Iterable[nn.Module]) -> Iterator[Finding]:
        """The findings on buffers that have become infinite since the last look."""
        parts = {id(part): part for module in modules for part in module.modules()}
        held = [(module, *each) for module in parts.values() for each in module.named_buffers(recurse=False)]
        bad = {id(each) for each in bad_of(can_read(buffer for _, _, buffer in held))}
        for module, name, buffer in held:
            if buffer.is_floating_point() and can_wait_for(buffer):
                known = self._finite.get(id(buffer))
                if id(buffer) not in bad:
                    if known is None or known() is not buffer:
                        self._finite[id(buffer)] = weakref.ref(buffer)
                elif known is not None and known() is buffer:
                    del self._finite[id(buffer)]
                    yield _of_buffer(module, name, buffer)


def _of_buffer(module: nn.Module, name: str, buffer: torch.Tensor) -> Finding:
    lines = _writers(_files([module]), "self", name)
    is_half = buffer.dtype in HALF
    return Finding(
        Cause.OVERFLOW if is_half and not has_nan(buffer) else Cause.WEIGHTS,
        Evidence.SEEN,
        f"the buffer `{name}` of `{type(module).__name__}` ({name_of(buffer.dtype)}) was finite and is "
        f"{'NaN' if has_nan(buffer) else 'infinite'} now, while the loss stays finite",
        min(lines, key=lambda line: line.line) if lines else user_place(),
        advice="keep sums and statistics in float32" if is_half else "",
    )


class Held(NamedTuple):
    """What of the program holds numbers that are not finite.

    Attributes:
        name: Its name.
        place: The line that sets it, where that is known.
        frame: The frame of the variable, None for an attribute.
        value: The tensor or array that the variable holds.
    """

    name: str
    place: Place | None
    frame: FrameType | None = None
    value: Any = None


def bad_data(frames: Sequence[FrameType], batch: torch.Tensor) -> Iterator[Held]:
    """Variables, and attributes of datasets, that are not finite: what a batch may be taken from.

    Args:
        frames: The user's frames, the innermost first.
        batch: The batch that is not finite.
    """
    for frame in frames:
        for name, value in list(frame.f_locals.items()):
            if not _is_loader(value) and not getattr(value, "requires_grad", False) and _is_source(value, batch):
                if value is not batch:
                    yield Held(name, None, frame, value)
        for loader in _loaders(frame):
            yield from _bad_attributes(loader, batch, frames)


def kept_by(frames: Sequence[FrameType], memory: int) -> Held | None:
    """What an object of the program's keeps from one step to the next, and computes itself, that has some memory: a
    running average, or a list of results. The place is the line that writes it, where that is the only one.

    What it was only given, such as a batch, is not meant.
    """
    for frame in frames:
        for name, value in list(frame.f_locals.items()):
            if not isinstance(value, torch.Tensor) and any(_has_memory(each, memory) for each in tensors_in(value)):
                if (line := line_that_fills(frame, name)) is not None:
                    return Held(name, line, None, value)
            for path, owner, attribute in _attributes_with(value, name, memory):
                lines = list(_lines_that_update(_files([owner]), attribute))
                if lines:
                    return Held(path, _last_of(lines), None, getattr(owner, attribute))
    return None


def _attributes_with(value: Any, name: str, memory: int, depth: int = _DEEP) -> Iterator[tuple[str, Any, str]]:
    """The attributes of an object of the user's, and of those in it, that have some memory: how they are called, the
    object and the attribute.
    """
    if not _is_of_user(type(value)) or isinstance(value, Dataset) or not depth:
        return
    for attribute, held in list(getattr(value, "__dict__", {}).items()):
        if any(_has_memory(each, memory) for each in tensors_in(held)):
            yield f"{name}.{attribute}", value, attribute
        else:
            yield from _attributes_with(held, f"{name}.{attribute}", memory, depth - 1)


def _last_of(lines: Sequence[Place]) -> Place | None:
    """The last of lines that are one update: `total *= 0.9`, then `total += new`. None where they lie apart."""
    ordered = sorted(lines, key=lambda line: (line.path, line.line))
    pairs = pairwise(ordered)
    is_one = all(one.path == other.path and other.line - one.line <= _CLOSE for one, other in pairs)
    return ordered[-1] if ordered and is_one else None


def _has_memory(tensor: torch.Tensor, memory: int) -> bool:
    return is_plain(tensor) and tensor.untyped_storage().data_ptr() == memory


def _lines_that_update(paths: Iterable[str], attribute: str) -> Iterator[Place]:
    """The lines that compute an attribute from what it was before, write to it in place, or add to it."""
    own = f"self.{attribute}"
    for path in paths:
        with suppress(SyntaxError):
            for node in ast.walk(tree_of(path)):
                if own in updated_by(node):
                    yield Place(path, getattr(node, "lineno", 0))


class _Loader(NamedTuple):
    """A loader that a function has: its name there, itself, and where it is set.

    Attributes:
        name: The name.
        loader: The loader.
        frame: The frame of the variable, None for an attribute of an object.
        place: The line that sets the attribute, where that is the only one.
    """

    name: str
    loader: DataLoader[Any]
    frame: FrameType | None
    place: Place | None


def _loaders(frame: FrameType) -> Iterator[_Loader]:
    """The loaders in variables of a function, and in attributes of objects of the user's in them, such as `self`."""
    variables = list(frame.f_locals.items())
    yield from (_Loader(name, value, frame, None) for name, value in variables if _is_loader(value))
    for name, value in variables:
        if not _is_of_user(type(value)):
            continue
        for attribute, held in list(getattr(value, "__dict__", {}).items()):
            if _is_loader(held):
                place = _only_writer(_files([value]), "self", attribute)
                yield _Loader(f"{name}.{attribute}", held, None, place)


def _is_loader(value: Any) -> bool:
    return isinstance(value, DataLoader)


def _is_of_user(kind: type) -> bool:
    """Whether a class is the user's own."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return isinstance(file, str) and is_users(file)


def _bad_attributes(loader: _Loader, batch: torch.Tensor, frames: Sequence[FrameType]) -> Iterator[Held]:
    """What the dataset of a loader holds that is not finite: an attribute of the user's, or a list of tensors."""
    held = ((part, *each) for part in parts_of(loader.loader) for each in getattr(part, "__dict__", {}).items())
    for dataset, attribute, value in held:
        name = f"{loader.name}.dataset.{attribute}"
        if _is_bad(value):
            yield from _variables_of(frames, value)
            yield Held(name, _only_writer(_files([dataset]), "self", attribute))
            return
        if isinstance(value, (list, tuple)) and any(_is_source(each, batch) for each in value[:_FEW]):
            at = None if loader.frame is not None else loader.place
            yield Held(name, at, loader.frame, loader.loader)
            return


def _variables_of(frames: Sequence[FrameType], value: Any) -> Iterator[Held]:
    """The variables whose numbers, or a part of them, a tensor is: `data` where a dataset has `data[:100]`."""
    if isinstance(value, torch.Tensor) and is_plain(value):
        memory = value.untyped_storage().data_ptr()
        for frame in frames:
            for name, each in list(frame.f_locals.items()):
                if isinstance(each, torch.Tensor) and is_plain(each) and each.untyped_storage().data_ptr() == memory:
                    yield Held(name, None, frame, each)


def parts_of(holder: Any, depth: int = _DEPTH) -> Iterator[Any]:
    """What a loader or a dataset is made of: its dataset, that of a subset, the datasets that are put together."""
    inner, several = getattr(holder, "dataset", None), getattr(holder, "datasets", ())
    for part in (inner, *(several if isinstance(several, (list, tuple)) else ())) if depth else ():
        if part is not None:
            yield part
            yield from parts_of(part, depth - 1)


def _is_source(value: Any, batch: torch.Tensor) -> bool:
    """Whether a batch that is not finite may be a part of a tensor or array: it has its shape, and is not finite."""
    return _is_bad(value) and value.ndim > 0 and tuple(value.shape[1:]) == tuple(batch.shape[1:])


def _is_bad(value: Any) -> bool:
    """Whether a tensor or an array holds numbers that are not finite."""
    if isinstance(value, torch.Tensor):
        return value.is_floating_point() and can_wait_for(value) and not is_finite(value.detach())
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray) or value.dtype.kind != "f":
        return False
    return not bool(numpy.isfinite(value).all())


def first_bad_line(run: Callable[[], object], given: Iterable[object]) -> Place | None:
    """Run something, and return the user's line after which a variable held numbers that are not finite first.

    Args:
        run: What to run.
        given: What it is given, which is not looked at.
    """
    found = _followed(run, given)
    return found[0] if found is not None else None


def _followed(run: Callable[[], object], given: Iterable[object]) -> tuple[Place, Any] | None:
    """The line of `first_bad_line`, and what was not finite after it.

    Raises:
        TimeoutError: It takes too long.
    """
    known = {id(each) for each in given}
    found: list[tuple[Place, Any]] = []
    lines: dict[FrameType, int] = {}
    end = time.monotonic() + _MOST_SECONDS

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if found or not is_users(frame.f_code.co_filename):
            return None
        if time.monotonic() > end:
            raise TimeoutError
        maker = frame.f_back if event == "call" else frame  # of arguments
        before = lines.get(maker) if maker is not None else None
        values = list(frame.f_locals.values()) if before is not None else []
        if event == "return" and not any(map(_holds_bad, values)):  # else an item of theirs was made before
            values += _values(argument)
        bad = [each for each in values if id(each) not in known and _is_bad(each)]
        if bad and maker is not None and before is not None:
            found.append((Place(maker.f_code.co_filename, before, maker.f_code.co_name), bad[0]))
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip()
        if frame not in lines or not text.startswith(("with ", "async with ")):  # a block is left at its first line
            lines[frame] = frame.f_lineno
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return found[0] if found else None


def loaders(frames: Sequence[FrameType]) -> Iterator[tuple[str, DataLoader[Any]]]:
    """The loaders that functions have of datasets which are indexed, each with its name."""
    for frame in frames:
        for each in _loaders(frame):
            if hasattr(each.loader.dataset, "__len__"):
                yield each.name, each.loader


# The generators of torch's, other than the global ones, that were drawn from so far, each with its first state.
Drawn = Callable[[], list[tuple[torch.Generator, torch.Tensor]]]


def first_bad_item(loader: DataLoader[Any], drawn: Drawn) -> tuple[str, Place] | None:
    """The first item of a loader's dataset that is not finite, or else the first batch that its `collate_fn` makes,
    and the line that makes it so; None where no line does.

    Items are drawn one after the other, as the loader draws them: what one makes bad now and then is seen as well.

    Args:
        loader: The loader.
        drawn: See `Drawn`.

    Raises:
        NoSlice: An item can't be taken twice.
    """
    end = time.monotonic() + _MOST_SECONDS
    own = _drawn_by(loader.dataset)
    with generators_restored(own):
        found = _first_bad_item(loader.dataset, own, drawn, end)
    if found is not None or time.monotonic() > end:
        return (found[0], found[1]) if found is not None and found[1] is not None else None
    collate: Any = loader.collate_fn
    code = getattr(getattr(collate, "__func__", collate), "__code__", None)
    if not loader.batch_size or code is None or not is_users(code.co_filename):
        return None
    own += draws_of(collate)
    with generators_restored(own):
        return _first_bad_batch(loader, own, drawn, end)


def _first_bad_item(dataset: Any, own: Sequence[Any], drawn: Drawn, end: float) -> tuple[str, Place | None] | None:
    """The first item that is not finite, and the line that makes it so, if one does."""
    count = min(len(dataset), _MOST_ITEMS)
    for index in islice(chain.from_iterable(repeat(range(count), _ROUNDS)), _MOST_ITEMS):
        if time.monotonic() > end:
            return None
        if (found := _made_by(partial(dataset.__getitem__, index), own, drawn)) is not None:
            return f"item {index}", found if isinstance(found, Place) else None
    return None


def _first_bad_batch(loader: DataLoader[Any], own: Sequence[Any], drawn: Drawn, end: float) -> tuple[str, Place] | None:
    """The first batch that a loader's own `collate_fn` makes bad of good items."""
    dataset: Any = loader.dataset
    size = loader.batch_size or 1
    for start in range(0, min(len(dataset), _MOST_ITEMS) - size + 1, size):
        if time.monotonic() > end:
            return None
        items = [dataset[index] for index in range(start, start + size)]
        if (found := _made_by(partial(loader.collate_fn, items), own, drawn)) is not None:
            return ("a batch", found) if isinstance(found, Place) else None
    return None


def _drawn_by(dataset: Any) -> list[Any]:
    """What a dataset draws random numbers from, and those that it is a subset of, other than torch's generators."""
    drawn = [*draws_of(dataset.__getitem__)]
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
        drawn += draws_of(dataset.__getitem__)
    return drawn


def _made_by(take: Callable[[], Any], own: Sequence[Any], drawn: Drawn) -> Place | bool | None:
    """The line that makes what is taken bad; None where it is finite, False where no line is known."""
    known, state = drawn(), RandomState.now()
    put_back = moment_of([*own, *(generator for generator, _ in known)])

    def again() -> Any:
        state.set()
        put_back()
        for generator, first in drawn()[len(known) :]:  # drawn from for the first time
            generator.set_state(first)
        return take()

    if not any(map(_is_bad, _values(take()))):
        return None
    first, second = _followed(again, ()), _followed(again, ())
    is_made = first is not None and second is not None and _memory(first[1]) != _memory(second[1])
    return first[0] if is_made and first is not None else False


def _holds_bad(value: Any) -> bool:
    """Whether an item of a list or the like is not finite."""
    return isinstance(value, (list, tuple, Mapping)) and any(map(_is_bad, _values(value)))


def _memory(value: Any) -> int:
    """Where the numbers of a tensor or an array lie: what is made again lies elsewhere than what is kept."""
    return int(value.data_ptr() if isinstance(value, torch.Tensor) else value.__array_interface__["data"][0])


def _values(item: Any) -> Iterator[Any]:
    """The tensors and arrays in an item."""
    if isinstance(item, (list, tuple)):
        for each in item:
            yield from _values(each)
    elif isinstance(item, Mapping):
        yield from _values(list(item.values()))
    else:
        yield item


def bad_statistics(model: nn.Module, *, waits: bool) -> tuple[str, str] | None:
    """Running statistics that are not finite of a layer in evaluation mode: their name, and "nan" or "inf".

    Args:
        model: The model.
        waits: Whether to wait for a device.
    """
    held = [
        (f"{prefix}.{name}" if prefix else name, getattr(module, name))
        for prefix, module in model.named_modules()
        if isinstance(module, _NormBase) and not module.training and module.running_var is not None
        for name in ("running_mean", "running_var")
    ]
    read = [each for _, each in held if is_readable(each) or (waits and can_wait_for(each))]
    bad = {id(each) for each in bad_of(read)}
    for name, buffer in held:
        if id(buffer) in bad:
            return name, "nan" if has_nan(buffer) else "inf"
    return None


def unregistered(models: Iterable[nn.Module]) -> tuple[str, list[nn.Module], Place | None] | None:
    """Modules with parameters in a plain list or dict of a module: its name, they, and the line that sets it."""
    for model in models:
        for module in model.modules():
            for name, value in vars(module).items():
                items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
                held = [] if name.startswith("_") else [each for each in items if isinstance(each, nn.Module)]
                if any(True for each in held for _ in each.parameters()):
                    return name, held, _only_writer(_files([module]), "self", name)
    return None


def _files(objects: Iterable[object]) -> Iterator[str]:
    """The files of the user's with the classes of some objects."""
    seen = set()
    for each in objects:
        for kind in type(each).__mro__:
            path = inspect.getsourcefile(kind) if kind.__module__ != "builtins" else None
            if path is not None and path not in seen and is_users(path):
                seen.add(path)
                yield path


def _users_files() -> list[str]:
    """The files of the user's modules that are imported, and of the script that runs."""
    paths = [getattr(each, "__file__", None) for each in list(sys.modules.values())]
    paths += [frame.f_code.co_filename for frame in users_frames()]
    return list(dict.fromkeys(path for path in paths if isinstance(path, str) and is_users(path)))


def _only_writer(paths: Iterable[str], *names: str) -> Place | None:
    """The line of some files that writes to what ends in some names; None where none does, or several do."""
    lines = _writers(paths, *names)
    return lines.pop() if len(lines) == 1 else None


def _writers(paths: Iterable[str], *names: str) -> set[Place]:
    """The lines that write to what ends in these names: `self.out.bias.copy_(...)`, `init.zeros_(x.bias)`.

    The name of an item is "", but that of a constant.
    """
    lines = set()
    for path in paths:
        with suppress(SyntaxError):
            tree = tree_of(path)
            aliases = _aliases(tree)
            for node in ast.walk(tree):
                written = (aliases.get(id(each)) or names_of(each) for each in written_by(node))
                if any(each[-len(names) :] == names for each in written):
                    lines.add(Place(path, getattr(node, "lineno", 0)))
    return lines


def _aliases(tree: ast.Module) -> dict[int, tuple[str, ...]]:
    """The dotted names behind reads of variables that a function binds once, to an attribute: of `w` after
    `w = self.out.weight`. The keys are the ids of the nodes that read.
    """
    found: dict[int, tuple[str, ...]] = {}
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            nodes = [each for part in function.body for each in ast.walk(part)]
            stored = Counter(
                each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
            )
            bound = {
                node.targets[0].id: names_of(node.value)
                for node in nodes
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute)
                if isinstance(node.targets[0], ast.Name) and stored[node.targets[0].id] == 1
            }
            found |= {
                id(each): bound[each.id]
                for each in nodes
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.id in bound
            }
    return found


def written_by(node: ast.AST) -> list[ast.expr]:
    """What a statement, or a call whose name ends with an underscore, writes to."""
    if isinstance(node, ast.Assign):
        several = (each.elts if isinstance(each, ast.Tuple) else [each] for each in node.targets)
        return [target for targets in several for target in targets]
    if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        return [node.target]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
        return [node.func.value, *node.args[:1]]
    return []


def names_of(node: ast.expr) -> tuple[str, ...]:
    """The dotted names of an expression: `self.layers[3].bias.data` is ("self", "layers", "3", "bias")."""
    names: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            names += [node.attr] if node.attr != "data" else []
            node = node.value
        elif isinstance(node, ast.Subscript):
            names += [str(node.slice.value)] if isinstance(node.slice, ast.Constant) else [""]
            node = node.value
        else:
            return (*([node.id] if isinstance(node, ast.Name) else []), *names[::-1])
