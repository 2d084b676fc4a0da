"""What functions and methods of tensors, models and Python's containers make of values in sight."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from amplint.model.syntax import ir
from amplint.model.syntax.nesting import ifs_round, loop_of, upwards
from amplint.verify.interpreter.allowed_calls import MODULES, SAME_METHODS
from amplint.verify.interpreter.amp_calls import BOUND, AmpEvents
from amplint.verify.interpreter.arithmetic import Arithmetic
from amplint.verify.interpreter.assumptions import Facts
from amplint.verify.interpreter.standins import (
    CannotFollow,
    Instance,
    Site,
    Unknown,
    computed,
    has_finite,
    is_of_gradients,
    is_output,
    is_simple,
    lasting,
    tensors_in,
    text_of,
    value_of,
)
from amplint.verify.interpreter.unseen_calls import UnseenCalls
from amplint.verify.interpreter.world import Stage
from amplint.verify.program.program import TOOLS

_MOVES = ("to", "cpu", "cuda", "xpu", "npu")
RANDOM = {f"torch.{name}" for name in ("randn_like", "rand_like", "randn", "rand", "normal")}
_SIZES = ("nelement", "numel", "size")
_CLAMPS = ("clamp", "clamp_", "clip", "clip_")
_FILLS = ("normal_", "uniform_")
_MOST_RANDOM = 1 << 14  # numbers
_LARGEST = 10_000  # items of a container
# What asks of numbers whether they are finite, here and in other libraries.
FINITE = ("isnan", "isinf", "isfinite")
HAVE_FINITE = ("torch", "math", "cmath", "numpy")
# Methods that are as true as the truths of which they are.
SAME_TRUTH = {
    "all",
    "any",
    "bool",
    "clone",
    "cpu",
    "cuda",
    "detach",
    "float",
    "int",
    "item",
    "max",
    "numpy",
    "sum",
    "to",
}
SAME_TRUTHS = {f"{of}.{name}" for of in ("torch", "numpy") for name in ("all", "any", "max", "sum", "asarray")}
_COMPARE = (torch.allclose,)
_SHAPES = ("dim", "size", "numel", "nelement", "data_ptr")
_WRAPPED = re.compile(r"(?:float|abs)\((.+)\)|(.+)\.(?:item|detach|cpu|float|numpy|abs|sum|mean|max)\(\)|(.+)\.data")
_CASTS = {torch.float16: "half", torch.float32: "float", torch.float64: "double"}  # what `to` does with a dtype


@dataclass(eq=False)
class TensorCalls:
    """Calls functions and methods that train nothing by themselves."""

    _stage: Stage
    _events: AmpEvents
    _unseen: UnseenCalls
    _facts: Facts
    _arithmetic: Arithmetic

    def is_finite(self, name: str, of: Any, written: str, site: Site) -> Unknown:
        """What one of `FINITE` says of a value: what is infinite or NaN in a run is so, else that is a choice."""
        value = value_of(of)
        found = None
        if isinstance(value, (torch.Tensor, int, float)):
            found = getattr(torch, name)(torch.as_tensor(value))
        text = _stripped(of.text if isinstance(of, Unknown) else written)
        positive = name == "isfinite"
        # An overflow of gradients may be inf or NaN: who asks for one of them is told of it in the run that has one.
        holds = None if found is None or has_finite(value) else bool(found.all()) if positive else True
        if holds is None and is_of_gradients(value):
            holds = positive

        def test(matters: bool) -> bool:
            return self._facts.is_finite(text, matters=matters) is positive if holds is None else holds

        return Unknown(site.text, inputs=(of,), tensor=found, test=test)

    def same_truth(self, of: Unknown, tensor: torch.Tensor | None, site: Site) -> Unknown:
        """What is as true as a value out of sight: whether anything in it is, or all of it, or it as a number."""
        return Unknown(site.text, inputs=(of,), tensor=tensor, test=of.test)

    def random(self, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """Random numbers in the shape of a tensor that is in sight; data of a program's own shape are not made."""
        given = [value_of(each) for each in args]
        like = next((each for each in given[:2] if isinstance(each, torch.Tensor) and each.ndim), None)
        size = _size(given, kwargs, like, unpacks=any(each.star == "*" for each in site.call.args))
        if not size or not all(type(each) is int and each > 0 for each in size) or math.prod(size) > _MOST_RANDOM:
            return self._unseen.value(site, [*args, *kwargs.values()], None)
        found = _noise(size, _deviation(name, given if name == "normal" else ()))
        return found if like is None else found.to(like.dtype)

    def adding(self, to: Any, what: Any) -> None:
        """Let it be heard that a tensor is added to another in place."""
        if isinstance(to, torch.Tensor) and isinstance(what, torch.Tensor) and to.numel() == what.numel():
            self._stage.adding(to, what.detach())

    def _exponentiated(self, value: Any) -> None:
        """Let it be known that a value is exponentiated, where gradients go through that."""
        if isinstance(value, torch.Tensor) and torch.is_grad_enabled():
            self._stage.exponentiated(value)

    def function(self, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """A function of tensors; where it is given what is out of sight, something like its result."""
        known = [
            [value_of(item) for item in each] if isinstance(each, (list, tuple)) else value_of(each) for each in args
        ]
        if not any(map(_is_out_of_sight, known)):
            if function is torch.exp:
                self._exponentiated(known[0] if known else None)
            try:
                found = function(*known, **_placed_here(kwargs))
            except (TypeError, ValueError, RuntimeError, IndexError, OverflowError):
                pass
            else:
                return self._given(function, found, known, site)
        tensors = list(tensors_in(known))
        tensor = self._stage.output(None, tensors) if tensors else None
        return Unknown(site.text, inputs=tuple(args), tensor=tensor)

    def _given(self, function: Callable[..., Any], found: Any, args: list[Any], site: Site) -> Any:
        """What a function gives of its arguments: a number is a measured one, where those are."""
        if function in _COMPARE:
            return self._arithmetic.of_data(site.text, tuple(args), found)
        return computed(found, [*tensors_in(args), *args])

    def method(self, base: Any, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """A method of a tensor, a container or a region, with arguments that are in sight."""
        args = [value_of(each) for each in args]
        if isinstance(base, torch.autocast) and name == "__exit__":
            return self._events.run(site, lambda: base.__exit__(None, None, None))
        if isinstance(base, (dict, list)):
            return _of_container(base, name, args, kwargs, site)
        if isinstance(base, torch.Tensor):
            return self._of_tensor(base, name, args, kwargs, site)
        return self._called(base, name, _in_sight(args), _placed_here(kwargs), site)

    def _of_tensor(self, base: torch.Tensor, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        if name in _SIZES and is_output(base):
            return Unknown(site.text)
        if name in _CLAMPS and site.event is not None and site.event.kind == "clip":
            args, kwargs = [], _bounds(args, kwargs)
        named = _placed_here(kwargs)
        self._hear(base, name, args, named)
        if self._stays_trained(base, name, args or [*named.values()], site.call):
            return base
        if name in _FILLS:
            return base.copy_(_noise(base.shape, _deviation(name, [*args, *kwargs.values()])))
        known = _in_sight(args)
        if name in _MOVES:
            known = [each for each in known if not isinstance(each, (str, torch.device))]
            if name != "to" or not (known or named):
                return base
        elif len(known) < len(args):
            return base * 1.0 if not name.endswith("_") else base
        return self._called(base, name, known, named, site)

    def _hear(self, base: torch.Tensor, name: str, args: list[Any], named: dict[str, Any]) -> None:
        """Let be heard what a method makes of a tensor."""
        if name in ("exp", "exp_"):
            self._exponentiated(base)
        if name in ("add_", "sub_") and args and isinstance(args[0], torch.Tensor):
            self.adding(base, args[0] * named.get("alpha", 1))

    def set_trained(self, parameter: torch.nn.Parameter, value: Any, target: ir.Value) -> None:
        """`parameter.requires_grad = value`."""
        if isinstance(value, bool) and not self._stays_trained(parameter, "requires_grad_", [value], target):
            parameter.requires_grad_(value)

    def _stays_trained(self, base: torch.Tensor, name: str, given: list[Any], call: ir.Value) -> bool:
        """Whether a parameter that is to be frozen is left as it is; one that isn't is remembered."""
        if not isinstance(base, torch.nn.Parameter) or name != "requires_grad_" or False not in given:
            return False
        if not self._stage.may_freeze(base) or _is_chosen(call):
            return True
        if not self._stage.is_apart(base):
            self._stage.has_frozen = True
        return False

    def _called(self, base: Any, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        if site.event is not None and site.event.kind != "opaque":
            return self._events.run(site, lambda: getattr(base, name)(*args, **kwargs))
        try:
            found = getattr(base, name)(*args, **kwargs)
        except (TypeError, ValueError, RuntimeError, IndexError, OverflowError):
            return Unknown(site.text, inputs=(base,), tensor=base if isinstance(base, torch.Tensor) else None)
        if isinstance(base, torch.Tensor) and isinstance(found, bool) and name in ("item", "tolist"):
            return self._arithmetic.of_data(site.text, (base,), found)
        return computed(found, (base, *args)) if isinstance(base, torch.Tensor) and name not in _SHAPES else found


def _bounds(args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The bounds between which gradients are clamped; those of the bench for what is out of sight."""
    given = dict(zip(("min", "max"), args, strict=False)) | kwargs
    return {
        key: (-BOUND if key == "min" else BOUND) if isinstance(each, Unknown) else each for key, each in given.items()
    }


def _of_container(
    base: dict[Any, Any] | list[Any], name: str, args: list[Any], kwargs: dict[str, Any], site: Site
) -> Any:
    if len(base) > _LARGEST:
        raise CannotFollow(f"{site.where}: a container grows without end")
    if name == "pop" and not base:
        return Unknown(site.text)
    try:
        found = getattr(base, name)(*args, **kwargs)
        return [*found] if name in ("items", "keys", "values") else found
    except (TypeError, KeyError, IndexError, ValueError):
        return Unknown(site.text)


def _in_sight(values: list[Any]) -> list[Any]:
    return [each for each in values if not isinstance(each, Unknown)]


def _stripped(text: str) -> str:
    """A value as a program writes it, without what makes a number of it."""
    while found := _WRAPPED.fullmatch(text):
        text = next(filter(None, found.groups()))
    return text


def _is_out_of_sight(value: Any) -> bool:
    """Whether an argument is out of sight, or one of a list is."""
    return isinstance(value, Unknown) or (isinstance(value, list) and any(isinstance(each, Unknown) for each in value))


def _size(
    given: list[Any], kwargs: dict[str, Any], like: torch.Tensor | None, *, unpacks: bool
) -> Sequence[Any] | None:
    """The size that random numbers are asked for with: as one, unpacked, or that of the tensor which they are like."""
    sizes = (each for each in [kwargs.get("size"), *given] if isinstance(each, torch.Size))
    size: Sequence[Any] | None = next(sizes, None)
    if size is None and unpacks:
        return given
    return like.shape if size is None and like is not None else size


def _noise(shape: Sequence[int], deviation: float) -> torch.Tensor:
    """Normal numbers, the same ones whatever dtype they are wanted in."""
    return torch.randn(tuple(shape)) * deviation


def _is_chosen(call: ir.Value) -> bool:
    """Whether a condition in a loop over parameters chooses those for which a call or an assignment is made."""
    loop = loop_of(call)
    return loop is not None and any(loop in upwards(each) for each in ifs_round(call))


def _deviation(name: str, given: Sequence[Any]) -> float:
    """The standard deviation that random numbers are asked for with, behind their mean; 1 where it is out of sight."""
    numbers = [each for each in given if isinstance(each, (int, float, Unknown))]
    known = numbers[1] if name.startswith("normal") and len(numbers) > 1 else 1.0
    return float(known) if isinstance(known, (int, float)) else 1.0


def _placed_here(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments that torch can be given; everything is where the bench has it."""
    return {key: each for key, each in kwargs.items() if is_simple(each) and key not in ("device", "non_blocking")}


@dataclass(eq=False)
class NetCalls:
    """Calls methods of models: of the bench's parts that stand for them."""

    _stage: Stage

    def method(
        self, base: Unknown | Instance, name: str, given: Sequence[Any] = (), call: ir.Call | None = None
    ) -> Any:
        """A method of a model, which is `given` something in a call."""
        net = text_of(base) or ""
        if name in SAME_METHODS:
            self._cast(net, name, given, call)
            return base
        if name in MODULES:  # the first is the model itself
            return [("", base)] if name == "named_modules" else [base]
        parameters = self._stage.parameters(net, lasting(base))
        if name == "zero_grad":
            for each in parameters:
                each.grad = None
            return None
        if name == "named_parameters":
            return [(f"weight{at}", each) for at, each in enumerate(parameters)]
        return parameters

    def _cast(self, net: str, name: str, given: Sequence[Any], call: ir.Call | None) -> None:
        """Cast a model as a method does, or freeze it; a cast that is for some of its modules changes no other."""
        if name == "requires_grad_":
            self._stage.freeze(net, frozen=False in given)
        elif call is None or not _is_chosen(call):
            named = next((_CASTS[each] for each in given if isinstance(each, torch.dtype) and each in _CASTS), name)
            self._stage.convert(net, named if name == "to" else name)

    def of_container(self, base: dict[Any, Any] | list[Any], name: str) -> Any:
        """A method of a ModuleDict or ModuleList."""
        found = [
            self.method(each, name)
            for each in (base.values() if isinstance(base, dict) else base)
            if isinstance(each, (Unknown, Instance))
        ]
        if name in SAME_METHODS or name == "zero_grad":
            return base if name in SAME_METHODS else None
        return [parameter for each in found for parameter in each]

    def holds_tools(self, base: Unknown) -> bool:
        """Whether a container out of sight is one of models, optimizers or scalers: by its name, or as some are asked.

        Then it is a mapping, where a method of one is called.
        """
        made = base.origin is not None and ir.last_name(base.origin.func) == "ModuleDict"
        return made or bool(TOOLS.search(base.text)) or self._stage.has_nets_in(base.identity)
