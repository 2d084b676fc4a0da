"""Making optimizers, and what their methods do."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from amplint.model.syntax import ir
from amplint.verify.interpreter.amp_events import AmpEvents
from amplint.verify.interpreter.functions import Functions
from amplint.verify.interpreter.roles import Roles
from amplint.verify.interpreter.standins import Closure, Site, Unknown, value_of
from amplint.verify.interpreter.unseen_calls import UnseenCalls
from amplint.verify.interpreter.world import LEARNING_RATE, LOWEST_RATE, Stage


class OptimizerCalls:
    """Makes and calls optimizers of torch's own."""

    def __init__(
        self, stage: Stage, functions: Functions, roles: Roles, events: AmpEvents, unseen: UnseenCalls
    ) -> None:
        self._stage = stage
        self._functions = functions
        self._roles = roles
        self._events = events
        self._unseen = unseen

    def method(
        self, optimizer: torch.optim.Optimizer, name: str, args: list[Any], kwargs: dict[str, Any], site: Site
    ) -> Any:
        """A method of an optimizer."""
        if name == "step":
            closures = [self.as_callable(each) for each in [*args, *kwargs.values()] if isinstance(each, Closure)]
            return self.stepped(site, optimizer, lambda: optimizer.step(*closures[:1]))
        if name == "zero_grad":
            to_none = next((each for each in [*args, *kwargs.values()] if isinstance(each, bool)), True)
            return self._events.run(site, lambda: optimizer.zero_grad(to_none))
        if name in ("state_dict", "load_state_dict", "add_param_group", "train", "eval"):
            return Unknown(site.text)
        return self._unseen.value(site, [optimizer, *args, *kwargs.values()], None)

    def stepped(self, site: Site, optimizer: torch.optim.Optimizer, run: Callable[[], Any]) -> Any:
        """A step. Where graphs are used behind it they stay good: a program's loss can hang on less than ours."""
        with ExitStack() as kept:
            for part in self._stage.parts.values() if self._stage.knowledge.stale else ():
                for each in part.parameters():
                    kept.enter_context(_unsafe_preserve_version_counter(each))
            found = self._events.run(site, run)
        if self._stage.clears_itself and (id(optimizer) in self._stage.own or self._stage.knowledge.cleared):
            optimizer.zero_grad()
        return found

    def as_callable(self, closure: Closure) -> Callable[[], Any]:
        """A closure of the program as torch calls it."""
        return lambda: value_of(self._functions.apply(closure, [], {}))

    def made(self, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """An optimizer of torch's, made of the bench's parameters."""
        made = getattr(torch.optim, name, None)
        if not (isinstance(made, type) and issubclass(made, torch.optim.Optimizer)) or not (args or "params" in kwargs):
            return self._unseen.value(site, [*args, *kwargs.values()], None)
        options = _known_options(name, args, kwargs)
        parameters = list(dict.fromkeys(self._roles.as_parameters(args[0] if args else kwargs["params"])))
        if not parameters:  # they were collected by what isn't run
            return self._roles.as_optimizer(Unknown(site.text, origin=site.call), site)
        parent = site.call.parent
        target = site.code.text(parent.targets[0]) if isinstance(parent, ir.Assign) else name
        self._stage.made_optimizer(f"{target} (line {site.row})", parameters)
        try:
            found = made(parameters, **options)
        except (TypeError, ValueError, RuntimeError):
            found = torch.optim.SGD(parameters, lr=LEARNING_RATE)
        self._stage.trains(found, parameters)
        if not site.frame.lazy:
            self._stage.made_here.add(id(found))
        return found


def _known_options(name: str, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of an optimizer's constructor that are in sight, beside the parameters."""
    names = _options(name)
    given = dict(zip(names, args[1:], strict=False)) | {key: value for key, value in kwargs.items() if key != "params"}
    known = {key: value for key, value in given.items() if key in names and _is_number(value)}
    for switch in ("fused", "capturable", "differentiable", "foreach"):
        known.pop(switch, None)
    if name == "SGD":  # with a tiny rate an update would be all rounding
        known["lr"] = min(max(known.get("lr", LEARNING_RATE), LOWEST_RATE), LEARNING_RATE)
    return known


@functools.cache
def _options(optimizer: str) -> list[str]:
    """The arguments of the constructor of one of torch's optimizers, beside its parameters."""
    return [each for each in inspect.signature(getattr(torch.optim, optimizer)).parameters if each != "params"]


def _is_number(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_number, value))
    return isinstance(value, (bool, int, float)) and math.isfinite(value) and abs(value) < 1e6
