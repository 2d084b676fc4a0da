"""Python's builtins, as far as an interpreted program may call them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch

from amplint.verify.interpreter.arithmetic import Arithmetic
from amplint.verify.interpreter.assignments import LoopItems
from amplint.verify.interpreter.evaluate import Truth
from amplint.verify.interpreter.lookup import Lookup
from amplint.verify.interpreter.roles import Roles
from amplint.verify.interpreter.run_state import RunState
from amplint.verify.interpreter.standins import (
    ClassValue,
    Closure,
    Count,
    Counted,
    Dotted,
    Guessed,
    Instance,
    Partial,
    Site,
    Unknown,
    computed,
    is_measured,
    measured,
)

_TYPES: dict[str, type | tuple[type, ...]] = {
    "torch.Tensor": torch.Tensor,
    "torch.nn.Parameter": torch.nn.Parameter,
    "torch.nn.parameter.Parameter": torch.nn.Parameter,
    "torch.optim.Optimizer": torch.optim.Optimizer,
    "torch.amp.GradScaler": torch.amp.GradScaler,
    "torch.cuda.amp.GradScaler": torch.amp.GradScaler,
    "builtins.list": (list, Counted),
    "builtins.tuple": tuple,
    "builtins.dict": dict,
    "builtins.int": int,
    "builtins.float": float,
    "builtins.bool": bool,
    "builtins.str": str,
}
# Where programs look for what a release of torch has.
_NAMESPACES = {"torch": set(dir(torch)), "torch.amp": set(dir(torch.amp)), "torch.cuda.amp": set(dir(torch.cuda.amp))}
_MOST = 10_000  # numbers of a range


@dataclass(frozen=True)
class Builtins:
    """Calls builtins, by these parts."""

    state: RunState
    truth: Truth
    roles: Roles
    items: LoopItems
    arithmetic: Arithmetic
    lookup: Lookup

    def call(self, name: str, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        """What one of `BUILTINS` returns."""
        found = BUILTINS[name](self, args, kwargs, site)
        return Unknown(site.text, inputs=tuple(args)) if found is NotImplemented else found


# --- what each does; `NotImplemented`: the result is out of sight


def _len(parts: Builtins, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
    found = args[0] if args else None
    if isinstance(found, Counted):
        return len(found.items)
    if isinstance(found, Guessed):
        return measured(len(found))
    if isinstance(found, (list, tuple, dict, str)):
        return len(found)
    if not isinstance(found, Unknown) or found.tensor is not None or found.batch:
        return NotImplemented
    return Count(parts.state.iterations)


def _range(parts: Builtins, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
    bounds: list[int] = []
    whole = True
    for at, each in enumerate(args):
        if isinstance(each, Unknown) and each.text in parts.state.facts.periods:
            bounds.append(parts.state.facts.number(each, matters=True))
        elif isinstance(each, (int, float)):
            bounds.append(int(max(-_MOST, min(_MOST, each))))
        else:
            starts = len(args) > 1 and at == 0
            bounds.append((0 if starts else parts.state.iterations + (bounds[0] if bounds else 0)) if at < 2 else 1)
            whole = False
    if not bounds or len(bounds) > 3 or 0 in bounds[2:]:
        return NotImplemented
    return Counted([*range(*bounds)], whole)


def _enumerate(parts: Builtins, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
    start = next((each for each in [*args[1:], *kwargs.values()] if isinstance(each, int)), 0)
    of = parts.items.of(args[0], site.frame, site.call)
    return Counted([(start + at, each) for at, each in enumerate(of.items)], of.whole)


def _zip(parts: Builtins, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
    of = [parts.items.of(each, site.frame, site.call) for each in args]
    return Counted([*zip(*(each.items for each in of), strict=False)], bool(of) and all(each.whole for each in of))


def _list(parts: Builtins, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
    if not args:
        return []
    if isinstance(args[0], Unknown):
        return args[0]
    return parts.items.of(args[0], site.frame, site.call).items


def _tuple(parts: Builtins, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
    found = _list(parts, args, kwargs, site)
    return tuple(found) if isinstance(found, list) else found


def _dict(parts: Builtins, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
    if args and not isinstance(args[0], dict):
        return NotImplemented
    return {**(args[0] if args else {}), **kwargs}


def _number(kind: Callable[[Any], Any]) -> Callable[..., Any]:
    def convert(parts: Builtins, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        if len(args) != 1:
            return NotImplemented
        if isinstance(args[0], Unknown):
            return args[0]
        if isinstance(args[0], (bool, int, float, str, torch.Tensor)):
            try:
                found = kind(args[0])
                if kind is bool:
                    return parts.arithmetic.asked(args[0], site.text) if is_measured(args[0]) else found
                return computed(found, args)
            except (ValueError, OverflowError, RuntimeError):
                return NotImplemented
        return NotImplemented

    return convert


def _sum(parts: Builtins, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
    if not args or isinstance(args[0], Unknown):
        return NotImplemented
    total: Any = args[1] if len(args) > 1 else 0
    for each in parts.items.of(args[0], site.frame, site.call).items:
        total = parts.arithmetic.binary("Add", total, each, site.text)
    return total


def _extreme(kind: Callable[..., Any]) -> Callable[..., Any]:
    def extreme(parts: Builtins, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        given = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        known = all(isinstance(each, (int, float)) for each in given)
        return computed(kind(given), given) if given and known else NotImplemented

    return extreme


def _of_all(kind: Callable[[list[bool]], bool]) -> Callable[..., Any]:
    def test(parts: Builtins, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
        if len(args) != 1 or not isinstance(args[0], (list, tuple)):
            return NotImplemented
        items = [parts.arithmetic.asked(each, f"{site.text} of item {at}") for at, each in enumerate(args[0], 1)]
        if not any(isinstance(each, Unknown) for each in items):
            return kind([parts.truth.of(each, matters=False) for each in items])
        if any(isinstance(each, Unknown) and each.test is None for each in items):
            return NotImplemented
        return Unknown(
            site.text,
            inputs=(*items,),
            test=lambda matters: kind([parts.truth.of(each, matters=matters) for each in items]),
        )

    return test


def _isinstance(parts: Builtins, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
    if len(args) != 2 or isinstance(args[0], Unknown):
        return NotImplemented
    kinds = args[1] if isinstance(args[1], (list, tuple)) else [args[1]]
    if isinstance(args[0], Instance):
        named = {each.cls.name for each in kinds if isinstance(each, ClassValue)}
        return args[0].cls.cls.name in named if named else NotImplemented
    known = [_TYPES.get(each.name) for each in kinds if isinstance(each, Dotted)]
    if len(known) < len(kinds) or None in known:
        return NotImplemented
    return any(isinstance(args[0], each) for each in known if each is not None)


def _getattr(parts: Builtins, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
    if len(args) < 2:
        return NotImplemented
    if not isinstance(args[1], str):
        code = site.code
        names = tuple(dict.fromkeys(each.key for each in code.tables.entries(code, site.call)))
        if not names:
            return NotImplemented
        matters = any(map(code.function_matters, code.callers.in_tables(code, site.call)))
        name = parts.state.facts.choices.ask(f"{site.text} is", names, matters=matters)
        return parts.lookup.attribute(args[0], name, site.call, site.frame)
    return parts.lookup.attribute(args[0], args[1], site.call, site.frame)


def _hasattr(parts: Builtins, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
    if len(args) == 2 and isinstance(args[0], Dotted) and args[0].name in _NAMESPACES:
        return args[1] in _NAMESPACES[args[0].name]
    if len(args) == 2 and isinstance(args[0], Instance) and isinstance(args[1], str):
        return True if args[1] in args[0].attributes else NotImplemented
    return NotImplemented


def _setattr(parts: Builtins, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
    if len(args) == 3 and isinstance(args[0], Instance) and isinstance(args[1], str):
        args[0].attributes[args[1]] = args[2]
    return None


def _id(parts: Builtins, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
    return (
        id(parts.roles.tool(site.call.positional[0], args[0], site.frame)) if site.call.positional else NotImplemented
    )


def _callable(parts: Builtins, args: list[Any], kwargs: dict[str, Any], site: Site) -> Any:
    return True if args and isinstance(args[0], (Closure, ClassValue, Partial)) else NotImplemented


BUILTINS: dict[str, Callable[..., Any]] = {
    "builtins.len": _len,
    "builtins.range": _range,
    "builtins.enumerate": _enumerate,
    "builtins.zip": _zip,
    "builtins.list": _list,
    "builtins.set": _list,
    "builtins.sorted": _list,
    "builtins.iter": _list,
    "builtins.reversed": _list,
    "builtins.filter": lambda parts, args, kwargs, site: args[1] if len(args) == 2 else NotImplemented,
    "itertools.chain": lambda parts, args, kwargs, site: [
        item for each in args for item in (each if isinstance(each, (list, tuple)) else [each])
    ],
    "builtins.tuple": _tuple,
    "builtins.dict": _dict,
    "builtins.int": _number(int),
    "builtins.float": _number(float),
    "builtins.bool": _number(bool),
    "builtins.abs": _number(abs),
    "builtins.sum": _sum,
    "builtins.min": _extreme(min),
    "builtins.max": _extreme(max),
    "builtins.any": _of_all(any),
    "builtins.all": _of_all(all),
    "builtins.isinstance": _isinstance,
    "builtins.getattr": _getattr,
    "builtins.hasattr": _hasattr,
    "builtins.setattr": _setattr,
    "builtins.id": _id,
    "builtins.callable": _callable,
    "builtins.print": lambda parts, args, kwargs, site: None,
    "contextlib.ExitStack": lambda parts, args, kwargs, site: ExitStack(),
}
