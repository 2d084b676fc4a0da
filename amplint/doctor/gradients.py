"""Why an optimizer has no gradients when it steps. The surest answer is looked for first; each is a fact."""

from __future__ import annotations

import gc
import inspect
import weakref
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType, FunctionType
from typing import Any, NamedTuple

import torch

from amplint.doctor.findings import Cause, Evidence, Finding, Place
from amplint.doctor.places import spoken
from amplint.doctor.units import Unit
from amplint.verify.bench.instrument import gradient

_WRAPPED = ("_orig_mod", "module")  # what wrappers call the module in them
_SHOWN = 3  # names of parameters that a message shows


class Without(NamedTuple):
    """An optimizer that steps without gradients.

    Attributes:
        parameters: Its parameters.
        unit: What has happened to their gradients.
        models: Modules that have run, the outermost ones.
        dropped: Where gradients of tensors that are no parameters of these modules were set to None last.
        backwards: How many backward passes the run has had since the last step of this optimizer.
        had_some: Whether an earlier step of this optimizer had gradients.
    """

    parameters: list[torch.Tensor]
    unit: Unit
    models: list[torch.nn.Module]
    made: Place | None
    stepped: Place | None
    backwards: int
    step: int
    had_some: bool = False


def is_without(optimizer: Any) -> bool:
    """Whether no parameter of an optimizer has a gradient."""
    return not any(gradient(each) is not None for each in parameters_of(optimizer))


def parameters_of(optimizer: Any) -> Iterator[torch.Tensor]:
    """The tensors that an optimizer steps."""
    for group in getattr(optimizer, "param_groups", []):
        yield from (each for each in group["params"] if isinstance(each, torch.Tensor))


def modules_of(function: Any) -> list[torch.nn.Module]:
    """The modules that a function calls, as far as its code names them: of its closure, attributes of `self`."""
    if isinstance(function, torch.nn.Module):
        return [function]
    plain = getattr(function, "func", function)  # of a partial
    code = getattr(plain, "__code__", None)
    if code is None:
        return []
    held = [*getattr(function, "args", ())]
    if isinstance(plain, FunctionType):
        held += inspect.getclosurevars(plain).nonlocals.values()
    owners = [getattr(plain, "__self__", None), *(each for each in held if _has_any(each, code.co_names))]
    held = [each for each in held if each not in owners]
    held += [getattr(owner, name, None) for owner in owners if owner is not None for name in code.co_names]
    return [each for each in held if isinstance(each, torch.nn.Module)]


def _has_any(value: Any, names: Iterable[str]) -> bool:
    """Whether a module has modules of these names, so that only those of it may be called."""
    return isinstance(value, torch.nn.Module) and any(name in value._modules for name in names)


def why_none(case: Without) -> Finding:
    """The finding: why none of an optimizer's parameters has a gradient at its step."""
    return _finding(case, *(_known(case) or _unreached(case)))


def is_unreached(case: Without) -> bool:
    """Whether nothing is known but that the loss doesn't reach them: the graph may be cut."""
    return _known(case) is None


def why_cut(case: Without, what: str, place: Place | None) -> Finding:
    """The finding where `what`, such as "detach", cuts the graph at a line."""
    message, _, advice = _unreached(case)
    return _finding(case, f"{message}: `{what}` cuts the graph", place, advice)


def left_over(
    stepped: Iterable[torch.Tensor], models: Iterable[torch.nn.Module], frames: Iterable[FrameType]
) -> list[torch.Tensor]:
    """Those of the tensors that an optimizer steps that get no gradient, and that nothing but it holds any more."""
    own = {id(each) for model in models for each in model.parameters()}
    idle = [each for each in stepped if each.requires_grad and gradient(each) is None and id(each) not in own]
    held = {id(value) for frame in frames for value in frame.f_locals.values()} if idle else set()
    for holder in gc.get_referrers(*idle) if idle else ():  # modules, objects and functions have them by name
        if isinstance(holder, dict):
            held |= {id(value) for name, value in holder.items() if isinstance(name, str)}
    return [each for each in idle if id(each) not in held]


def of_replaced(left: Sequence[torch.Tensor], new: Sequence[str], made: Place | None) -> Finding:
    """The finding on an optimizer that steps what the model has no more, and has not what took its place."""
    names = f"{', '.join(sorted(new)[:_SHOWN])}{', ...' if len(new) > _SHOWN else ''}"
    return Finding(
        Cause.NO_GRADIENTS,
        Evidence.SEEN,
        f"{len(left)} of the optimizer's tensors belong to no model any more and get no gradient, and no optimizer "
        f"steps {len(new)} parameters of the model that get gradients ({names}): they were replaced after it was made",
        made,
        advice="make the optimizer after layers are replaced or reparametrized",
    )


def _known(case: Without) -> _Answer:
    return _shared(case) or _frozen(case) or _not_the_models(case) or _cleared(case) or _no_backward(case)


def _finding(case: Without, message: str, place: Place | None, advice: str) -> Finding:
    number = len(case.parameters)
    have = (
        "the optimizer's only tensor has no gradient"
        if number == 1
        else f"none of the optimizer's {number} tensors has a gradient"
    )
    return Finding(
        Cause.NO_GRADIENTS,
        Evidence.SEEN,
        f"{have}: {message}",
        place or case.stepped,
        code="AMP407",
        step=case.step,
        details=tuple(_where(case)),
        advice=advice,
    )


