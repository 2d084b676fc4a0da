"""An event of AMP: what a call does to a scaler, to gradients or to an optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from amplint.model.syntax import ir


class Event(NamedTuple):
    """One event. `kind`:

    scale, unscale_, step, update (a scaler's), backward, optimizer_step, zero_grad, clip (`how`: the function,
    "measure" where its bound is infinity, "clamp" or "norm" where it is written by hand), read (of the gradients' size;
    `how`: "read", or "change" where they are changed by what has no scale), opaque (a call that can't be seen
    and may do any of these).
    """

    kind: str
    call: ir.Value
    scaler: str | None = None
    optimizer: str | None = None
    subject: ir.Value | None = None  # the tensor of scale and backward; what clip works on
    how: str = ""
