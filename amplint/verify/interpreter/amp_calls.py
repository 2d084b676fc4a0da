"""What makes regions, scalers and optimizers, and what their methods, backwards and clips do."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from amplint.model.calls.events import CLIP_NAME
from amplint.model.flow.value_uses import mentions_gradients
from amplint.model.inference.dtypes import region_dtypes
from amplint.model.objects.autocast_objects import region_of
from amplint.model.objects.key_parts import is_part
from amplint.model.syntax import ir
from amplint.model.torch_facts.names import AUTOCAST, OLD_AUTOCAST, SCALER
from amplint.verify.bench.bench import runs_out_of_memory
from amplint.verify.interpreter.assumptions import Facts
from amplint.verify.interpreter.evaluate import Truth
from amplint.verify.interpreter.failures import Failures
from amplint.verify.interpreter.functions import Functions
from amplint.verify.interpreter.half_losses import USUAL_START, HalfLosses
from amplint.verify.interpreter.roles import Roles
from amplint.verify.interpreter.run_state import RunRecord
from amplint.verify.interpreter.standins import (
    MISSING,
    CannotFollow,
    Closure,
    Instance,
    Raised,
    Scale,
    Site,
    Unknown,
    is_simple,
    of_gradients,
    value_of,
)
from amplint.verify.interpreter.unscaled_losses import UnscaledLosses
from amplint.verify.interpreter.unseen_calls import UnseenCalls
from amplint.verify.interpreter.unseen_training import UnseenTraining, is_given_tools
from amplint.verify.interpreter.world import LEARNING_RATE, LOWEST_RATE, Stage

_HALF = "unscale FP16 gradients"


@dataclass(eq=False)
class AmpEvents:
    """Runs AMP events: an exception of torch's is the program's, and a warning has the line of its event."""

    _record: RunRecord
    _stage: Stage
    _training: UnseenTraining
    _failures: Failures
    _placed: int = 0  # so many warnings have a line

    def run(self, site: Site, do: Callable[[], Any], *, of_amp: bool = False) -> Any:
        """Do what an AMP event does. `of_amp`: makes a region or scaler."""
        self._record.executed.add(site.call)
        self._record.event = site.where
        self._record.note(site.code, site.call, "")
        kind = site.event.kind if site.event is not None else ""
        self._training.event(kind)
        self._failures.event(kind, site)
        try:
            found = self._do(site, do)
        except (Raised, CannotFollow):
            raise
        except Exception as error:
            if _HALF in str(error) and self._stage.unsure_dtypes:
                of = min(self._stage.unsure_dtypes)
                raise CannotFollow(
                    f"{site.where}: amplint can't see which dtype the trained parameters of {of} have"
                ) from None
            if runs_out_of_memory(error):
                raise CannotFollow(f"{site.where}: the run is out of memory") from None
            raise Raised(str(error), site.where, error, of_amp=of_amp) from None
        self._failures.happened(kind)
        return found

    def _do(self, site: Site, do: Callable[[], Any]) -> Any:
        """Do it; what is warned of in another file is nothing of the file that is verified."""
        if site.code is not site.code.files.main:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return do()
        return self._listening(site, do)

    def _listening(self, site: Site, do: Callable[[], Any]) -> Any:
        """Do what an event does, and remember its line for what torch warns of; not for what is warned of inside."""
        heard = self._record.heard
        self._placed = len(heard)
        try:
            return do()
        finally:
            for each in heard[self._placed :]:
                self._record.warned.setdefault(in_words(each), set()).add(site.row)
            self._placed = len(heard)


def in_words(warning: warnings.WarningMessage) -> str:
    """A warning of torch's, with its category."""
    return f"{warning.category.__name__}: {warning.message}"