def _where(case: Without) -> Iterator[str]:
    if case.made is not None:
        yield f"the optimizer was created at {spoken(case.made)}"
    if case.stepped is not None:
        yield f"it was stepped at {spoken(case.stepped)}"


_Answer = tuple[str, Place | None, str] | None


def _shared(case: Without) -> _Answer:
    """They share memory with parameters that have gradients: a flat buffer, or views."""
    storages = {_storage(each) for each in case.parameters}
    own = {id(each) for each in case.parameters}
    others = [
        each
        for model in case.models
        for each in model.parameters()
        if id(each) not in own and _storage(each) in storages and _storage(each) != 0
    ]
    if not others:
        return None
    having = sum(gradient(each) is not None for each in others)
    tensors = "the tensor shares" if len(case.parameters) == 1 else "the tensors share"
    where = "those" if having == len(others) else f"{having or 'none'} of those"
    text = f"{tensors} memory with {len(others)} parameters of the model, and the gradients are in {where}"
    if case.unit.cleared_by_zero_grad is not None:
        place = case.unit.cleared_by_zero_grad
        return (
            f"{text}; `zero_grad()` has set the optimizer's own `.grad` to None",
            place,
            "call `zero_grad(set_to_none=False)`",
        )
    return text, None, "give the optimizer the model's own parameters, or point their `.grad` into the flat gradient"


def _frozen(case: Without) -> _Answer:
    if any(each.requires_grad for each in case.parameters):
        return None
    if case.had_some or case.made is None:
        return "all have `requires_grad=False`", None, "unfreeze them, or don't step this optimizer"
    trained = sum(each.requires_grad for model in case.models for each in model.parameters())
    others = f", and it has none of the {trained} parameters that are trained" if trained else ""
    return (
        f"all have `requires_grad=False`{others}",
        case.made,
        "make the optimizer from the parameters that are trained, after layers are frozen, added or replaced",
    )


def _not_the_models(case: Without) -> _Answer:
    """They are parameters of no model that has run, as after a copy."""
    if not case.models:
        return None
    own = {id(each) for model in case.models for each in model.parameters()}
    trained = [each for each in case.parameters if each.requires_grad]
    if not own or any(id(each) in own for each in trained):
        return None
    is_for_it = any(id(each) in own for each in case.parameters)  # frozen ones: it was made for this model
    if any(not each.is_leaf for each in trained) or (case.unit.backwards and not is_for_it):
        return None
    similar = {tuple(each.shape) for model in case.models for each in model.parameters()}
    is_copy = all(tuple(each.shape) in similar for each in trained)
    what = "they look like a copy of its parameters" if is_copy else "they belong to no model that has run"
    who = "they are" if len(trained) == len(case.parameters) else "those that are not frozen are"
    return (
        f"{who} not the parameters of the model that runs; {what}",
        case.made,
        "make the optimizer from the parameters of the model that is trained, after it is moved, copied or wrapped",
    )


def _cleared(case: Without) -> _Answer:
    if case.unit.cleared is None:
        return None
    return (
        "they were cleared after the backward pass and before the step",
        case.unit.cleared,
        "clear the gradients after the step, or before the backward pass",
    )


def _no_backward(case: Without) -> _Answer:
    if case.backwards:
        return None
    return "no backward pass has run since its last step", None, "call `backward()` before the step, or skip the step"


def _unreached(case: Without) -> tuple[str, Place | None, str]:
    own = {id(each) for each in case.parameters}
    names = {id(each): name for model in case.models for name, each in model.named_parameters()}
    have = sum(
        gradient(each) is not None for model in case.models for each in model.parameters() if id(each) not in own
    )
    mine = [names[key] for key in own if key in names]
    named = f" ({', '.join(sorted(mine)[:_SHOWN])}{', ...' if len(mine) > _SHOWN else ''})" if mine else ""
    others = f"; {have} other parameters have theirs" if have else ""
    return (
        f"no gradient reaches them{named}{others}",
        None,
        "look for `.detach()`, `torch.no_grad()` or `.data` between these parameters and the loss",
    )


def _storage(tensor: torch.Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # a tensor without memory of its own
        return 0


class Models:
    """The outermost modules that have run, as long as they are there."""

    def __init__(self) -> None:
        self._known: dict[int, weakref.ref[torch.nn.Module]] = {}

    def add(self, module: torch.nn.Module) -> None:
        """Remember a module."""
        if id(module) not in self._known:
            self._known[id(module)] = weakref.ref(module)

    def alive(self) -> list[torch.nn.Module]:
        """Those that are still there, in the order in which they ran first."""
        return [module for reference in self._known.values() if (module := reference()) is not None]


def named(models: Iterable[torch.nn.Module]) -> dict[torch.nn.Module, str]:
    """The dotted names of all modules in these models."""
    names: dict[torch.nn.Module, str] = {}
    for model in models:
        for name, module in model.named_modules():
            names.setdefault(module, ".".join(part for part in name.split(".") if part not in _WRAPPED))
    return names
