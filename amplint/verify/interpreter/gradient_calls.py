"""Making gradients, asking for them, and clipping them."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from amplint.model.objects.key_parts import is_part
from amplint.verify.interpreter.amp_events import AmpEvents
from amplint.verify.interpreter.roles import Roles
from amplint.verify.interpreter.run_record import RunRecord
from amplint.verify.interpreter.scaler_calls import ScalerCalls
from amplint.verify.interpreter.standins import Site, Unknown, value_of
from amplint.verify.interpreter.unseen_training import UnseenTraining
from amplint.verify.interpreter.world import Stage

_BOUND = 0.1  # of a clip whose own is out of sight: less than a gradient's norm
_BOUNDS = ("max_norm", "clip_value", "value", "clip_factor", "total_norm")  # of the functions that clip


class GradientCalls:
    """Calls what torch does with gradients."""

    def __init__(
        self,
        *,
        stage: Stage,
        record: RunRecord,
        roles: Roles,
        events: AmpEvents,
        training: UnseenTraining,
        scalers: ScalerCalls,
    ) -> None:
        self._stage = stage
        self._record = record
        self._roles = roles
        self._events = events
        self._training = training
        self._scalers = scalers

    def clip(self, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """A clip by one of torch's functions, or of timm's."""
        given = args[0] if args else next((kwargs[key] for key in ("parameters", "model") if key in kwargs), None)
        parameters = self._roles.as_parameters(given)
        bound = self._bound([*args[1:2], *(kwargs.get(key) for key in _BOUNDS)], site)
        order = kwargs.get("norm_type", args[2] if len(args) > 2 else 2.0)
        order = float(order) if isinstance(order, (int, float)) else 2.0
        if "value" in name:
            return self._events.run(site, lambda: torch.nn.utils.clip_grad_value_(parameters, bound))
        if name == "clip_grads_with_norm_":
            total = next((each for each in args[2:] if isinstance(each, torch.Tensor)), torch.tensor(1.0))
            return self._events.run(site, lambda: torch.nn.utils.clip_grads_with_norm_(parameters, bound, total))
        return self._events.run(site, lambda: torch.nn.utils.clip_grad_norm_(parameters, bound, order))

    def _bound(self, given: list[Any], site: Site) -> float:
        """The first bound that a clip is given; one of the bench's where that is out of sight."""
        bound = next((each for each in given if each is not None), None)
        bound = bound.item() if isinstance(bound, torch.Tensor) and bound.numel() == 1 else bound
        if isinstance(bound, (int, float)):
            return bound
        self._record.note(site.code, site.call, f"the bound is {_BOUND}")
        return _BOUND

    def backward(self, roots: list[Any], site: Site) -> Any:
        """The backward of losses."""
        for each in roots:
            self._stage.used(each)
        # The graph is kept: two losses that come from one unseen call have one graph here, and two of their own there.
        return self._events.run(site, lambda: torch.autograd.backward(roots, retain_graph=True))

    def grad(self, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """`torch.autograd.grad`."""
        outputs = args[0] if args else kwargs.get("outputs")
        inputs = args[1] if len(args) > 1 else kwargs.get("inputs")
        starts = kwargs.get("grad_outputs", args[2] if len(args) > 2 else None)
        roots, leaves = _values(outputs), [self._leaf(each) for each in _values(inputs)]
        if all(isinstance(each, torch.Tensor) for each in [*roots, *leaves]):
            with contextlib.suppress(RuntimeError):
                found = torch.autograd.grad(
                    roots, leaves, _starts(starts, roots), create_graph=True, retain_graph=True, allow_unused=True
                )
                # That of the bench doesn't hang on them all, that of the program does.
                return tuple(Unknown(site.text) if each is None else each for each in found)
        if kwargs.get("create_graph") is True and any(map(self._scalers.has_scaled, roots)):
            self._training.may_do_anything(site)  # a penalty that has the scale in it, or not
        return Unknown(site.text, inputs=(outputs, inputs))

    def _leaf(self, value: Any) -> Any:
        """What gradients are asked of: a parameter of a model's, where it is a part of one; else an input.

        An input is known in the next run, by whom it is given to.
        """
        if not isinstance(value, Unknown) or value.role is not None:
            return value
        for net in self._stage.knowledge.nets:
            if is_part(value.identity, net):
                return self._stage.parameters(net)[0]
        self._stage.knowledge.learn_leaf(value.identity)
        return value


def _values(given: Any) -> list[Any]:
    """One value or several as a list, with the tensors behind them."""
    return [value_of(each) for each in (given if isinstance(given, (list, tuple)) else [given])]


def _starts(given: Any, roots: list[torch.Tensor]) -> list[Any]:
    """What gradients begin with: what is given for each root; ones, where it isn't or is out of sight."""
    starts = _values(given)
    if len(starts) != len(roots) or not all(isinstance(each, torch.Tensor) for each in starts):
        return [torch.ones_like(each) for each in roots]
    return starts
