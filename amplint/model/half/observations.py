"""What is kept of a run: the operations that were met, each with its operands and the autocast context of its path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.flow.state import Opened, State
from amplint.model.half.autocast_context import AutocastContext, autocast_context
from amplint.model.inference.tensor_types import DICT, DTYPE, LIST, NUMBER, TUPLE, UNKNOWN_KIND, Kind, join
from amplint.model.syntax import ir

if TYPE_CHECKING:
    from amplint.model import Module

Given = tuple["ir.Value | None", Kind]
_HOLDING = (TUPLE, LIST, DICT, DTYPE)


OUT_OF_SIGHT = "out of sight"  # the spelling of what is called and can't be followed


class Seen(NamedTuple):
    """An operation: its spelling, its operands as written (None: not written) and what they are, and where it runs."""

    node: ir.Value
    spelling: str
    operands: tuple[Given, ...]
    keywords: Mapping[str, Given]
    result: Kind
    autocast: AutocastContext
    sites: tuple[int, ...]  # the calls that led here from the function that opens the region
    layer: ir.Call | None = None  # the construction of the torch.nn layer that is called

    def tensors(self) -> list[tuple[ir.Value, Kind]]:
        """The operands that are written and are no numbers, keywords' too."""
        given = (*self.operands, *self.keywords.values())
        return [
            (value, kind)
            for value, kind in given
            if value is not None and kind.what != NUMBER and not isinstance(value, ir.Constant)
        ]


@dataclass
class Env:
    """What is known on a path: variables by their keys, the open regions, and what the function has returned."""

    kinds: dict[str, Kind] = field(default_factory=dict)
    state: State = field(default_factory=State)
    result: Kind = UNKNOWN_KIND

    def copy(self) -> Env:
        """Another path from here."""
        return Env(dict(self.kinds), self.state, self.result)

    def within(self, opened: Sequence[Opened]) -> Env:
        """A path that starts here in more regions."""
        return Env(dict(self.kinds), self.state.replace(regions=(*self.state.regions, *opened)))

    def join(self, other: Env) -> None:
        """Keep what holds on this path and on another."""
        self.kinds = {key: join(kind, other.kinds[key]) for key, kind in self.kinds.items() if key in other.kinds}
        if self.state.regions != other.state.regions:
            self.state = self.state.replace(regions=(Opened(0, None),))
        self.result = join(self.result, other.result)

    def forget_tensors(self) -> None:
        """Know nothing more of dtypes: what follows is for some of them only."""
        self.kinds = {
            key: UNKNOWN_KIND if kind.is_tensor or kind.likely_half or kind.what in _HOLDING else kind
            for key, kind in self.kinds.items()
        }

    def forget_attributes(self) -> None:
        """Know nothing more of `self.name`: another method may set it."""
        self.kinds = {key: kind for key, kind in self.kinds.items() if not key.startswith("self")}


class Met(NamedTuple):
    """An operation that is being evaluated: the node, its operands, and the path."""

    node: ir.Value
    given: Sequence[Given]
    keywords: Mapping[str, Given]
    env: Env


class Observations:
    """The operations that were met, and how the run came to where it is.

    `sites` are the calls that led there from the function that opens the region, `work` is what has been done so far.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._contexts: dict[tuple[Opened, ...], AutocastContext] = {}
        self.sites: tuple[int, ...] = ()
        self.work = 0
        self.seen: dict[tuple[tuple[int, ...], int, str], Seen] = {}

    def autocast(self, env: Env) -> AutocastContext:
        """The autocast context of a path."""
        opened = env.state.regions
        if opened not in self._contexts:
            self._contexts[opened] = autocast_context(self._module, opened)
        return self._contexts[opened]

    def note(self, met: Met, spelling: str, result: Kind, layer: ir.Call | None = None) -> Kind:
        """Remember an operation; what a later round of a loop knows replaces what an earlier one did."""
        self.seen[self.sites, met.node.id, spelling] = Seen(
            met.node, spelling, tuple(met.given), dict(met.keywords), result, self.autocast(met.env), self.sites, layer
        )
        return result
