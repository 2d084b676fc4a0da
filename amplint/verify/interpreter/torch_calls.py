"""Doing what an interpreted program does with torch: scalers, optimizers, regions, clips, backward, tensors."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from amplint.model.objects.key_parts import is_part
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import ifs_round, loop_of, upwards
from amplint.model.torch_facts.names import AUTOCAST, OLD_AUTOCAST, SCALER
from amplint.verify.interpreter.remade_scalers import Remade
from amplint.verify.interpreter.roles import Roles, is_simple, tensors_in
from amplint.verify.interpreter.standins import CannotFollow, Closure, Instance, Site, Unknown, value_of
from amplint.verify.interpreter.world import LEARNING_RATE, LOWEST_RATE

BOUND = 0.1  # of a clip whose own is out of sight: less than a gradient's norm
_MOVES = ("to", "cpu", "cuda", "xpu", "npu")
_SHARDED = "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler"
REGIONS = {AUTOCAST, *OLD_AUTOCAST}
RANDOM = {f"torch.{name}" for name in ("randn_like", "rand_like", "randn", "rand", "normal")}
_FILLS = ("normal_", "uniform_")
_MOST_RANDOM = 1 << 14  # numbers


class TorchCalls(Roles):
    """Calls torch's objects and functions."""

    def __init__(self) -> None:
        super().__init__()
        self.scalers = Remade()
        self._scaled: list[torch.Tensor] = []  # what scalers have scaled

    def apply(self, closure: Closure, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What a function of the program returns."""
        raise NotImplementedError

    def of_scaler(
        self, scaler: torch.amp.GradScaler, name: str, args: list[Any], kwargs: dict[str, Any], site: Site
    ) -> Any:
        """A method of a scaler."""
        if name == "scale" and args:
            outputs = (
                [self.as_loss(each, site) for each in args[0]]
                if isinstance(args[0], (list, tuple))
                else self.as_loss(args[0], site)
            )
            found = self.event(site, lambda: scaler.scale(outputs))
            if scaler.is_enabled():
                self.scalers.scaled(scaler)
            self._scaled += found if isinstance(found, list) else [found]
            return found
        if name in ("unscale_", "step") and (args or "optimizer" in kwargs):
            optimizer = self.as_optimizer(args[0] if args else kwargs["optimizer"], site)
            self.scalers.stepped(scaler, self.stage.trained(optimizer))
            if scaler.is_enabled():
                self.stage.protected.add(id(optimizer))
            if name == "unscale_":
                return self.event(site, lambda: scaler.unscale_(optimizer))
            closures = [self._callable(each) for each in args[1:] if isinstance(each, Closure)]
            named = {key: self._callable(each) for key, each in kwargs.items() if isinstance(each, Closure)}
            return self.stepped(site, optimizer, lambda: scaler.step(optimizer, *closures, **named))
        if name == "update":
            given = [each for each in args if isinstance(each, (int, float, torch.Tensor))]
            return self.event(site, lambda: scaler.update(*given))
        if name in ("get_scale", "is_enabled", "get_growth_factor", "get_backoff_factor", "get_growth_interval"):
            return getattr(scaler, name)()
        if name == "_check_inf_per_device" and args:
            optimizer = self.as_optimizer(args[0], site)
            return self.event(site, lambda: scaler._check_inf_per_device(optimizer))
        return Unknown(site.text)

    def of_optimizer(
        self, optimizer: torch.optim.Optimizer, name: str, args: list[Any], kwargs: dict[str, Any], site: Site
    ) -> Any:
        """A method of an optimizer."""
        if name == "step":
            closures = [self._callable(each) for each in [*args, *kwargs.values()] if isinstance(each, Closure)]
            return self.stepped(site, optimizer, lambda: optimizer.step(*closures[:1]))
        if name == "zero_grad":
            to_none = next((each for each in [*args, *kwargs.values()] if isinstance(each, bool)), True)
            return self.event(site, lambda: optimizer.zero_grad(to_none))
        if name in ("state_dict", "load_state_dict", "add_param_group", "train", "eval"):
            return Unknown(site.text)
        return self.unseen(site, [optimizer, *args, *kwargs.values()], None)

    def stepped(self, site: Site, optimizer: torch.optim.Optimizer, run: Callable[[], Any]) -> Any:
        """A step. Where graphs are used behind it they stay good: a program's loss can hang on less than ours."""
        with ExitStack() as kept:
            for part in self.stage.parts.values() if self.stage.knowledge.stale else ():
                for each in part.parameters():
                    kept.enter_context(_unsafe_preserve_version_counter(each))
            found = self.event(site, run)
        if self.stage.clears_itself and (id(optimizer) in self.stage.own or self.stage.knowledge.cleared):
            optimizer.zero_grad()
        return found

    def _callable(self, closure: Closure) -> Callable[[], Any]:
        """A closure of the program as torch calls it."""
        return lambda: value_of(self.apply(closure, [], {}))

    def region(self, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """An autocast region, made."""
        order = (
            ("device_type", "dtype", "enabled", "cache_enabled")
            if name == AUTOCAST
            else ("enabled", "dtype", "cache_enabled")
        )
        given = dict(zip(order, args, strict=False)) | kwargs
        if len(args) == 1 and isinstance(args[0], Closure) and name in OLD_AUTOCAST:
            return args[0]
        for key, value in list(given.items()):
            if is_simple(value):
                continue
            if key == "enabled":
                given[key] = self.truth(value, matters=True)
            elif key == "device_type":
                role = value.role if isinstance(value, Unknown) else None
                given[key] = role if isinstance(role, torch.device) else self.stage.device
            else:
                del given[key]
            self.note(site.code, site.call, f"{key} is {given.get(key, 'left out')}")
        if isinstance(given.get("enabled"), torch.Tensor):
            given["enabled"] = bool(given["enabled"])
        made: Any = {AUTOCAST: torch.amp.autocast, "torch.cuda.amp.autocast": torch.cuda.amp.autocast}.get(
            name, torch.cpu.amp.autocast_mode.autocast
        )
        count = len(args)
        positional = [given.pop(key) for key in order[:count] if key in given]
        return self.event(site, lambda: made(*positional, **given), of_amp=True)

    def made_scaler(self, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """A scaler, made: with a scale that can grow in a short run."""
        order = ("device", "init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled")
        given = dict(zip(order if name == SCALER else order[1:], args, strict=False)) | kwargs
        enabled = given.pop("enabled", True)
        found: dict[str, Any] = {
            key: given[key] for key in ("growth_factor", "backoff_factor") if isinstance(given.get(key), float)
        }
        found |= self.stage.scaler_arguments
        unknown = set(given) - set(order)
        if "device" in given:
            found["device"] = self.stage.device if isinstance(given["device"], Unknown) else given["device"]
        elif name == _SHARDED:
            found["device"] = self.stage.device
            unknown.discard("process_group")
        found |= {key: given[key] for key in unknown if is_simple(given[key])}  # torch says what it makes of them
        found["enabled"] = self.truth(enabled, matters=True)
        made: Any = {
            "torch.cuda.amp.GradScaler": torch.cuda.amp.GradScaler,
            "torch.cpu.amp.GradScaler": torch.cpu.amp.grad_scaler.GradScaler,
        }.get(name, torch.amp.GradScaler)
        scaler = self.event(site, lambda: made(**found), of_amp=True)
        self.scalers.made(scaler, (site.call, _owner(site)))
        return scaler

    def made_optimizer(self, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """An optimizer of torch's, made of the bench's parameters."""
        made = getattr(torch.optim, name, None)
        if not (isinstance(made, type) and issubclass(made, torch.optim.Optimizer)) or not (args or "params" in kwargs):
            return self.unseen(site, [*args, *kwargs.values()], None)
        names = _options(name)
        given = dict(zip(names, args[1:], strict=False)) | {
            key: value for key, value in kwargs.items() if key != "params"
        }
        known = {key: value for key, value in given.items() if key in names and _is_number(value)}
        for switch in ("fused", "capturable", "differentiable", "foreach"):
            known.pop(switch, None)
        if name == "SGD":  # with a tiny rate an update would be all rounding
            known["lr"] = min(max(known.get("lr", LEARNING_RATE), LOWEST_RATE), LEARNING_RATE)
        parameters = list(dict.fromkeys(self.as_parameters(args[0] if args else kwargs["params"])))
        if not parameters:  # they were collected by what isn't run
            return self.as_optimizer(Unknown(site.text, origin=site.call), site)
        parent = site.call.parent
        target = site.code.text(parent.targets[0]) if isinstance(parent, ir.Assign) else name
        text = f"{target} (line {site.row})"
        self.stage.made_optimizer(text, parameters)
        try:
            found = made(parameters, **known)
        except (TypeError, ValueError, RuntimeError):
            found = torch.optim.SGD(parameters, lr=LEARNING_RATE)
        self.stage.trains(found, parameters)
        if not site.frame.lazy:
            self.stage.made_here.add(id(found))
        return found

    def clip(self, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """A clip by one of torch's functions, or of timm's."""
        given = args[0] if args else next((kwargs[key] for key in ("parameters", "model") if key in kwargs), None)
        parameters = self.as_parameters(given)
        bound = next(
            (
                each
                for each in [
                    *args[1:2],
                    *(kwargs.get(key) for key in ("max_norm", "clip_value", "value", "clip_factor", "total_norm")),
                ]
                if each is not None
            ),
            None,
        )
        bound = bound.item() if isinstance(bound, torch.Tensor) and bound.numel() == 1 else bound
        if not isinstance(bound, (int, float)):
            bound = BOUND
            self.note(site.code, site.call, f"the bound is {BOUND}")
        order = kwargs.get("norm_type", args[2] if len(args) > 2 else 2.0)
        order = float(order) if isinstance(order, (int, float)) else 2.0
        if "value" in name:
            return self.event(site, lambda: torch.nn.utils.clip_grad_value_(parameters, bound))
        if name == "clip_grads_with_norm_":
            total = next((each for each in args[2:] if isinstance(each, torch.Tensor)), torch.tensor(1.0))
            return self.event(site, lambda: torch.nn.utils.clip_grads_with_norm_(parameters, bound, total))
        return self.event(site, lambda: torch.nn.utils.clip_grad_norm_(parameters, bound, order))

    def backward_of(self, roots: list[Any], site: Site) -> Any:
        """The backward of losses."""
        for each in roots:
            self.stage.used(each)
        # The graph is kept: two losses that come from one unseen call have one graph here, and two of their own there.
        return self.event(site, lambda: torch.autograd.backward(roots, retain_graph=True))

    def grad(self, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """`torch.autograd.grad`."""
        outputs = args[0] if args else kwargs.get("outputs")
        inputs = args[1] if len(args) > 1 else kwargs.get("inputs")
        roots = [value_of(each) for each in (outputs if isinstance(outputs, (list, tuple)) else [outputs])]
        leaves = [self._leaf(value_of(each)) for each in (inputs if isinstance(inputs, (list, tuple)) else [inputs])]
        if all(isinstance(each, torch.Tensor) for each in [*roots, *leaves]):
            starts = kwargs.get("grad_outputs", args[2] if len(args) > 2 else None)
            starts = [value_of(each) for each in (starts if isinstance(starts, (list, tuple)) else [starts])]
            if len(starts) != len(roots) or not all(isinstance(each, torch.Tensor) for each in starts):
                starts = [torch.ones_like(each) for each in roots]
            with contextlib.suppress(RuntimeError):
                found = torch.autograd.grad(
                    roots, leaves, starts, create_graph=True, retain_graph=True, allow_unused=True
                )
                # That of the bench doesn't hang on them all, that of the program does.
                return tuple(Unknown(site.text) if each is None else each for each in found)
        if kwargs.get("create_graph") is True and any(each is one for each in roots for one in self._scaled):
            self.unseen_effects.setdefault(site.where, site.text)  # a penalty that has the scale in it, or not
        return Unknown(site.text, inputs=(outputs, inputs))

    def pure(self, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """A function of tensors; where it is given what is out of sight, something like its result."""
        known = [
            [value_of(item) for item in each] if isinstance(each, (list, tuple)) else value_of(each) for each in args
        ]
        if not any(
            isinstance(each, Unknown) or (isinstance(each, list) and any(isinstance(i, Unknown) for i in each))
            for each in known
        ):
            if function is torch.exp:
                self._exponentiated(known[0] if known else None)
            try:
                return function(*known, **_placed_here(kwargs))
            except (TypeError, ValueError, RuntimeError, IndexError, OverflowError):
                pass
        tensors = list(tensors_in(known))
        text = site.text
        return Unknown(text, inputs=tuple(args), tensor=self.stage.output(None, tensors) if tensors else None)

    def _leaf(self, value: Any) -> Any:
        """What gradients are asked of: a parameter of a model's, where it is a part of one; else an input.

        An input is known in the next run, by whom it is given to.
        """
        if not isinstance(value, Unknown) or value.role is not None:
            return value
        for net in self.stage.knowledge.nets:
            if is_part(value.identity, net):
                return self.stage.parameters(net)[0]
        self.stage.knowledge.learn_leaf(value.identity)
        return value

    def random(self, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """Random numbers in the shape of a tensor that is in sight; data of a program's own shape are not made."""
        given = [value_of(each) for each in args]
        like = next((each for each in given[:2] if isinstance(each, torch.Tensor) and each.ndim), None)
        shapes = (each for each in [kwargs.get("size"), *given] if isinstance(each, torch.Size))
        size: Sequence[Any] | None = next(shapes, None)
        if size is None and any(each.star == "*" for each in site.call.args):
            size = given
        if size is None and like is not None:
            size = like.shape
        if not size or not all(type(each) is int and each > 0 for each in size) or math.prod(size) > _MOST_RANDOM:
            return self.unseen(site, [*args, *kwargs.values()], None)
        found = self._noise(size, _deviation(name, given if name == "normal" else ()))
        return found if like is None else found.to(like.dtype)

    @staticmethod
    def _noise(shape: Sequence[int], deviation: float) -> torch.Tensor:
        """Normal numbers, the same ones whatever dtype they are wanted in."""
        return torch.randn(tuple(shape)) * deviation

    def adding(self, to: Any, what: Any) -> None:
        """Let it be heard that a tensor is added to another in place."""
        if isinstance(to, torch.Tensor) and isinstance(what, torch.Tensor) and to.numel() == what.numel():
            self.stage.adding(to, what.detach())

    def _exponentiated(self, value: Any) -> None:
        """Let it be known that a value is exponentiated, where gradients go through that."""
        if isinstance(value, torch.Tensor) and torch.is_grad_enabled():
            self.stage.exponentiated(value)

    def allowed(self, base: Any, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """A method of a tensor, a container or a region, with arguments that are in sight."""
        args = [value_of(each) for each in args]
        known = [each for each in args if not isinstance(each, Unknown)]
        if isinstance(base, (torch.autocast,)) and name == "__exit__":
            return self.event(site, lambda: base.__exit__(None, None, None))
        if isinstance(base, (dict, list)):
            if len(base) > 10_000:
                raise CannotFollow(f"{site.where}: a container grows without end")
            if name == "pop" and not base:
                return Unknown(site.text)
            try:
                found = getattr(base, name)(*args, **kwargs)
                return [*found] if name in ("items", "keys", "values") else found
            except (TypeError, KeyError, IndexError, ValueError):
                return Unknown(site.text)
        if name in ("exp", "exp_"):
            self._exponentiated(base)
        named = _placed_here(kwargs)
        if isinstance(base, torch.nn.Parameter) and name == "requires_grad_" and False in (args or named.values()):
            if not self.stage.may_freeze(base) or _is_chosen(site.call):
                return base
            self.stage.has_frozen = True
        if isinstance(base, torch.Tensor) and name in _FILLS:
            return base.copy_(self._noise(base.shape, _deviation(name, [*args, *kwargs.values()])))
        if name in ("add_", "sub_") and args:
            alpha = named.get("alpha", 1)
            self.adding(base, args[0] * alpha if isinstance(args[0], torch.Tensor) else args[0])
        if isinstance(base, torch.Tensor) and name in _MOVES:
            known = [each for each in known if not isinstance(each, (str, torch.device))]
            if name != "to" or not (known or named):
                return base
        elif isinstance(base, torch.Tensor) and len(known) < len(args):
            return base * 1.0 if not name.endswith("_") else base
        if site.event is not None and site.event.kind != "opaque":
            return self.event(site, lambda: getattr(base, name)(*known, **named))
        try:
            return getattr(base, name)(*known, **named)
        except (TypeError, ValueError, RuntimeError, IndexError, OverflowError):
            return Unknown(site.text, inputs=(base,), tensor=base if isinstance(base, torch.Tensor) else None)


def _is_chosen(call: ir.Call) -> bool:
    """Whether a call is made for some of the parameters that a loop goes through, by a condition in it."""
    loop = loop_of(call)
    return loop is not None and any(loop in upwards(each) for each in ifs_round(call))


def _deviation(name: str, given: Sequence[Any]) -> float:
    """The standard deviation that random numbers are asked for with, behind their mean; 1 where it is out of sight."""
    numbers = [each for each in given if isinstance(each, (int, float, Unknown))]
    known = numbers[1] if name.startswith("normal") and len(numbers) > 1 else 1.0
    return float(known) if isinstance(known, (int, float)) else 1.0


@functools.cache
def _options(optimizer: str) -> list[str]:
    """The arguments of the constructor of one of torch's optimizers, beside its parameters."""
    return [each for each in inspect.signature(getattr(torch.optim, optimizer)).parameters if each != "params"]


def _placed_here(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments that torch can be given; everything is where the bench has it."""
    return {key: each for key, each in kwargs.items() if is_simple(each) and key not in ("device", "non_blocking")}


def _is_number(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_number, value))
    return isinstance(value, (bool, int, float)) and math.isfinite(value) and abs(value) < 1e6


def _owner(site: Site) -> str:
    """What the object is called that a method makes something for; empty outside of methods."""
    function = site.frame.function
    own = (
        (site.frame.variables | site.frame.given).get(function.params[0].name) if function and function.params else None
    )
    return own.text if isinstance(own, Instance) else ""