@dataclass(eq=False)
class RegionCalls:
    """Makes autocast regions of torch's own."""

    _stage: Stage
    _facts: Facts
    _record: RunRecord
    _truth: Truth
    _events: AmpEvents

    def made(self, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """An autocast region, made."""
        order = (
            ("device_type", "dtype", "enabled", "cache_enabled")
            if name == AUTOCAST
            else ("enabled", "dtype", "cache_enabled")
        )
        given = dict(zip(order, args, strict=False)) | kwargs
        if len(args) == 1 and isinstance(args[0], Closure) and name in OLD_AUTOCAST:
            return args[0]
        for key in sorted(given, key=lambda each: each != "enabled"):  # which may say what the device is
            if not is_simple(given[key]):
                self._settle(given, key, site)
        if isinstance(given.get("enabled"), torch.Tensor):
            given["enabled"] = bool(given["enabled"])
        made: Any = {AUTOCAST: torch.amp.autocast, "torch.cuda.amp.autocast": torch.cuda.amp.autocast}.get(
            name, torch.cpu.amp.autocast_mode.autocast
        )
        count = len(args)
        positional = [given.pop(key) for key in order[:count] if key in given]
        return self._events.run(site, lambda: made(*positional, **given), of_amp=True)

    def _settle(self, given: dict[str, Any], key: str, site: Site) -> None:
        """Give an argument out of sight a value, or leave it out."""
        value = given[key]
        if key == "enabled":
            given[key] = self._truth.of(value, matters=True)
        elif key == "device_type":
            role = value.role if isinstance(value, Unknown) else None
            given[key] = role if isinstance(role, torch.device) else self._stage.device
            devices = self._facts.may_only_be(value) if isinstance(value, Unknown) else []
            if "cpu" in devices and self._facts.compare(value, "Equal", "cpu", matters=True):
                given.setdefault("dtype", torch.bfloat16)  # what a region of the CPU has by itself
        elif key == "dtype":
            self._settle_dtype(given, site)
        else:
            del given[key]
        self._record.note(site.code, site.call, f"{key} is {given.get(key, 'omitted')}")

    def _settle_dtype(self, given: dict[str, Any], site: Site) -> None:
        """Give a region one of the dtypes that the text shows, float16 first; else leave its dtype out."""
        value = given.pop("dtype")
        region = region_of(site.code.module, site.call)
        found = region_dtypes(site.code.module, region) if region is not None else []
        known = [each.name for each in found if each.kind == "dtype" and each.name is not None]
        if "float16" in known or (known and len(known) == len(found)):
            chosen = "float16" if "float16" in known else known[0]
            given["dtype"] = getattr(torch, chosen)
            if len(found) > 1 and isinstance(value, Unknown):
                self._record.assumed[value.text] = chosen
        else:
            if isinstance(value, Unknown) and given.get("device_type") != "cpu":
                self._record.assumed[value.text] = "float16"  # what a region has by itself
            self._stage.unsure_region = self._stage.unsure_region or site.where


@dataclass(eq=False)
class OptimizerCalls:
    """Makes and calls optimizers of torch's own."""

    _stage: Stage
    _functions: Functions
    _roles: Roles
    _events: AmpEvents
    _unseen: UnseenCalls

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
        self._stage.stepped(optimizer)
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
        given = args[0] if args else kwargs["params"]
        if isinstance(given, torch.Tensor) and given.grad_fn is not None:  # lists of stand-ins were added as numbers
            written = site.call.positional[0] if site.call.positional else site.call.keyword("params")
            given = Unknown(site.code.text(written) if isinstance(written, ir.Value) else site.text)
        parameters = [each for each in dict.fromkeys(self._roles.as_parameters(given)) if each.is_leaf]
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


_WITHOUT_DEVICE: dict[str, Any] = {  # classes of scalers that are for one device
    "torch.cuda.amp.GradScaler": torch.cuda.amp.GradScaler,
    "torch.cpu.amp.GradScaler": torch.cpu.amp.grad_scaler.GradScaler,
}
_SHARDED = "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler"
_ASKED = ("get_scale", "is_enabled", "get_growth_factor", "get_backoff_factor", "get_growth_interval")


@dataclass(eq=False)
class ScalerCalls:
    """Makes and calls scalers of torch's own."""

    _stage: Stage
    _record: RunRecord
    _truth: Truth
    _roles: Roles
    _events: AmpEvents
    _optimizers: OptimizerCalls
    _failures: Failures
    _halves: HalfLosses
    _unscaled: UnscaledLosses
    _starts: dict[int, float | None] = field(default_factory=dict)  # by scalers' ids: the program's start scales
    _scaled: list[torch.Tensor] = field(default_factory=list)  # what scalers have scaled

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
            found = self._events.run(site, lambda: scaler.update(*given))
            self._record.open_steps.pop(id(scaler), None)
            return found
        if name == "is_enabled" and self._stage.off:  # the reference goes the way of the program
            return self._stage.enabled.get(id(scaler), True)
        if name == "get_scale":
            return self._scale_of(scaler)
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
        losses = outputs if isinstance(outputs, list) else [outputs]
        self._halves.scaled(scaler, self._starts.get(id(scaler), USUAL_START), losses, site)
        found = self._events.run(site, lambda: scaler.scale(outputs))
        if scaler.is_enabled():
            self._record.scalers.scaled(scaler)
            self._unscaled.scaled(found)
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
        used = self._record.open_steps.setdefault(id(scaler), set())
        unscaled = id(optimizer) in used
        used.add(id(optimizer))
        if name == "unscale_":
            return self._events.run(site, lambda: scaler.unscale_(optimizer))
        closures = [self._optimizers.as_callable(each) for each in args[1:] if isinstance(each, Closure)]
        named = {key: self._optimizers.as_callable(each) for key, each in kwargs.items() if isinstance(each, Closure)}
        with self._failures.inside_step(optimizer, site, unscaled=unscaled):
            return self._optimizers.stepped(site, optimizer, lambda: scaler.step(optimizer, *closures, **named))

    def _scale_of(self, scaler: torch.amp.GradScaler) -> Any:
        """What `get_scale()` returns; that of a scaler which the program has switched off is 1 in training as well."""
        found = scaler.get_scale()
        if not self._stage.enabled.get(id(scaler), True):
            return found
        scale = Scale(found)
        scale.compared = self._stage.knowledge.init_scale if self._stage.off else found
        return scale

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
        if name != _SHARDED and isinstance(given.get("init_scale"), str):
            found["init_scale"] = given["init_scale"]  # a device, which torch takes for the scale
        unknown = set(given) - set(order)
        if "device" in given:
            found["device"] = self._stage.device if isinstance(given["device"], Unknown) else given["device"]
        elif name == _SHARDED:
            found["device"] = self._stage.device
            unknown.discard("process_group")
        found |= {key: given[key] for key in unknown if is_simple(given[key])}  # torch says what it makes of them
        found["enabled"] = self._truth.of(enabled, matters=True)
        made: Any = _WITHOUT_DEVICE.get(name, torch.amp.GradScaler)
        scaler = self._events.run(site, lambda: made(**found), of_amp=True)
        self._stage.enabled[id(scaler)] = found["enabled"]
        start = given.get("init_scale", USUAL_START)
        self._starts[id(scaler)] = start if isinstance(start, (int, float)) else None
        self._record.scalers.made(scaler, (site.call, _owner(site)), lasts=site.frame.lazy)
        return scaler


def _owner(site: Site) -> str:
    """What the object is called that a method makes something for; empty outside of methods."""
    function = site.frame.function
    own = (
        (site.frame.variables | site.frame.given).get(function.params[0].name) if function and function.params else None
    )
    return own.identity if isinstance(own, Instance) else ""


BOUND = 0.1  # of a clip whose own is out of sight: less than a gradient's norm
_BOUNDS = ("max_norm", "clip_value", "value", "clip_factor", "total_norm")  # of the functions that clip


@dataclass(eq=False)
class GradientCalls:
    """Calls what torch does with gradients."""

    _stage: Stage
    _record: RunRecord
    _roles: Roles
    _events: AmpEvents
    _training: UnseenTraining
    _scalers: ScalerCalls
    _unscaled: UnscaledLosses

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
        return of_gradients(self._events.run(site, lambda: torch.nn.utils.clip_grad_norm_(parameters, bound, order)))

    def named_clip(self, owner: Any, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """What a call out of sight does that goes by the name of a clip: it is taken for one; else `MISSING`.

        It clips the parameters that it is given, else those of its `owner`; what is given a scaler or an optimizer may
        unscale by itself.
        """
        name = ir.last_name(site.call.func)
        if not CLIP_NAME.fullmatch(name) or is_given_tools(site, [*args, *kwargs.values()]):
            return MISSING
        named = [kwargs[key] for key in ("parameters", "params", "model") if key in kwargs]
        first = next((each for each in [*named, *args[:1], owner] if self._stage.is_weights(each)), None)
        if first is None:
            return MISSING
        self._record.note(site.code, site.call, "taken for a clip, by its name")
        rest = [each for each in args if each is not first]
        return self.clip(name, [first, *rest], {key: each for key, each in kwargs.items() if key in _BOUNDS}, site)

    def _bound(self, given: list[Any], site: Site) -> float:
        """The first bound that a clip is given; one of the bench's where that is out of sight."""
        bound = next((each for each in given if each is not None), None)
        bound = bound.item() if isinstance(bound, torch.Tensor) and bound.numel() == 1 else bound
        if isinstance(bound, (int, float)):
            return bound
        self._record.note(site.code, site.call, f"the bound is {BOUND}")
        return BOUND

    def backward(self, roots: list[Any], site: Site, start: ir.Value | None = None) -> Any:
        """The backward of losses; `start` are the gradients that it starts from.

        Raises:
            CannotFollow: these come of another backward, with its scale or without.
        """
        if start is not None and mentions_gradients(site.code.module, start):
            raise CannotFollow(f"{site.where}: amplint can't see the gradients that a backward starts from")
        for each in roots:
            self._stage.used(each)
        if start is None:
            self._unscaled.differentiated(roots, site)
        self._stage.clear_used()
        self._stage.went_back(roots)
        # The graph is kept: two losses that come from one unseen call have one graph here, and two of their own there.
        return self._events.run(site, lambda: torch.autograd.backward(roots, retain_graph=True))

    def grad(self, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """`torch.autograd.grad`."""
        outputs = args[0] if args else kwargs.get("outputs")
        inputs = args[1] if len(args) > 1 else kwargs.get("inputs")
        starts = kwargs.get("grad_outputs", args[2] if len(args) > 2 else None)
        again = kwargs.get("create_graph") is True
        keeps_graph = kwargs.get("create_graph", args[4] if len(args) > 4 else False) is not False
        roots, leaves = _values(outputs), [self._leaf(each) for each in _values(inputs)]
        if starts is None:
            if not again:
                roots = [self._roles.as_loss(each, site) if isinstance(each, Unknown) else each for each in roots]
            self._unscaled.penalized([each for each in roots if isinstance(each, torch.Tensor)], site, again=again)
        if all(isinstance(each, torch.Tensor) for each in [*roots, *leaves]):
            with contextlib.suppress(RuntimeError):
                found = torch.autograd.grad(
                    roots, leaves, _starts(starts, roots), create_graph=True, retain_graph=True, allow_unused=True
                )
                # That of the bench doesn't hang on them all, that of the program does.
                found = tuple(each if each is None or keeps_graph else each.detach() for each in found)
                return tuple(Unknown(site.text) if each is None else each for each in found)
        if again and any(map(self._scalers.has_scaled, roots)):
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
