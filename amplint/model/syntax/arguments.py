"""Which arguments of a call the parameters of what it runs are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from amplint.model.syntax import ir
from amplint.model.torch_facts.signatures import SIGNATURES

T = TypeVar("T")


def argument(call: ir.Call, function: str, name: str) -> ir.Value | None:
    """What a call of a function of torch's gives for a parameter; None for nothing, as far as it is in sight.

    Args:
        function: its qualified name, one of `SIGNATURES`; the call may name it otherwise.
        name: the parameter's.
    """
    return arguments(call, function).get(name)


def arguments(call: ir.Call, function: str, before: ir.Call | None = None) -> dict[str, ir.Value]:
    """What a call of a function of torch's gives by name, what is unpacked left out.

    `before`: the `functools.partial(function, ...)` that is called.
    """
    positional = (*(before.positional[1:] if before is not None else ()), *call.positional)
    found = dict(zip(SIGNATURES[function], positional, strict=False))
    return found | (before.keywords if before is not None else {}) | call.keywords


def given_to(params: Iterable[ir.Param], positional: Sequence[T], keywords: Mapping[str, T]) -> dict[str, T]:
    """What parameters of a function are given by position or by keyword, those that take what is left aside."""
    named = [param for param in params if param.kind in ("positional", "keyword")]
    places = (param.name for param in named if param.kind == "positional")
    found = dict(zip(places, positional, strict=False))
    return found | {param.name: keywords[param.name] for param in named if param.name in keywords}


def with_defaults(params: Iterable[ir.Param], given: Mapping[str, ir.Value]) -> dict[str, ir.Value | None]:
    """What parameters are given, else their default; None for one without."""
    named = (param for param in params if param.kind in ("positional", "keyword"))
    return {param.name: given.get(param.name, param.default) for param in named}
