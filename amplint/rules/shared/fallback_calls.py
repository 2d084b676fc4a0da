"""Calls of autocast that only run where the same call with a device has failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.syntax import ir
from amplint.model.syntax.nesting import upwards

if TYPE_CHECKING:
    from amplint.model import Module


def is_after_the_right_call(module: Module, call: ir.Call) -> bool:
    """Whether a call is only reached where the same call with `device_type` has failed: in a handler of its `try`."""
    blocks = [each.block for each in upwards(ir.statement_of(call))]
    return any(
        isinstance(block.owner, ir.Try)
        and any(handler.body is block for handler in block.owner.handlers)
        and any(
            _gives_device(each) and module.names.of(each.func) == module.names.of(call.func)
            for each in ir.calls_below(block.owner.body)
        )
        for block in blocks
    )


def _gives_device(call: ir.Call) -> bool:
    """Whether a call gives a device by its keyword, or a literal one in the first place."""
    first = call.positional[0] if call.positional else None
    return call.keyword("device_type") is not None or (isinstance(first, ir.Constant) and isinstance(first.value, str))
