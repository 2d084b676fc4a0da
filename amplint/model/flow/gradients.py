"""The gradients of one optimizer's parameters along a path: whether they are scaled, and what was done to them."""

from __future__ import annotations

from typing import NamedTuple


class Gradients(NamedTuple):
    """The gradients' condition, and the calls (by their ids) that brought it about.

    `kind`: entry (as the caller left them), none, zeros (`set_to_none=False`), maybe (none, if no call out of sight has
    made some), plain, scaled, mixed (scaled and plain ones in one sum), over (scaled ones on top of unscaled ones),
    unscaled, unknown.
    """

    kind: str
    scaler: str = ""
    origin: int = 0  # the backward that made them; of mixed ones the plain one
    by: int = 0  # the call that unscaled them
    used: int = 0  # the step that used them
    updated: int = 0  # an update since
    cleared: int = 0  # the zero_grad that left none
    reported: int = 0  # a misuse of them was found: what follows from it isn't reported
    more: tuple[int, ...] = ()  # further backwards of losses that aren't scaled
    sure: bool = True  # whether the last backward reaches these parameters

    def is_empty(self) -> bool:
        """Whether there are no gradients, or only zeros."""
        return self.kind in ("none", "zeros")


ENTRY = Gradients("entry")
UNKNOWN = Gradients("unknown")


def after_clear(before: Gradients, call: int, to_none: bool) -> Gradients:
    """After `zero_grad`; a backward whose gradients nothing has used is remembered."""
    lost = before.origin if before.kind in ("scaled", "plain", "mixed", "over", "unscaled") and not before.used else 0
    if before.is_empty():
        lost = before.origin
    kind = "none" if to_none else "zeros"
    used = before.used if before.kind == "unscaled" or before.is_empty() or before.kind == "maybe" else 0
    return Gradients(kind, before.scaler, origin=lost, by=before.by, used=used, cleared=call)


def after_plain(before: Gradients, call: int, sure: bool, alone: bool, in_between: bool) -> Gradients:
    """After a backward of a loss that isn't scaled.

    `alone`: there is no other optimizer; `in_between`: they are unscaled, and no update came since.
    """
    kind = before.kind
    if kind in ("plain", "mixed") and before.origin and call and call not in (before.origin, *before.more):
        return before._replace(more=(*before.more, call), used=0)
    if kind in ("plain", "mixed", "over"):
        return before._replace(used=0)
    if kind == "unknown":
        return UNKNOWN._replace(reported=before.reported)
    if kind == "unscaled" and in_between:
        return before  # what comes on top of unscaled gradients has no scale, rightly
    if not sure and (kind == "scaled" or not alone):
        return UNKNOWN
    if kind == "scaled":
        return before._replace(kind="mixed", origin=call)
    return Gradients("plain", origin=call, reported=_reported_of(before), sure=sure)


def after_scaled(before: Gradients, scaler: str, call: int, sure: bool) -> Gradients:
    """After a backward of a loss times the scale."""
    kind = before.kind
    if kind in ("mixed", "over"):
        return before._replace(used=0)
    if kind == "plain":
        return before._replace(kind="mixed", scaler=scaler, used=0) if sure and before.sure else UNKNOWN
    if kind == "scaled" and before.scaler != scaler and before.sure is sure:
        return Gradients("mixed", scaler, reported=before.reported)
    if kind == "scaled" and before.scaler != scaler and not sure:
        return before  # it may be another optimizer's loss that the other scaler scales
    if kind == "unscaled":
        if not sure or not before.by:
            return UNKNOWN._replace(reported=before.reported)
        return before._replace(kind="over", scaler=scaler, origin=call, updated=0)
    kept = before.updated if kind == "scaled" and before.sure and before.scaler == scaler else 0
    sure = sure or (kind == "scaled" and before.sure)
    return Gradients("scaled", scaler, call, updated=kept, reported=_reported_of(before), sure=sure)


def _reported_of(before: Gradients) -> int:
    """The misuse that was found of gradients to which a backward adds; of none nothing follows."""
    return 0 if before.is_empty() else before.reported


def after_unscale(before: Gradients, scaler: str, call: int) -> Gradients:
    """After the scaler has divided them, by `unscale_` or in its step."""
    if before.kind == "unknown":
        return before._replace(scaler=scaler, by=call, used=0, updated=0)
    if before.kind in ("none", "zeros", "maybe"):
        return before
    used = 0 if before.kind == "over" else before.used
    return before._replace(kind="unscaled", scaler=scaler, by=call, used=used, updated=0)
