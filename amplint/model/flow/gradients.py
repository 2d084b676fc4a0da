"""The gradients of one optimizer's parameters along a path: whether they are scaled, and what was done to them."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class GradientKind(str, Enum):
    """What there is of gradients, and by what they are multiplied."""

    ENTRY = "entry"  # as the caller left them
    NONE = "none"
    ZEROS = "zeros"  # `set_to_none=False`
    MAYBE = "maybe"  # none, if no call out of sight has made some
    PLAIN = "plain"
    SCALED = "scaled"
    MIXED = "mixed"  # scaled and plain ones in one sum
    OVER = "over"  # scaled ones on top of unscaled ones
    UNSCALED = "unscaled"
    UNKNOWN = "unknown"


# The kinds of gradients of which no backward pass in sight is known: another function has made them, or there are none.
UNSEEN = frozenset((GradientKind.ENTRY, GradientKind.UNKNOWN, GradientKind.MAYBE))


class Gradients(NamedTuple):
    """What the gradients are, and the calls (by their ids) that brought it about."""

    kind: GradientKind
    scaler: str = ""
    origin: int = 0  # the backward that made them; of mixed ones the plain one
    by: int = 0  # the call that unscaled them
    used: int = 0  # the step that used them
    stepped: int = 0  # the same, of any kind of gradients, if surely no backward came since
    updated: int = 0  # an update since
    cleared: int = 0  # the zero_grad that left none
    reported: int = 0  # a misuse of them was found: what follows from it isn't reported
    more: tuple[int, ...] = ()  # further backwards of losses that aren't scaled
    sure: bool = True  # whether the last backward reaches these parameters

    def may_be_mixed(self) -> bool:
        """Whether a backward that may reach these parameters has come after they were unscaled."""
        return self.kind is GradientKind.UNKNOWN and bool(self.origin)

    def is_empty(self) -> bool:
        """Whether there are no gradients, or only zeros."""
        return self.kind in (GradientKind.NONE, GradientKind.ZEROS)


ENTRY = Gradients(GradientKind.ENTRY)
UNKNOWN = Gradients(GradientKind.UNKNOWN)


def after_clear(before: Gradients, call: int, to_none: bool) -> Gradients:
    """After `zero_grad`; a backward whose gradients nothing has used is remembered."""
    lost = (
        before.origin
        if before.kind
        in (GradientKind.SCALED, GradientKind.PLAIN, GradientKind.MIXED, GradientKind.OVER, GradientKind.UNSCALED)
        and not before.used
        else 0
    )
    if before.is_empty():
        lost = before.origin
    kind = GradientKind.NONE if to_none else GradientKind.ZEROS
    used = (
        before.used
        if before.kind is GradientKind.UNSCALED or before.is_empty() or before.kind is GradientKind.MAYBE
        else 0
    )
    return Gradients(kind, before.scaler, origin=lost, by=before.by, used=used, cleared=call)


def after_plain(before: Gradients, call: int, sure: bool, alone: bool, in_between: bool) -> Gradients:
    """After a backward of a loss that isn't scaled.

    `alone`: there is no other optimizer; `in_between`: they are unscaled, and no update came since.
    """
    kind = before.kind
    if (
        kind in (GradientKind.PLAIN, GradientKind.MIXED)
        and before.origin
        and call
        and call not in (before.origin, *before.more)
    ):
        return before._replace(more=(*before.more, call), used=0, stepped=0)
    if kind in (GradientKind.PLAIN, GradientKind.MIXED, GradientKind.OVER):
        return before._replace(used=0, stepped=0)
    if kind is GradientKind.UNKNOWN:
        return UNKNOWN._replace(reported=before.reported)
    if kind is GradientKind.UNSCALED and in_between:
        return before._replace(stepped=0)  # what comes on top of unscaled gradients has no scale, rightly
    if not sure and (kind is GradientKind.SCALED or not (alone or before.is_empty() or kind is GradientKind.MAYBE)):
        return UNKNOWN  # where there were none, there are plain ones or none
    if kind is GradientKind.SCALED:
        return before._replace(kind=GradientKind.MIXED, origin=call, stepped=0)
    return Gradients(GradientKind.PLAIN, origin=call, reported=_reported_of(before), sure=sure)


def after_scaled(before: Gradients, scaler: str, call: int, sure: bool) -> Gradients:
    """After a backward of a loss times the scale."""
    kind = before.kind
    before = before._replace(stepped=0)
    if kind in (GradientKind.MIXED, GradientKind.OVER):
        return before._replace(used=0)
    if kind is GradientKind.PLAIN and before.used:  # a plain step took them: what is left of them is no loss's share
        return Gradients(GradientKind.SCALED, scaler, call, reported=_reported_of(before), sure=sure)
    if kind is GradientKind.PLAIN:
        return before._replace(kind=GradientKind.MIXED, scaler=scaler, used=0) if sure and before.sure else UNKNOWN
    if kind is GradientKind.SCALED:
        return _after_scaled_again(before, scaler, call, sure)
    if kind is GradientKind.UNSCALED:
        if not before.by:
            return UNKNOWN._replace(reported=before.reported)
        if not sure:
            return UNKNOWN._replace(reported=before.reported, origin=call, by=before.by, used=before.used)
        return before._replace(kind=GradientKind.OVER, scaler=scaler, origin=call, updated=0)
    return Gradients(GradientKind.SCALED, scaler, call, reported=_reported_of(before), sure=sure)


def _after_scaled_again(before: Gradients, scaler: str, call: int, sure: bool) -> Gradients:
    """After a backward of a loss times the scale, on top of gradients that are scaled."""
    if before.scaler != scaler and before.sure is sure:
        return Gradients(GradientKind.MIXED, scaler, reported=before.reported)
    if before.scaler != scaler and not sure:
        return before  # it may be another optimizer's loss that the other scaler scales
    kept = before.updated if before.sure and before.scaler == scaler else 0
    sure = sure or before.sure
    return Gradients(GradientKind.SCALED, scaler, call, updated=kept, reported=before.reported, sure=sure)


def _reported_of(before: Gradients) -> int:
    """The misuse that was found of gradients to which a backward adds; of none nothing follows."""
    return 0 if before.is_empty() else before.reported


def after_unscale(before: Gradients, scaler: str, call: int) -> Gradients:
    """After the scaler has divided them, by `unscale_` or in its step."""
    if before.kind is GradientKind.UNKNOWN:
        return before._replace(scaler=scaler, origin=0, by=call, used=0, updated=0)
    if before.kind in (GradientKind.NONE, GradientKind.ZEROS, GradientKind.MAYBE):
        return before
    used = 0 if before.kind is GradientKind.OVER else before.used
    return before._replace(kind=GradientKind.UNSCALED, scaler=scaler, by=call, used=used, updated=0)
