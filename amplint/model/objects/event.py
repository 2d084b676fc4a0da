"""An event of AMP: what a call does to a scaler, to gradients or to an optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from amplint.model.syntax import ir

# Calls of a scaler by the names of its methods. "read" is of the gradients' size; "opaque" a call that can't be seen
# and may do any of these. They are texts, and not an enum, as rules of other distributions compare them.
ScalersOwn: TypeAlias = Literal["scale", "unscale_", "step", "update"]
EventKind: TypeAlias = Literal[ScalersOwn, "backward", "optimizer_step", "zero_grad", "clip", "read", "opaque"]
OF_SCALER: tuple[ScalersOwn, ...] = ("scale", "unscale_", "step", "update")


class Event(NamedTuple):
    """One event.

    `how`: of a clip the function, "measure" where its bound is infinity, "clamp" or "norm" where it is written by hand,
    "named" where only the name says so; of a read "read", or "change" where gradients are changed by what has no scale.
    """

    kind: EventKind
    call: ir.Value
    scaler: str | None = None
    optimizer: str | None = None
    # The tensor of scale and backward, the optimizer of unscale_ and step, what clip works on.
    subject: ir.Value | None = None
    how: str = ""
