"""Making scalers, and what their methods do."""

from __future__ import annotations

from typing import Any

import torch

from amplint.model.torch_facts.names import SCALER
from amplint.verify.interpreter.amp_events import AmpEvents
from amplint.verify.interpreter.optimizer_calls import OptimizerCalls
from amplint.verify.interpreter.roles import Roles
from amplint.verify.interpreter.run_state import RunState
from amplint.verify.interpreter.standins import Closure, Instance, Site, Unknown
from amplint.verify.interpreter.truth import Truth
from amplint.verify.interpreter.value_queries import is_simple

_SHARDED = "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler"
_ASKED = ("get_scale", "is_enabled", "get_growth_factor", "get_backoff_factor", "get_growth_interval")


class ScalerCalls:
    """Makes and calls scalers of torch's own."""

    def __init__(
        self, state: RunState, truth: Truth, roles: Roles, events: AmpEvents, optimizers: OptimizerCalls
    ) -> None:
        self._stage = state.stage
        self._record = state.record
        self._truth = truth
        self._roles = roles
        self._events = events
        self._optimizers = optimizers
        self._scaled: list[torch.Tensor] = []  # what scalers have scaled

    def method(
        self, scaler: torch.amp.GradScaler, name: str, args: list[Any], kwargs: dict[str, Any], site: Site
    ) -> Any:
        """A method of a scaler."""
        if name == "scale" and args:
            return self._scale(scaler, args[0], site)
        if name in ("unscale_", "step") and (args or "optimizer" in kwargs):
            return self._use_gradients(scaler, name, args, kwargs, site)
        if name == "update":
            given = [each for each in args if isinstance(each, (int, float, torch.Tensor))]
            return self._events.run(site, lambda: scaler.update(*given))
        if name in _ASKED:
            return getattr(scaler, name)()
        if name == "_check_inf_per_device" and args:
            optimizer = self._roles.as_optimizer(args[0], site)
            return self._events.run(site, lambda: scaler._check_inf_per_device(optimizer))
        return Unknown(site.text)

    def _scale(self, scaler: torch.amp.GradScaler, given: Any, site: Site) -> Any:
        outputs = (
            [self._roles.as_loss(each, site) for each in given]
            if isinstance(given, (list, tuple))
            else self._roles.as_loss(given, site)
        )
        found = self._events.run(site, lambda: scaler.scale(outputs))
        if scaler.is_enabled():
            self._record.scalers.scaled(scaler)
        self._scaled += found if isinstance(found, list) else [found]
        return found

    def _use_gradients(
        self, scaler: torch.amp.GradScaler, name: str, args: list[Any], kwargs: dict[str, Any], site: Site
    ) -> Any:
        """`unscale_` or `step`."""
        optimizer = self._roles.as_optimizer(args[0] if args else kwargs["optimizer"], site)
        self._record.scalers.stepped(scaler, self._stage.trained(optimizer))
        if scaler.is_enabled():
            self._stage.protected.add(id(optimizer))
        if name == "unscale_":
            return self._events.run(site, lambda: scaler.unscale_(optimizer))
        closures = [self._optimizers.as_callable(each) for each in args[1:] if isinstance(each, Closure)]
        named = {key: self._optimizers.as_callable(each) for key, each in kwargs.items() if isinstance(each, Closure)}
        return self._optimizers.stepped(site, optimizer, lambda: scaler.step(optimizer, *closures, **named))

    def has_scaled(self, value: Any) -> bool:
        """Whether a value is what a scaler has made of a loss."""
        return any(value is each for each in self._scaled)

    def made(self, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """A scaler, made: with a scale that can grow in a short run."""
        order = ("device", "init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled")
        given = dict(zip(order if name == SCALER else order[1:], args, strict=False)) | kwargs
        enabled = given.pop("enabled", True)
        found: dict[str, Any] = {
            key: given[key] for key in ("growth_factor", "backoff_factor") if isinstance(given.get(key), float)
        }
        found |= self._stage.scaler_arguments
        unknown = set(given) - set(order)
        if "device" in given:
            found["device"] = self._stage.device if isinstance(given["device"], Unknown) else given["device"]
        elif name == _SHARDED:
            found["device"] = self._stage.device
            unknown.discard("process_group")
        found |= {key: given[key] for key in unknown if is_simple(given[key])}  # torch says what it makes of them
        found["enabled"] = self._truth.of(enabled, matters=True)
        made: Any = {
            "torch.cuda.amp.GradScaler": torch.cuda.amp.GradScaler,
            "torch.cpu.amp.GradScaler": torch.cpu.amp.grad_scaler.GradScaler,
        }.get(name, torch.amp.GradScaler)
        scaler = self._events.run(site, lambda: made(**found), of_amp=True)
        self._record.scalers.made(scaler, (site.call, _owner(site)))
        return scaler


def _owner(site: Site) -> str:
    """What the object is called that a method makes something for; empty outside of methods."""
    function = site.frame.function
    own = (
        (site.frame.variables | site.frame.given).get(function.params[0].name) if function and function.params else None
    )
    return own.text if isinstance(own, Instance) else ""
