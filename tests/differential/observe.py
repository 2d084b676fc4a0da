"""Runs a program under torch for every value of its flags, and watches what reaches whom.

The scaler's methods, backward, the optimizers and what clips are wrapped for the time of a run. Whether a backward is
scaled is read off its graph: does a path from the loss to the parameter pass a multiplication that a scaler made? The
gradients' values have to say the same, and the program is given numbers that make them: every plain gradient is about
1, every scaled one about the scale.

A method of the scaler that raises ends what has to be found. The run goes on to see what else may be: as if the call
had done its work, and once more as if it were not there.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch.amp.grad_scaler import OptState
from torch.optim.optimizer import register_optimizer_step_pre_hook

from tests.differential.codes import Observed
from tests.differential.ledger import Books, Ledger, UnsuitableError
from tests.differential.places import TICK, Place, Places
from tests.differential.program import Program

BATCHES = 5
CONFIG = "config"  # the module from which a script takes its loader and flags
_SCALER = torch.amp.GradScaler
_RAISED = (AssertionError, RuntimeError)


class Seen(NamedTuple):
    """All that was observed of a program."""

    observed: dict[Observed, tuple[str, ...]]  # with the runs in which it was
    events: Counter[str]  # how often each kind of call was watched
    reached: frozenset[int]  # the lines of those calls, where something can show
    runs: int


def observe(program: Program) -> Seen:
    """Run a program for every value of its flags; raises UnsuitableError where it does what no code is about."""
    places = Places(program.text)
    reached = _Reached()
    found: dict[Observed, list[str]] = {}
    events: Counter[str] = Counter()
    runs = list(program.runs())
    # Behind an exception it matters how to go on, and what a finally does is seen only where it is not held back.
    goings = ("done", "skipped", "raised") if "finally:" in program.text else ("done", "skipped")
    for flags, overflow in runs:
        label = ", ".join([*(f"{name}={value}" for name, value in flags.items()), *(["overflow"] if overflow else [])])
        for going in goings:
            watch = _Watch(places, events, going)
            with watch.watching():
                watch.run(program, flags, _loader(overflow))
            reached.add(watch)
            for each in watch.ledger.seen:
                if label not in found.setdefault(each, []):
                    found[each].append(label)
            if not watch.ledger.behind_an_exception:
                break
        if watch.ledger.stepped_unchecked and (flags, True) not in runs:
            runs.append((flags, True))
    for each in _of_others(program, places, runs):
        found.setdefault(each, ["other batches"])
    for each in list(found):
        if each.secondary and each._replace(secondary=False) in found:
            del found[each]
    return Seen({each: tuple(labels) for each, labels in found.items()}, events, reached.lines, len(runs))


def _of_others(program: Program, places: Places, runs: list[tuple[dict[str, Any], bool]]) -> Iterator[Observed]:
    """What shows where a loop runs once, or every batch overflows. It may be found, and need not be."""
    for flags, overflow in runs:
        loader = _loader(overflow)
        for batches in ([loader[1]], [loader[1]] * BATCHES) if overflow else ([loader[1]],):
            watch = _Watch(places, Counter(), "done")
            with watch.watching(), contextlib.suppress(UnsuitableError):
                watch.run(program, flags, batches)
                yield from (each._replace(secondary=True) for each in watch.ledger.seen)


class _Reached:
    """The lines on which something can show: those behind an exception can't, nor, if any scaler is on, with it off."""

    def __init__(self) -> None:
        self._on: set[int] = set()
        self._off: set[int] = set()
        self._behind: set[int] = set()

    def add(self, watch: _Watch) -> None:
        """What a run has reached."""
        (self._on if watch.ledger.books else self._off).update(watch.reached)
        self._behind |= watch.reached_behind

    @property
    def lines(self) -> frozenset[int]:
        return frozenset(self._on | (self._off - self._behind))


