"""Calling functions and classes of libraries: of torch, of accelerate, of Python."""

from __future__ import annotations

from typing import Any

import torch

from amplint.model.calls.cuda_graphs import CAPTURES
from amplint.model.syntax.control import EXITS
from amplint.model.torch_facts.names import SCALERS
from amplint.model.usage.accelerators import ACCELERATORS
from amplint.verify.interpreter.accelerate_calls import Accelerators
from amplint.verify.interpreter.allowed_calls import CONTEXTS, FUNCTIONS, SAME, context
from amplint.verify.interpreter.builtin_calls import BUILTINS, Builtins
from amplint.verify.interpreter.gradient_calls import GradientCalls
from amplint.verify.interpreter.optimizer_calls import OptimizerCalls
from amplint.verify.interpreter.region_calls import REGIONS, RegionCalls
from amplint.verify.interpreter.roles import Roles
from amplint.verify.interpreter.scaler_calls import ScalerCalls
from amplint.verify.interpreter.standins import MISSING, CannotFollow, Dotted, Partial, Raised, Site, Unknown
from amplint.verify.interpreter.tensor_calls import RANDOM, TensorCalls
from amplint.verify.interpreter.unseen_calls import UnseenCalls
from amplint.verify.interpreter.world import Stage

REPLAYED = "a CUDA graph is captured and replayed"
_CONTAINERS = ("torch.nn.ModuleDict", "torch.nn.ModuleList")


class LibraryCalls:
    """Calls what libraries have, by its qualified name."""

    def __init__(
        self,
        *,
        stage: Stage,
        roles: Roles,
        regions: RegionCalls,
        scalers: ScalerCalls,
        optimizers: OptimizerCalls,
        gradients: GradientCalls,
        tensors: TensorCalls,
        accelerators: Accelerators,
        builtins: Builtins,
        unseen: UnseenCalls,
    ) -> None:
        self._stage = stage
        self._roles = roles
        self._regions = regions
        self._scalers = scalers
        self._optimizers = optimizers
        self._gradients = gradients
        self._tensors = tensors
        self._accelerators = accelerators
        self._builtins = builtins
        self._unseen = unseen

    def value(self, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """What a call returns."""
        for call in (self._made, self._with_gradients, self._wrapped):
            found = call(name, args, kwargs, site)
            if found is not MISSING:
                return found
        if name == "torch.device" and args:
            return self._device(args[0], site)
        if name == "torch.cuda.is_available":
            return torch.cuda.is_available()
        if name in BUILTINS:
            return self._builtins.call(name, args, kwargs, site)
        if name in RANDOM:
            return self._tensors.random(name.removeprefix("torch."), args, kwargs, site)
        if name in FUNCTIONS:
            return self._tensors.function(FUNCTIONS[name], args, kwargs, site)
        return self._unseen.value(site, [*args, *kwargs.values()], None)

    def _made(self, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """The region, scaler, optimizer or Accelerator that a call makes; else `MISSING`."""
        if name in REGIONS:
            return self._regions.made(name, args, kwargs, site)
        if name == CAPTURES:
            raise CannotFollow(f"{site.where}: {REPLAYED}")
        if name in ACCELERATORS:
            return self._accelerators.made(kwargs)
        if name in SCALERS:
            return self._scalers.made(name, args, kwargs, site)
        home, _, last = name.rpartition(".")
        if home == "torch.optim" and last[:1].isupper():
            return self._optimizers.made(last, args, kwargs, site)
        return MISSING

    def _with_gradients(self, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """What a call that makes gradients, asks for them or clips them returns; else `MISSING`."""
        if site.event is not None and site.event.kind == "clip":
            return self._gradients.clip(name.rpartition(".")[2], args, kwargs, site)
        if name == "torch.autograd.backward" and args:
            roots = args[0] if isinstance(args[0], (list, tuple)) else [args[0]]
            return self._gradients.backward([self._roles.as_loss(each, site) for each in roots], site)
        if name == "torch.autograd.grad":
            return self._gradients.grad(args, kwargs, site)
        return MISSING

    @staticmethod
    def _wrapped(name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """A context, or what a call makes of something that stays what it is; else `MISSING`."""
        if name in CONTEXTS:
            return context(Dotted(name), args)
        if name in EXITS:
            raise Raised("SystemExit", site.where)
        if name == "functools.partial" and args:
            return Partial(args[0], tuple(args[1:]), kwargs)
        if (name in SAME and args) or (name in _CONTAINERS and args and isinstance(args[0], (dict, list))):
            return args[0]
        return MISSING

    def _device(self, given: Any, site: Site) -> Any:
        """What `torch.device` returns."""
        if not isinstance(given, (str, torch.device)):
            found = Unknown(site.text)
            found.role = torch.device(self._stage.device)
            return found
        try:
            return torch.device(given)
        except RuntimeError:
            return Unknown(site.text)
