"""What flow analysis keeps of each event for the rules: the states that reach it, and what follows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from amplint.model.flow.state import State
from amplint.model.objects.event import Event
from amplint.model.objects.terms import Fact
from amplint.model.syntax import ir

MAX_STATES = 128
MAX_EVENT_STATES = 1024


class SeveralOptimizersError(Exception):
    """A path meets several optimizers where there seemed to be one."""


class TooManyPathsError(Exception):
    """More states than are worth keeping apart."""


class TooLongError(TooManyPathsError):
    """The file has taken its time, and this function its share."""


class Followed(NamedTuple):
    """A step behind a clip: whose it is, what is known on its path, the call that led to the clip (0: none)."""

    optimizer: str
    facts: frozenset[Fact]
    site: int


@dataclass(slots=True)
class EventStates:
    """An event, the states before it, and for a clip what comes behind it."""

    event: Event
    states: list[State] = field(default_factory=list)
    seen: set[State] = field(default_factory=set)  # the same
    others: list[Event] = field(default_factory=list)  # the same call for other objects: in a helper called for each
    stepped: set[tuple[str, str]] = field(default_factory=set)  # (scaler, optimizer) stepped before the next update
    steps: list[ir.Value] = field(default_factory=list)
    # the steps of what is clipped that come before the next backward
    followed: set[Followed] = field(default_factory=set)
    clipped: set[str] = field(default_factory=set)  # the optimizers that own what is clipped, where that is known
    bypasses: list[ir.Value] = field(default_factory=list)  # direct steps before the next update
    backward_first: bool = False  # a scaled backward comes before the next update on some path
    ends: list[State] = field(default_factory=list)  # the function ends in these before an update