def learned(program: Program, flags: dict[str, Any], off: bool) -> list[torch.Tensor] | None:
    """The parameters that a run ends with, with every scaler switched off or not; None where it raises.

    The scale is a power of two, so that they are the same to the last bit where the scaler is used rightly.
    """
    watch = _Watch(Places(program.text), Counter(), "raised")
    with watch.watching(), contextlib.ExitStack() as stack:
        if off:
            stack.enter_context(_wrapped(_SCALER, "__init__", _make_disabled))
        watch.run(program, flags, _loader(overflow=False))
    held = watch.ledger.held.values()
    return None if watch.ledger.behind_an_exception else [each.parameter.detach() for each in held]


def _make_disabled(original: Callable[..., Any], scaler: Any, *args: Any, **kwargs: Any) -> None:
    original(scaler, *args, **kwargs | {"enabled": False})


def _loader(overflow: bool) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Batches whose L1 loss has the gradient 1 for the weight and the bias of a Linear(1, 1)."""
    inputs = [torch.ones(1, 1) for _ in range(BATCHES)]
    if overflow:
        inputs[1] = torch.full((1, 1), math.inf)
    return [(each, torch.full((1, 1), -1000.0)) for each in inputs]


class _Watch:
    def __init__(self, places: Places, events: Counter[str], going: str) -> None:
        self.ledger = Ledger()
        self.reached: set[int] = set()
        self.reached_behind: set[int] = set()  # an exception
        self._places = places
        self._events = events
        self._going = going  # behind an exception: as if the call had "done" its work, or were not there
        self._scaled: dict[Any, Books] = {}  # the graph's nodes that scalers made
        self._arrived: dict[int, float] = {}  # the largest gradient that the last backward brought each parameter
        self._scalers: dict[int, Any] = {}
        self._depth = 0  # inside a call that is watched already
        self._is_new = False  # the line of the call that is watched was not reached before

    # --- running ----------------------------------------------------------------------------------------------------

    def run(self, program: Program, flags: dict[str, Any], loader: list[Any]) -> None:
        space: dict[str, Any] = {"__name__": "program", TICK: self._places.tick}
        if not program.entry:
            module = ModuleType(CONFIG)
            module.__dict__.update(flags, loader=loader)
            sys.modules[CONFIG] = module
        torch.manual_seed(0)
        try:
            exec(self._places.code, space)
            if program.entry:
                space[program.entry](loader, **flags)
        except UnsuitableError:
            raise
        except Exception as error:
            if not self.ledger.behind_an_exception:
                raise UnsuitableError(f"{type(error).__name__}: {error}") from error
        finally:
            sys.modules.pop(CONFIG, None)
        self.ledger.end()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Everything wrapped, and given back."""
        with contextlib.ExitStack() as stack:
            for name in ("scale", "unscale_", "step", "update"):
                stack.enter_context(_wrapped(_SCALER, name, getattr(self, f"_{name.strip('_')}")))
            stack.enter_context(_wrapped(torch.Tensor, "backward", self._backward))
            for name in ("clip_grad_norm_", "clip_grad_value_"):
                stack.enter_context(_wrapped(torch.nn.utils, name, self._clip))
            for name in ("clamp_", "clip_", "mul_", "div_"):
                stack.enter_context(_wrapped(torch.Tensor, name, self._by_hand))
            for kind in (torch.optim.Optimizer, torch.nn.Module):
                stack.enter_context(_wrapped(kind, "zero_grad", self._zero_grad))
            stack.enter_context(_wrapped(torch.optim.Optimizer, "__init__", self._make_optimizer))
            stack.callback(register_optimizer_step_pre_hook(self._direct_step).remove)
            yield

    def _here(self) -> Place | None:
        place = None if self._depth else self._places.here()
        if place is not None:
            reached = self.reached_behind if self.ledger.behind_an_exception else self.reached
            self._is_new = place.line not in reached
            reached.add(place.line)
        return place

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def _region(self, kind: str, place: Place) -> None:
        if torch.is_autocast_enabled("cpu"):
            self.ledger.see(f"{kind} in a region", at=place.line)
            self._events[f"{kind} in a region"] += 1

    # --- the scaler -------------------------------------------------------------------------------------------------

    def _books(self, scaler: Any) -> Books | None:
        self._scalers[id(scaler)] = scaler
        return self.ledger.books.setdefault(id(scaler), Books()) if scaler.is_enabled() else None

    def _scale(self, original: Callable[..., Any], scaler: Any, outputs: Any) -> Any:
        scaled = original(scaler, outputs)
        books = self._books(scaler)
        self._events["scale"] += 1
        if books is not None and scaled.grad_fn is not None:
            self._scaled[scaled.grad_fn] = books
        return scaled

    def _unscale(self, original: Callable[..., Any], scaler: Any, optimizer: Any) -> None:
        place, books = self._here(), self._books(scaler)
        if place is None or books is None:
            return original(scaler, optimizer)
        self._events["unscale_"] += 1
        if self._attempt(original, scaler, books, place, optimizer):
            found = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values()
            infinite = any(each.item() for each in found)
            self.ledger.divide(_parameters(optimizer), books, place.line, False, infinite)
            books.unscaled[id(optimizer)] = place
        return None

    def _step(self, original: Callable[..., Any], scaler: Any, optimizer: Any) -> None:
        place, books = self._here(), self._books(scaler)
        assert place is not None
        self._region("step", place)
        if books is None:
            self._events["step of a disabled scaler"] += 1
            with self._inside():
                original(scaler, optimizer)
            self.ledger.direct_step(_parameters(optimizer), place.line)
            return
        self._events["step"] += 1
        is_unscaled = _is_unscaled(scaler, optimizer)
        if self._attempt(original, scaler, books, place, optimizer):
            self.ledger.step(id(optimizer), _parameters(optimizer), books, place, is_unscaled)

    def _update(self, original: Callable[..., Any], scaler: Any) -> None:
        place, books = self._here(), self._books(scaler)
        assert place is not None
        if books is None:
            original(scaler)
            return
        self._events["update"] += 1
        if self._attempt(original, scaler, books, place):
            self.ledger.update(books, place.line)

    def _attempt(self, original: Callable[..., Any], scaler: Any, books: Books, place: Place, *args: Any) -> bool:
        """Call a method of the scaler; whether it did not raise."""
        optimizer = args[0] if args else None
        was_unscaled = optimizer is not None and _is_unscaled(scaler, optimizer)
        try:
            with self._inside():
                original(scaler, *args)
        except _RAISED as error:
            self._events["exception"] += 1
            if self._is_new and not self.ledger.behind_an_exception:  # all else that may be wrong there is behind it
                self.reached.discard(place.line)
                self.reached_behind.add(place.line)
            owned = _parameters(optimizer) if optimizer is not None else []
            is_step = original.__name__ == "step"
            number = id(optimizer) if optimizer is not None else 0
            self.ledger.raised(str(error), books, place, number, owned, was_unscaled, is_step)
            if self._going == "raised":
                raise
            if self._going == "done":
                _pretend(scaler, optimizer, is_step)
            return False
        return True

    # --- gradients --------------------------------------------------------------------------------------------------

    def _backward(self, original: Callable[..., Any], loss: Any, *args: Any, **kwargs: Any) -> None:
        place = self._here()
        assert place is not None
        self._region("backward", place)
        sources = self._sources(loss)
        self.ledger.look()
        self._arrived.clear()
        original(loss, *args, **kwargs)
        self._events["plain backward" if None in set().union(*sources.values()) else "scaled backward"] += 1
        self._agree(sources)
        self.ledger.backward(sources, place.line)

    def _sources(self, loss: Any) -> dict[int, set[Books | None]]:
        """Which scales a backward brings to which parameters (by id); None is no scale."""
        found: dict[int, set[Books | None]] = {}
        todo: list[tuple[Any, Books | None]] = [(loss.grad_fn, None)]
        done = set()
        while todo:
            node, books = todo.pop()
            if node is None or (node, id(books)) in done:
                continue
            done.add((node, id(books)))
            made_by = self._scaled.get(node)
            if made_by is not None and books is not None:
                raise UnsuitableError("scaled twice")
            books = made_by or books
            if hasattr(node, "variable"):
                found.setdefault(id(node.variable), set()).add(books)
            todo += [(each, books) for each, _ in node.next_functions]
        return found

    def _agree(self, sources: dict[int, set[Books | None]]) -> None:
        """The values have to say what the graph says."""
        books = self.ledger.books
        scales = {id(books[key]): scaler.get_scale() for key, scaler in self._scalers.items() if key in books}
        for parameter, kinds in sources.items():
            value = self._arrived.get(parameter, math.nan)
            if len(kinds) == 1 and math.isfinite(value) and value:
                scale = scales.get(id(next(iter(kinds))), 1.0)
                assert -6 < math.log2(value / scale) < 4, (value, scale)

    def _direct_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        place = self._here()
        if place is not None:
            self._events["direct step"] += 1
            self._region("step", place)
            self.ledger.direct_step(_parameters(optimizer), place.line)

    def _clip(self, original: Callable[..., Any], parameters: Any, *args: Any, **kwargs: Any) -> Any:
        place = self._here()
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        if place is not None:
            self._events["clip"] += 1
            self.ledger.clip(parameters, place.line)
        if all(each.grad is None for each in parameters):
            return torch.zeros(())  # by value it raises there, which has nothing to do with the scaler
        with self._inside():
            return original(parameters, *args, **kwargs)

    def _by_hand(self, original: Callable[..., Any], tensor: Any, *args: Any, **kwargs: Any) -> Any:
        """`p.grad.clamp_(-1, 1)`, `p.grad.mul_(bound / norm)`; a constant factor clips nothing."""
        place = self._here()
        if place is not None and (original.__name__ in ("clamp_", "clip_") or isinstance(args[0], torch.Tensor)):
            known = [held.parameter for held in self.ledger.held.values()]
            found = [each for each in known if each.grad is not None and each.grad.data_ptr() == tensor.data_ptr()]
            if found:
                self._events["clip by hand"] += 1
                self.ledger.clip(found, place.line, one_by_one=True)
        return original(tensor, *args, **kwargs)

    def _zero_grad(self, original: Callable[..., Any], owner: Any, *args: Any, **kwargs: Any) -> None:
        self._events["zero_grad"] += 1
        original(owner, *args, **kwargs)
        self.ledger.zeroed(_parameters(owner))

    def _make_optimizer(self, original: Callable[..., Any], optimizer: Any, *args: Any, **kwargs: Any) -> None:
        original(optimizer, *args, **kwargs)
        for parameter in _parameters(optimizer):
            parameter.data.fill_(0.5)
            parameter.register_hook(functools.partial(self._arrive, id(parameter)))
        self.ledger.own(_parameters(optimizer))

    def _arrive(self, parameter: int, gradient: Any) -> None:
        self._arrived[parameter] = gradient.detach().abs().max().item()


