"""Recording what a run does, and comparing it in lock-step with the reference: the same program without AMP."""

# ruff: noqa: D102 - what is heard is documented on Listener
from __future__ import annotations

import cmath
import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch

from amplint.rules.shared.unscale_safety import LARGE_NORM
from amplint.verify.bench.bench import inject_overflow
from amplint.verify.bench.instrument import Clip, Listener, Region, gradient, open_regions
from amplint.verify.fixtures.proof import Compared, Observed

_KEPT = 200  # regions and losses of a run; a long program says the same over and over
# What is compared, by its name in `Observed`.
_CLIP, _READ, _ADDED, _STEP, _UPDATE = "clip", "read", "added", "gradient", "update"
_Kind = str | tuple[str, int, int]  # the same; of one parameter: its optimizer, and its number there


class _Request(NamedTuple):
    """What a step request did: float64 vectors over all parameters of its optimizer, in order."""

    applied: torch.Tensor | None  # the gradients that the optimizer used, unscaled; None: the step was left out
    update: torch.Tensor  # the change of the parameters
    kept: _Kept | None  # the reference's, behind the request


class _Kept(NamedTuple):
    """What a run goes on from: the parameters, the optimizer's state of each, and the state of random numbers."""

    parameters: torch.Tensor
    state: list[Any]
    random: torch.Tensor


class Spot(NamedTuple):
    """A gradient: in which backward it is made, from 1, of which optimizer's parameter, both by their numbers."""

    backward: int
    optimizer: int
    parameter: int


