"""Calling methods: of torch's objects, of the program's, of values out of sight."""

from __future__ import annotations

from typing import Any

import torch

from amplint.model.calls.cuda_graphs import Graphs
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import OF_SCALER
from amplint.model.syntax import ir
from amplint.verify.interpreter.accelerate_calls import Accelerators
from amplint.verify.interpreter.allowed_calls import METHODS, OF_PARAMETERS, OPS, SAME_METHODS
from amplint.verify.interpreter.evaluate import Evaluator
from amplint.verify.interpreter.gradient_calls import GradientCalls
from amplint.verify.interpreter.instances import Instances
from amplint.verify.interpreter.library_calls import REPLAYED
from amplint.verify.interpreter.lookup import Lookup
from amplint.verify.interpreter.loop_items import INNER
from amplint.verify.interpreter.net_calls import NetCalls
from amplint.verify.interpreter.roles import Roles
from amplint.verify.interpreter.run_state import RunState
from amplint.verify.interpreter.scaler_calls import ScalerCalls
from amplint.verify.interpreter.standins import (
    MISSING,
    CannotFollow,
    ClassValue,
    Closure,
    Instance,
    ModuleValue,
    Site,
    Unknown,
)
from amplint.verify.interpreter.table_items import TableItems
from amplint.verify.interpreter.tensor_calls import TensorCalls
from amplint.verify.interpreter.unseen_calls import SHAPES, UnseenCalls
from amplint.verify.interpreter.unseen_training import is_given_tools

_VIEWS = ("items", "keys", "values")
_OF_SCALER = ("get_scale", "is_enabled", "_check_inf_per_device")


class MethodCalls:
    """Calls methods, by what they are of."""

    def __init__(
        self,
        *,
        state: RunState,
        evaluator: Evaluator,
        lookup: Lookup,
        instances: Instances,
        roles: Roles,
        tables: TableItems,
        scalers: ScalerCalls,
        gradients: GradientCalls,
        tensors: TensorCalls,
        accelerators: Accelerators,
        nets: NetCalls,
        unseen: UnseenCalls,
    ) -> None:
        self._state = state
        self._evaluator = evaluator
        self._lookup = lookup
        self._instances = instances
        self._roles = roles
        self._tables = tables
        self._scalers = scalers
        self._gradients = gradients
        self._tensors = tensors
        self._accelerators = accelerators
        self._nets = nets
        self._unseen = unseen

    def value(self, base: Any, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """What a call of a method returns."""
        event = site.event
        kind = event.kind if event is not None else ""
        if isinstance(base, Unknown):
            base = self._as_tool(base, name, kind, site)
        if kind == "backward" and isinstance(base, (Unknown, torch.Tensor)) and not is_given_tools(site, args):
            return self._gradients.backward([self._roles.as_loss(base, site)], site)
        if isinstance(base, torch.amp.GradScaler):
            return self._scalers.method(base, name, args, kwargs, site)
        if isinstance(base, torch.optim.Optimizer):
            return self._accelerators.of_optimizer(base, name, args, kwargs, site)
        if isinstance(base, Instance):
            if event is not None:
                self._state.record.executed.add(site.call)  # what it does is in the method
            return self._of_instance(base, name, args, kwargs, site)
        if isinstance(base, (ClassValue, ModuleValue)):
            called = self._lookup.attribute(base, name, site.call, site.frame)
            return self._evaluator.call_value(called, args, kwargs, site)
        if name == "get" and args:
            taken = self._tables.taken(site.call, base, args[0], site.frame)
            if taken is not MISSING:
                return taken
        return self._of_value(base, name, args, kwargs, site)

    def _as_tool(self, base: Unknown, name: str, kind: str, site: Site) -> Any:
        """The scaler or optimizer that a value out of sight is, where a method is called as one of these has."""
        if isinstance(base.role, (torch.amp.GradScaler, torch.optim.Optimizer)):
            return base.role
        func = site.call.func
        written = func.base if isinstance(func, ir.Attribute) else None
        if kind in OF_SCALER:
            return self._roles.as_scaler(base, site)
        if kind == "optimizer_step":
            return self._roles.as_optimizer(base, site)
        if name in _OF_SCALER and written is not None and objects(site.code.module).is_scaler(written):
            return self._roles.as_scaler(base, site)
        if name == "zero_grad" and written is not None and objects(site.code.module).is_optimizer(written):
            return self._roles.as_optimizer(base, site)
        return base

    def _of_value(self, base: Any, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """A method of a value out of sight, a tensor, or of one of Python's objects."""
        if isinstance(base, Unknown):
            return self._of_unknown(base, name, args, kwargs, site)
        if any(isinstance(base, of) and name in methods for of, methods in METHODS):
            return self._tensors.method(base, name, args, kwargs, site)
        if isinstance(base, (dict, list)) and name in (*OF_PARAMETERS, "zero_grad", *SAME_METHODS):
            return self._nets.of_container(base, name)
        return self._unseen.value(site, [base, *args, *kwargs.values()], None)

    def _of_instance(self, base: Instance, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """A method of an instance of the program's; of a model, one that it has from torch."""
        if self._instances.is_module(base) and (name in OF_PARAMETERS or name in ("zero_grad", *SAME_METHODS)):
            if not isinstance(self._instances.of_class(base.cls, name, base), Closure):
                return self._nets.method(base, name)
        runs = name == "forward" and self._instances.is_module(base)
        called = base if runs else self._instances.attribute(base, name)
        return self._evaluator.call_value(called, args, kwargs, site)

    def _of_unknown(self, base: Unknown, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        if name in OF_PARAMETERS or name == "zero_grad":
            return self._nets.method(base, name)
        if name == "replay" and site.code.module.once(Graphs).is_replay(site.call):
            raise CannotFollow(f"{site.where}: {REPLAYED}")
        if name in _VIEWS and base.tensor is None and self._nets.holds_tools(base):
            return [each if name == "items" else each[name == "values"] for each in base.entries(INNER)]
        if base.tensor is not None and _is_of_tensor(name):
            return self._tensors.method(base.tensor, name, args, kwargs, site)
        if base.tensor is not None and name in SHAPES:
            return Unknown(site.text, inputs=(base,), tensor=base.tensor)
        if name in SAME_METHODS:
            return self._nets.method(base, name)
        return self._of_unseen(base, name, [*args, *kwargs.values()], site)

    def _of_unseen(self, base: Unknown, name: str, given: list[Any], site: Site) -> Unknown:
        """A method that can't be seen: a model's, or one that computes with the value itself."""
        # Whose gradients are asked for has to be made of its inputs.
        computed = name in SHAPES or (name in OPS and bool(self._state.stage.knowledge.leaves))
        forward = not computed and self._state.stage.may_be_net(base.identity)
        return self._unseen.value(site, given if forward else [base, *given], base.identity, forward=forward)


def _is_of_tensor(name: str) -> bool:
    """Whether a tensor has a method that a program may call."""
    return any(name in methods for of, methods in METHODS if of is torch.Tensor)