@contextlib.contextmanager
def _wrapped(owner: Any, name: str, wrapper: Callable[..., Any]) -> Iterator[None]:
    """A function or method that goes through a wrapper, which is given the original first."""
    original = getattr(owner, name)
    inherited = isinstance(owner, type) and name not in vars(owner)

    def replacement(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    replacement.__name__ = name
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, original)


def _parameters(owner: Any) -> list[Any]:
    if isinstance(owner, torch.nn.Module):
        return list(owner.parameters())
    return [each for group in owner.param_groups for each in group["params"]]


def _pretend(scaler: Any, optimizer: Any, is_step: bool) -> None:
    """Put a scaler whose method has raised where it would be if that had done its work."""
    if scaler._scale is None:
        scaler.scale(torch.ones(1))
    if optimizer is None:
        scaler._per_optimizer_states.clear()
        return
    state = scaler._per_optimizer_states[id(optimizer)]
    if is_step or state["stage"] is OptState.READY:
        state["stage"] = OptState.STEPPED if is_step else OptState.UNSCALED


def _is_unscaled(scaler: Any, optimizer: Any) -> bool:
    """Whether `unscale_` was called for an optimizer since the last update."""
    state = scaler._per_optimizer_states.get(id(optimizer))
    return state is not None and state["stage"] is OptState.UNSCALED