class Recorder(Listener):
    """Writes a run down in `observed`.

    With a `reference`, the recorder of the same program with AMP switched off, gradients and updates are compared with
    it. A step request is matched by its optimizer's number and its own among that optimizer's requests; after each one
    parameters and the optimizer's state become the reference's, so that an error is that of one step alone. Clips and
    gradient reads are matched by the number of requests before them and their order since.

    A recorder of such a run has `leave_out`: without a scaler nobody else undoes a step with an overflow. It is the
    reference of one run, which takes its states over. Where `leaves_out` is false, a step that it has left out, as its
    own gradients were not finite, says nothing of the run beside it.

    With `overflow`, one gradient becomes inf in the first backward after the first step request: one of the first
    optimizer that steps, or of the `nth` after it; or the gradient at a `spot`. Steps of optimizers that are none of
    torch.optim's are heard of only through a scaler.
    """

    def __init__(
        self,
        reference: Recorder | None = None,
        *,
        leave_out: bool = False,
        overflow: bool = False,
        nth: int = 0,
        spot: Spot | None = None,
        leaves_out: bool = True,
    ) -> None:
        self.observed = Observed()
        self._reference = reference
        self._leave_out = leave_out
        self._leaves_out = leaves_out
        self._inject = overflow
        self._nth = nth
        self._spot = spot
        self._overflows_in = 0  # the backward in which a gradient becomes inf
        self._plain: dict[int, Spot] = {}  # by optimizers' ids: a gradient that their last step without a scaler used
        self._protected: set[int] = set()  # the ids of optimizers that a scaler has stepped
        self._is_plain = False  # the step that is requested has no scaler
        self.overflowing: list[Any] = []  # optimizers that may overflow, in the order of their first steps
        self.may_overflow: Callable[[Any], bool] = lambda optimizer: True
        self.where: Callable[[], str] = lambda: ""  # the line that is run, as it is said
        self._compared = 0  # so many times
        self._scalers: list[torch.amp.GradScaler] = []
        self._optimizers: list[Any] = []
        self._places: dict[int, tuple[int, int]] = {}  # by a parameter's id: its optimizer, its number there
        self._requests = 0
        self._of: dict[int, int] = {}  # the requests of an optimizer
        self._since: dict[_Kind, int] = {}  # clips, and reads of a parameter, since the last request
        self._trace: dict[tuple[int, _Kind, int], torch.Tensor] = {}
        self._steps: dict[tuple[int, int], _Request] = {}
        self._before = torch.zeros(0)
        self._state_before: list[Any] = []
        self._used: torch.Tensor | None = None
        self._current: Any = None
        self._applied: dict[int, torch.Tensor] = {}  # by parameter: the gradient that a step used since the backward
        self._stale: set[int] = set()  # parameters whose gradients a step has used
        self._overflowed: set[int] = set()  # parameters whose gradients are not finite
        self._pending = False  # an overflow that no update has answered
        # By scaler's id: optimizers whose gradients were unscaled since its last update.
        self._unscaled: dict[int, list[Any]] = {}
        self._refused: set[int] = set()  # of these, those of an attempt at a step that is over
        self.has_cleared = False  # gradients were cleared, or set
        self.clears_in_sight = True  # it can be seen when gradients are cleared
        # What a step has used: by parameter the gradient, and its version behind the step; -1: another one was set.
        self._behind: dict[int, tuple[torch.Tensor, int]] = {}
        self._scaled = False  # scale() was called since the last backward

    # --- what is heard

    def scaler_made(self, scaler: torch.amp.GradScaler, asked: bool) -> None:
        self._scalers.append(scaler)

    def optimizer_made(self, optimizer: torch.optim.Optimizer) -> None:
        self._number(optimizer)

    def region_entered(self, region: Region) -> None:
        if len(self.observed.regions) < _KEPT:
            self.observed.regions.append(str(region))
        if region.dtype:
            self._dtype(region.dtype)

    def loss_scaled(self, loss: torch.Tensor) -> None:
        self._scaled = True
        self._loss(loss)

    def backward_started(self, roots: Sequence[torch.Tensor]) -> None:
        self.observed.backwards += 1
        if self._spot is not None and self._spot.backward == self.observed.backwards:
            optimizer = self._optimizers[self._spot.optimizer]
            inject_overflow(self._parameters(self._spot.optimizer, optimizer)[self._spot.parameter])
        self.observed.backwards_inside += self._inside()
        self._applied.clear()
        self._stale.clear()
        self._behind.clear()  # whatever was done to them, they are used now
        if not self._scaled:
            for root in roots:
                self._loss(root)
        self._scaled = False

    def backward_done(self) -> None:
        for number, optimizer in enumerate(self._optimizers):
            for each in self._parameters(number, optimizer):
                found = gradient(each)
                if found is not None and not _is_finite(_dense(found)):
                    self._overflowed.add(id(each))
                    self._pending = True

    def clipping(self, clip: Clip) -> None:
        self._late(clip)
        if clip.bound > 0 and math.isfinite(clip.bound):
            # Seen from the bound: a bound multiplied by the scale makes scaled gradients right.
            seen = _flat(gradient(each) for each in clip.parameters) / clip.bound
            self._compare(_CLIP, _CLIP, seen)

    def gradient_read(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        if self._is_changed(parameter):
            self._behind.pop(id(parameter))  # it was for this
        place = self._places.get(id(parameter))
        if place:
            self._compare(_READ, (_READ, *place), _flat([gradient]))

    def gradient_added(self, to: torch.Tensor, what: torch.Tensor) -> None:
        """Something is about to be added to a tensor: to a gradient, or to something else."""
        memory = to.untyped_storage().data_ptr()
        for number, optimizer in enumerate(self._optimizers):
            parameters = self._parameters(number, optimizer)
            for at, found in enumerate(map(gradient, parameters)):
                if found is not None and found.untyped_storage().data_ptr() == memory:
                    # Seen from the gradients: what is multiplied by the scale is right for scaled ones.
                    size = _flat(map(gradient, parameters)).norm()
                    if size > 0:
                        self._compare(_ADDED, (_ADDED, number, at), _flat([what]) / size)
                    return

    def gradients_dropped(self, parameters: Sequence[torch.Tensor], value: torch.Tensor | None = None) -> None:
        self.has_cleared = True
        dropped = set(map(id, parameters))
        self._overflowed -= dropped
        self._stale -= dropped
        if value is not None and bool(value.any()):
            self._behind.update((each, (value, -1)) for each in dropped & {*self._behind})
            return
        self._refused -= dropped
        self.observed.late += any(map(self._is_changed, parameters))
        for each in dropped:
            self._behind.pop(each, None)

    def unscaled(self, optimizer: Any, scaler: torch.amp.GradScaler) -> None:
        self._attempt(self._parameters(self._number(optimizer), optimizer))
        self._unscaled.setdefault(id(scaler), []).append(optimizer)

    def step_requested(self, optimizer: Any, scaler: torch.amp.GradScaler | None) -> None:
        self.observed.steps += 1
        self.observed.steps_inside += self._inside()
        self._current, self._used = optimizer, None
        parameters = self._parameters(self._number(optimizer), optimizer)
        self._attempt(parameters)
        self._is_plain = scaler is None
        if scaler is not None:
            self._protected.add(id(optimizer))
        else:
            self._note_plain(optimizer, parameters)
        self._before = _flat(parameters)
        self._state_before = _state(optimizer, parameters) if self._leave_out else []
        for each in parameters:
            self._dtype(each.dtype)

    def gradients_applied(self, optimizer: Any) -> None:
        # A wrapper's own optimizer steps within the request; the gradients are those of the wrapper's parameters.
        scale = getattr(optimizer, "grad_scale", None)
        parameters = self._parameters(self._number(self._current), self._current)
        grads = [gradient(each) for each in parameters]
        if self._used is None:  # the first of this request
            self.observed.reused += any(id(each) in self._stale for each in parameters)
        self._used = _flat(grads, parameters)
        if scale is not None:
            self._used = self._used / float(scale)
        self._stale.update(map(id, parameters))
        for each, found, used in zip(parameters, grads, _parts(self._used, parameters), strict=True):
            if found is not None:
                self._applied[id(each)] = used

    def step_done(self, optimizer: Any, *, taken: bool) -> None:
        number = self._number(optimizer)
        parameters = self._parameters(number, optimizer)
        key = number, self._of.get(number, 0)
        after = _flat(parameters)
        update = after[: len(self._before)] - self._before  # a group may have been added in between
        if self._leave_out and not _is_finite(update):
            taken, update, after = False, torch.zeros_like(update), self._before
            _restore(optimizer, parameters, self._before, self._state_before)
        if any(id(each) in self._overflowed for each in parameters):
            self.observed.overflows += 1
            applied = bool((update != 0).any())  # true for NaN, too
            self.observed.overflows_applied += applied
            self.observed.bypassed += applied and self._is_plain and id(optimizer) in self._protected
        self.observed.skipped += not taken
        self._steps[key] = _Request(
            self._used if taken else None,
            update,
            _Kept(after, _state(optimizer, parameters), torch.get_rng_state()) if self._leave_out else None,
        )
        if not taken:  # a fused optimizer has looked at them all the same
            for each in parameters:
                self._applied.pop(id(each), None)
            self._refuse(parameters)
        self._note_used(parameters)
        self._requests += 1
        self._of[number] = key[1] + 1
        self._since.clear()
        if self._reference:
            self._match(optimizer, parameters, self._steps[key], self._reference._steps.get(key))
        if self._may_inject(optimizer):
            self._overflow_one(parameters)

    def _note_plain(self, optimizer: Any, parameters: Sequence[torch.Tensor]) -> None:
        """A step without a scaler is requested: note a gradient that it uses."""
        at = next((at for at, each in enumerate(parameters) if gradient(each) is not None), None)
        if at is None:
            self._plain.pop(id(optimizer), None)
        else:
            self._plain[id(optimizer)] = Spot(self.observed.backwards, self._number(optimizer), at)

    def bypassing(self) -> list[Spot]:
        """Of the optimizers that a scaler steps as well: the gradients that their last steps without it have used.

        Those of the backward in which one of this run has overflowed say nothing new.
        """
        spots = (each for key, each in self._plain.items() if key in self._protected)
        return [each for each in spots if each.backward not in (0, self._overflows_in)]

    def _note_used(self, parameters: Sequence[torch.Tensor]) -> None:
        """Keep the gradients that the step has used, as they are now."""
        for each in parameters:
            found = gradient(each)
            if id(each) in self._applied and found is not None:
                self._behind[id(each)] = found, found._version

    def _overflow_one(self, parameters: Sequence[torch.Tensor]) -> None:
        target = next((each for each in parameters if each.requires_grad and gradient(each) is not None), None)
        if target is not None:
            self._inject = False
            self._overflows_in = self.observed.backwards + 1
            inject_overflow(target)

    def _may_inject(self, optimizer: Any) -> bool:
        if not self.may_overflow(optimizer):
            return False
        if not any(each is optimizer for each in self.overflowing):
            self.overflowing.append(optimizer)
        return self._inject and self._nth < len(self.overflowing) and self.overflowing[self._nth] is optimizer

    def scale_updated(self, scaler: torch.amp.GradScaler, before: float, after: float) -> None:
        self.observed.backoffs += after < before
        self.observed.answered += self._pending
        self._pending = False
        for each in self._unscaled.pop(id(scaler), ()):
            self._refuse(self._parameters(self._number(each), each))

    def close(self) -> Observed:
        """What was observed, with what is known at the end only."""
        known = [each for number, of in enumerate(self._optimizers) for each in self._parameters(number, of)]
        self.observed.finite = all(_is_finite(each.detach()) for each in known)
        self.observed.answered += self._pending
        reached = {
            number for (number, _), each in self._steps.items() if each.applied is not None and each.applied.any()
        }
        self.observed.idle = len({number for number, _ in self._steps} - reached)
        self.observed.enabled = [each.is_enabled() for each in self._scalers]
        self.observed.scales = [each.get_scale() for each in self._scalers]
        return self.observed

    def beside_itself(self) -> Observed:
        """What a run shows beside this one that does the very same."""
        for (number, _), request in self._steps.items():
            if request.applied is not None:
                self._measure(_STEP, request.applied, request.applied, number)
                if isinstance(self._optimizers[number], torch.optim.SGD):
                    self._measure(_UPDATE, request.update, request.update, number)
        for (_, kind, _), found in self._trace.items():
            self._measure(kind if isinstance(kind, str) else kind[0], found, found)
        return self.observed

    # --- gradients that nobody clears, or that are changed too late

    def _refuse(self, parameters: Sequence[torch.Tensor]) -> None:
        """An attempt at a step is over: its gradients that are not finite have to go before the next one."""
        self._refused.update(id(each) for each in parameters if id(each) in self._overflowed and not _has_finite(each))

    def _attempt(self, parameters: Sequence[torch.Tensor]) -> None:
        """A step is attempted, with the gradients of another that was left out."""
        left = {id(each) for each in parameters if id(each) in self._refused and not _has_finite(each)}
        self.observed.carried += bool(left) and self.clears_in_sight
        self._refused -= left
        for each in parameters:
            self._behind.pop(id(each), None)

    def _is_changed(self, parameter: torch.Tensor) -> bool:
        """Whether the gradient that a step has used was changed since, to something that isn't zero."""
        found, known = gradient(parameter), self._behind.get(id(parameter))
        if found is None or known is None or (known[0] is found and known[1] == found._version):
            return False
        used = self._applied.get(id(parameter))
        now = _flat([found])
        return bool(now.any()) and not (used is not None and used.shape == now.shape and torch.allclose(used, now))

    # --- numbers

    def _match(self, optimizer: Any, parameters: list[torch.Tensor], own: _Request, right: _Request | None) -> None:
        if right is None or right.kept is None or own.update.shape != right.update.shape:
            return
        number = self._number(optimizer)
        if own.applied is not None and right.applied is not None:
            self._measure(_STEP, own.applied, right.applied, number)
            if isinstance(optimizer, torch.optim.SGD):  # Adam's are nearly the same at any scale
                self._measure(_UPDATE, own.update, right.update, number)
        elif self._leaves_out and own.applied is not None and not _is_finite(own.update):  # it had to be left out
            self._add(_STEP, number, math.inf, math.inf)
            if isinstance(optimizer, torch.optim.SGD):
                self._add(_UPDATE, number, math.inf, math.inf)
        _restore(optimizer, parameters, right.kept.parameters, right.kept.state)
        torch.set_rng_state(right.kept.random)

    def _compare(self, what: str, kind: _Kind, found: torch.Tensor) -> None:
        place = self._requests, kind, self._since.get(kind, 0)
        self._since[kind] = place[2] + 1
        self._trace[place] = found
        right = self._reference._trace.get(place) if self._reference else None
        if right is not None and found.shape == right.shape:
            self._measure(what, found, right)

    def _measure(self, what: str, found: torch.Tensor, right: torch.Tensor, number: int | None = None) -> None:
        """Add a comparison; of what is no step's only if it is finite: until then an overflow is the scaler's business.

        `number` is the optimizer's.
        """
        if not _is_finite(right) or (number is None and not _is_finite(found)):
            return
        norm, reference = float(found.norm()), float(right.norm())
        if not math.isfinite(norm):
            self._add(what, number, math.inf, math.inf)
        elif reference == 0:
            self._add(what, number, 0.0 if norm == 0 else math.inf, 1.0 if norm == 0 else math.inf)
        else:
            self._add(what, number, float((found - right).norm()) / reference, norm / reference)

    def _add(self, what: str, number: int | None, error: float, factor: float) -> None:
        to: Compared = getattr(self.observed, what)
        part = f"{_UPDATE if what == _UPDATE else _STEP}: {what if number is None else f'optimizer {number + 1}'}"
        for each in (to, self.observed.parts.setdefault(part, Compared())):
            each.add(error, factor)
        self._compared += 1
        if number is not None or what == _CLIP:
            self.observed.places.setdefault(part, []).append((self._compared, self.where()))

    def _late(self, clip: Clip) -> None:
        """Of a clip of gradients that a step has used already: how far beyond the bound they were."""
        used = [self._applied[id(each)] for each in clip.parameters if id(each) in self._applied]
        waiting = any(gradient(each) is not None and id(each) not in self._applied for each in clip.parameters)
        if used and not waiting and clip.bound > 0:
            self.observed.late += clip.bound <= LARGE_NORM
            norm = float(torch.linalg.vector_norm(_flat(used), clip.order))
            self.observed.beyond_bound = max(self.observed.beyond_bound, norm / clip.bound)

    def _loss(self, loss: torch.Tensor) -> None:
        if len(self.observed.losses) < _KEPT:
            value = loss.detach().float()
            self.observed.losses.append(float(value if value.numel() == 1 else value.mean()))
            self.observed.loss_dtypes.append(str(loss.dtype).removeprefix("torch."))

    def _dtype(self, dtype: torch.dtype | str) -> None:
        name = str(dtype).removeprefix("torch.")
        if name not in self.observed.dtypes:
            self.observed.dtypes.append(name)

    def _inside(self) -> bool:
        regions = open_regions()
        if regions:
            self.observed.inside = str(regions[0])
        return bool(regions)

    def _number(self, optimizer: Any) -> int:
        for number, each in enumerate(self._optimizers):
            if each is optimizer:
                return number
        self._optimizers.append(optimizer)
        return len(self._optimizers) - 1

    def _parameters(self, number: int, optimizer: Any) -> list[torch.Tensor]:
        found = [each for group in getattr(optimizer, "param_groups", ()) for each in group["params"]]
        for at, each in enumerate(found):
            self._places.setdefault(id(each), (number, at))
        return found


def _state(optimizer: Any, parameters: Sequence[torch.Tensor]) -> list[Any]:
    return [_copied(optimizer.state.get(each)) for each in parameters] if hasattr(optimizer, "state") else []


def _copied(state: Any) -> Any:
    if isinstance(state, dict) and all(isinstance(each, torch.Tensor) for each in state.values()):
        return {key: each.detach().clone() for key, each in state.items()}  # `deepcopy` takes ten times as long
    return copy.deepcopy(state)


def _restore(optimizer: Any, parameters: Sequence[torch.Tensor], values: torch.Tensor, states: Sequence[Any]) -> None:
    """Set parameters and their state, which becomes the optimizer's own.

    What autocast has cached of them stays: that is autocast's business.
    """
    with torch.no_grad():
        for parameter, value in zip(parameters, _parts(values, parameters), strict=True):
            parameter.copy_(value.view(parameter.shape))
    for parameter, state in zip(parameters, states, strict=False):
        if state is None:
            optimizer.state.pop(parameter, None)
        else:
            optimizer.state[parameter] = _cast(state, parameter)


def _cast(state: Any, parameter: torch.Tensor) -> Any:
    """The state of a parameter as an optimizer makes it: what has a number for each of the parameter's, in its dtype.

    The reference's parameters are float32, the program's can be float16.
    """
    if not isinstance(state, dict):
        return state
    return {
        key: each.to(parameter.dtype)
        if isinstance(each, torch.Tensor) and each.shape == parameter.shape and each.is_floating_point()
        else each
        for key, each in state.items()
    }


def _has_finite(parameter: torch.Tensor) -> bool:
    """Whether a parameter has no gradient that is not finite."""
    found = gradient(parameter)
    return found is None or _is_finite(_dense(found))


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor.to_dense() if tensor.layout != torch.strided else tensor).detach()


def _is_finite(tensor: torch.Tensor) -> bool:
    """`tensor.isfinite().all()`: where the sum is finite everything is, and that takes an eighth of the time."""
    return cmath.isfinite(tensor.sum().item()) or bool(tensor.isfinite().all())


def _flat(tensors: Iterable[torch.Tensor | None], like: Sequence[torch.Tensor] = ()) -> torch.Tensor:
    """One float64 vector of all elements on the CPU; for None, zeros as many as the tensor beside it in `like` has."""
    parts = []
    for at, each in enumerate(tensors):
        if each is not None:
            parts.append(_dense(each).cpu().flatten())
        elif like:
            parts.append(torch.zeros(like[at].numel(), dtype=torch.float16, device="cpu"))
    # Of several dtypes `cat` makes one that holds them all.
    return torch.cat(parts).double() if parts else torch.zeros(0, dtype=torch.float64, device="cpu")


def _parts(vector: torch.Tensor, like: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """What `_flat` has made one of, with as many elements as tensors have."""
    found: Sequence[torch.Tensor] = torch.split_with_sizes(vector, [each.numel() for each in like])
    return found
