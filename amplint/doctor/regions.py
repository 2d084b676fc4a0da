"""Autocast regions in a run: those that cast nothing, that leak, and that serve casts of old weights."""

# ruff: noqa: D102 - what is heard is documented on Listener
from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Sequence
from types import CodeType
from typing import Any

import torch

from amplint.doctor.capture import tensors_in
from amplint.doctor.collector import Collector
from amplint.doctor.findings import Cause, Evidence, Finding, Place
from amplint.doctor.graph import graph_leaves, graph_nodes, next_node, nodes_from
from amplint.doctor.places import is_users, user_place, users_frames
from amplint.doctor.readings import HALF
from amplint.verify.bench.instrument import DEVICES, Listener, Region, open_regions

_APART = 64  # results of other threads since the last backward pass that are remembered
_LOOKED_AT = 8  # backward passes whose graphs are looked through for casts
# Nodes of operations that autocast runs in half precision.
_ELIGIBLE = (
    "Addmm",
    "Mm",
    "Bmm",
    "Baddbmm",
    "Addbmm",
    "Convolution",
    "MkldnnConvolution",
    "MkldnnLinear",
    "ScaledDot",
    "Mv",
    "Linear",
)


class Regions(Listener):
    """Hears a run, and adds to the `collector` what is wrong with its autocast regions."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._made: dict[int, tuple[weakref.ref[Any], Place | None, str]] = {}  # enabled ones that nobody has entered
        self._off: dict[int, tuple[weakref.ref[Any], Place | None, str]] = {}  # off though asked to be on
        self._decorators: dict[int, tuple[weakref.ref[Any], Place | None]] = {}  # those that decorate functions
        self._decorator: Place | None = None  # where the one that is being entered was made, if it decorates
        self._open: list[tuple[Region, Place | None]] = []
        self._before: tuple[bool, ...] = tuple(
            map(torch.is_autocast_enabled, DEVICES)
        )  # what was on when the outermost open region was entered
        self._since: list[tuple[Region, Place | None, bool]] = []  # regions since the last backward pass
        self._empty: dict[Place | None, int] = {}  # by region: backward passes without a cast
        self._cast: set[Place | None] = set()  # regions in which something was cast
        self._looked = 0
        self._stepped_inside: int | None = None  # the number of the autograd node that came first after such a step
        self._stepped_at: Place | None = None
        self._cuda_off: Place | None = None  # a region for CUDA on a machine that has none
        self._devices: set[str] = set()  # where the parameters of a loss without a cast are
        self._apart: list[
            tuple[Any, Place | None]
        ] = []  # nodes of other threads, and the region that was open meanwhile
        self._in_float32: dict[Place | None, int] = {}  # by region: backward passes to such threads without a cast
        self._region: Region | None = None  # the last region that has cast nothing
        self.cuda_asked = False  # the program has asked whether CUDA is there
        self.was_on = False  # a region has been on
        self.ended = ""  # what ended the program, if it is that a region was off

    # --- what is heard

    def region_made(self, region: torch.autocast, asked: bool) -> None:
        if not asked:
            return
        entry = (weakref.ref(region), user_place(), region.device)
        if region._enabled:
            self._made[id(region)] = entry
        else:
            self._off[id(region)] = entry
        if len(self._made) > 256:
            self._made = {key: value for key, value in self._made.items() if value[0]() is not None}

    def region_decorates(self, region: torch.autocast) -> None:
        self._made.pop(id(region), None)
        self._decorators[id(region)] = (weakref.ref(region), user_place())

    def region_used(self, region: torch.autocast) -> None:
        reference, place = self._decorators.get(id(region), (None, None))
        self._decorator = place if reference is not None and reference() is region else None
        if not self._open:
            self._before = tuple(map(torch.is_autocast_enabled, DEVICES))
        self._made.pop(id(region), None)
        entry = self._off.pop(id(region), None)
        if entry is not None and entry[0]() is region:
            self._entered_off(region, entry[1])

    def region_entered(self, region: Region) -> None:
        place = self._decorator or user_place()
        if not self._open:
            self._stepped_inside = None
        self._open.append((region, place))
        self.was_on = self.was_on or region.dtype is not None
        if len(self._since) < 64 and torch.is_grad_enabled():  # else no loss that is trained on comes from it
            self._since.append((region, place, len(self._open) > 1))

    def region_left(self) -> None:
        if not self._open:
            return
        _, place = self._open.pop()
        if not self._open:
            self._stepped_inside = None
            now = map(torch.is_autocast_enabled, DEVICES)
            if any(is_on and not was_on for is_on, was_on in zip(now, self._before, strict=True)):
                self._add(
                    "AMP308",
                    Cause.PROTOCOL,
                    "autocast is still on after its outermost region was left: one autocast object was entered again "
                    "while it was open",
                    place,
                    advice="create a new autocast object for each `with`, and decorate only the outermost function",
                )

    def step_done(self, optimizer: Any, *, taken: bool) -> None:
        if taken and self._open and torch.is_autocast_cache_enabled() and self._is_on():
            self._stepped_inside = next_node()
            self._stepped_at = self._open[0][1]

    def ends(self, raised: str) -> bool:
        """Take in an exception that says that dtypes differ; return whether a region that is off is its cause."""
        self.ended = raised if self._cuda_off is not None and not self.was_on else ""
        return bool(self.ended)

    def threaded(self, module: torch.nn.Module, output: Any) -> bool:
        """A module has returned in another thread, where autocast is off unless it is entered there.

        Returns:
            Whether further ones are of interest.
        """
        where = next((place for region, place in reversed(self._open) if region.dtype is not None), None)
        if where is not None and not open_regions() and not _decides(module):
            for each in tensors_in(output):
                if each.grad_fn is not None and len(self._apart) < _APART:
                    self._apart.append((each.grad_fn, where))
        return self._looked < _LOOKED_AT

    def _is_on(self) -> bool:
        return any(region.dtype is not None for region, _ in self._open)

    def backward_started(self, roots: Sequence[torch.Tensor]) -> None:
        regions, self._since = self._since, []
        apart, self._apart = self._apart, []
        if apart and self._looked < _LOOKED_AT:
            self._look_apart(roots, apart)
        for region, place in self._open:
            if all(known[1] != place for known in regions):
                regions.append((region, place, False))
        if self._stepped_inside is not None:
            self._stale(roots)
        if self._looked < _LOOKED_AT and any(region.dtype is not None for region, _, _ in regions):
            self._looked += 1
            self._look(roots, regions)

    # --- what that comes to

    def _stale(self, roots: Sequence[torch.Tensor]) -> None:
        """Casts of weights that were made before the step in the same region and are used again."""
        assert self._stepped_inside is not None
        stale = sum(
            1
            for node in graph_nodes(roots)
            if node.name().startswith("ToCopyBackward")
            and node._sequence_nr() < self._stepped_inside
            and _is_half(node)
        )
        if stale:
            self._add(
                "AMP309",
                Cause.PROTOCOL,
                f"the region holds the step and the next forward pass, which uses {stale} weights that autocast cached "
                "before the step: the model computes with old weights",
                self._stepped_at,
                advice="enter a region for each forward pass, and leave it before the step",
            )

    def _look(self, roots: Sequence[torch.Tensor], regions: list[tuple[Region, Place | None, bool]]) -> None:
        """Whether the regions since the last backward pass have cast anything of what the loss depends on."""
        has_eligible = False
        for node in graph_nodes(roots):
            if node.name().startswith(_ELIGIBLE):
                has_eligible = True
            if _is_half(node):
                self._cast.update(place for _, place, _ in regions)
                return
        if not has_eligible:
            return
        for region, place, _ in regions:
            if region.dtype is not None:
                inner = next((where for off, where, nested in regions if off.dtype is None and nested), None)
                self._empty[inner or place] = self._empty.get(inner or place, 0) + 1
                self._devices = {each.device.type for each in graph_leaves(roots)} or {"cpu"}
                self._region = region

    def _look_apart(self, roots: Sequence[torch.Tensor], apart: Sequence[tuple[Any, Place | None]]) -> None:
        """Whether what other threads have computed for this loss was in float32 throughout."""
        nodes = set(graph_nodes(roots))
        for place in dict.fromkeys(place for _, place in apart):
            own = [each for node, of in apart if of == place and node in nodes for each in nodes_from([node])]
            if any(each.name().startswith(_ELIGIBLE) for each in own) and not any(map(_is_half, own)):
                self._in_float32[place] = self._in_float32.get(place, 0) + 1

    def _entered_off(self, region: torch.autocast, place: Place | None) -> None:
        """A region that torch has switched off though the program asked for it to be on."""
        device = region.device.split(":")[0]
        if device == "cuda" and not torch.cuda.is_available():
            self._cuda_off = place
            return
        dtype = str(region.fast_dtype).removeprefix("torch.")
        self._add(
            "AMP205",
            Cause.CASTS_NOTHING,
            f"autocast for '{device}' doesn't support `{dtype}`: it is off, and the region runs in float32",
            place,
            advice="use `torch.bfloat16` or `torch.float16`",
        )

    def finish(self, scaler_is_on: bool) -> list[str]:
        """Add what only the whole run shows, and return notes for the report."""
        if not self._cast:
            self._never_entered()
        for place, times in self._empty.items():
            if place not in self._cast and times >= min(2, self._looked):
                self._casts_nothing(place)
        for place, times in self._in_float32.items():
            if times >= min(2, self._looked):
                self._add(
                    None,
                    Cause.CASTS_NOTHING,
                    "modules that run in other threads compute in float32: a region is on in the thread that enters it",
                    place,
                    advice="enter `torch.autocast` in the function that the thread runs, such as `forward`",
                )
        if self._cuda_off is None:
            return []
        if scaler_is_on or self._cast or not self.cuda_asked or self.ended:
            self._add(
                "AMP203",
                Cause.CASTS_NOTHING,
                "autocast for 'cuda' is off: this machine has no CUDA, and the region runs in float32"
                + (f", which ends the program: {self.ended}" if self.ended else ""),
                self._cuda_off,
                advice="give autocast the device that the model runs on",
            )
            return []
        return ["autocast for 'cuda' was off, since this machine has no CUDA: the run was in float32"]

    def _never_entered(self) -> None:
        """Autocast objects that were created and not entered, in a run in which nothing was cast."""
        off = [place for _, place, _ in self._off.values()]
        for _, place, device in self._made.values():
            if place not in off:
                self._add(
                    "AMP305",
                    Cause.CASTS_NOTHING,
                    f"autocast for '{device}' was created and never entered: nothing runs in half precision",
                    place,
                    advice="use it in a `with` statement around the forward pass",
                )
                return

    def _casts_nothing(self, place: Place | None) -> None:
        devices = ", ".join(sorted(self._devices))
        device = self._region.device if self._region is not None else ""
        is_other = device.split(":")[0] not in self._devices
        why = "autocast is disabled inside, or everything runs outside"
        if is_other:
            why = f"it is for '{device}' and the tensors are on '{devices}'"
        self._add(
            "AMP203" if is_other else None,
            Cause.CASTS_NOTHING,
            f"no operation of this region runs in half precision: {why}",
            place,
            advice=f'`torch.autocast("{devices}", ...)`' if is_other else "",
        )

    def _add(self, code: str | None, cause: Cause, message: str, place: Place | None, *, advice: str = "") -> None:
        self._collector.add(Finding(cause, Evidence.SEEN, message, place, code, advice=advice))


def _decides(module: torch.nn.Module) -> bool:
    """Whether functions that run, or a module's, speak of autocast: in another thread it is off on purpose then."""
    codes = [frame.f_code for frame in users_frames()]
    codes += [each.forward.__code__ for each in module.modules() if hasattr(each.forward, "__code__")]
    return any(map(_speaks_of_autocast, codes))


@functools.cache
def _speaks_of_autocast(code: CodeType) -> bool:
    try:
        return is_users(code.co_filename) and "autocast" in inspect.getsource(code)
    except OSError:
        return False


def _is_half(node: Any) -> bool:
    """Whether the output of a node's operation is in half precision."""
    outputs = getattr(node, "_input_metadata", None)
    if outputs is None:  # torch 2.4 doesn't tell: a cast is taken for one to half precision
        return bool(node.name().startswith("ToCopyBackward"))
    return any(each.dtype in HALF for each in outputs)
