"""Which arguments of a call the parameters of what it runs are given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from amplint.model.syntax import ir


def given_to(
    params: Iterable[ir.Param], values: Sequence[ir.Value], args: Iterable[ir.Arg]
) -> dict[str, ir.Value | None]:
    """What each parameter is given by position or by keyword, else its default: nothing of what is unpacked.

    `values`: what is given by position, of which those too many are left out.
    """
    params = list(params)
    found: dict[str, ir.Value | None] = {param.name: param.default for param in params if not is_pack(param)}
    positional = (param.name for param in params if param.kind == "positional")
    found.update(zip(positional, values, strict=False))
    found.update((arg.keyword, arg.value) for arg in args if arg.keyword is not None and arg.keyword in found)
    return found


def is_pack(param: ir.Param) -> bool:
    """Whether a parameter takes what is left: `*args`, `**kwargs`."""
    return param.kind in ("*", "**")
