"""What each parameter's gradient holds, kept call by call, and what is wrong with a call that meets it.

Knows nothing of torch but that a gradient is None once it is cleared: `observe` tells it what happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.differential.codes import TABLE, Observed, observed
from tests.differential.places import Place


class UnsuitableError(Exception):
    """The program does what none of the codes is about."""


@dataclass(eq=False)
class Books:
    """An enabled scaler's."""

    updates: list[int] = field(default_factory=list)  # the lines of the updates so far
    unscaled: dict[int, Place] = field(default_factory=dict)  # where each optimizer was last unscaled, step or not
    stepped: dict[int, Place] = field(default_factory=dict)
    last_step: Place | None = None
    owed: bool = False  # it has stepped since the last update
    bypassed: list[int] = field(default_factory=list)  # the direct steps on its gradients since then
    late: list[Observed] = field(default_factory=list)  # each unscale_ of used gradients since the last update
    misplaced: list[int] = field(default_factory=list)  # the updates that came before the last step, and too early


@dataclass(eq=False)
class Piece:
    """What one backward added to a gradient."""

    scaler: Books | None  # whose scale is in it
    line: int
    since: int = 0  # the updates that came before, of the scaler whose scale it has or that divided it
    divided: tuple[int, ...] = ()  # the lines of the calls that took the scale out, rightly or not
    stepped: bool = False
    infinite: bool = False  # the scaler found it so when it divided: it would skip the step

    @property
    def is_scaled(self) -> bool:
        return self.scaler is not None and not self.divided

    @property
    def is_plain(self) -> bool:
        return self.scaler is None and not self.divided


@dataclass(eq=False)
class Held:
    """A parameter and its gradient."""

    parameter: Any
    pieces: list[Piece] = field(default_factory=list)
    used: Books | str = ""  # the scaler that stepped since the last backward, or "directly"
    used_since: int = 0  # the scaler's updates before that step
    lacking: bool = False  # the scaler has said that there is none
    early: Books | None = None  # the scaler that has found nothing to divide since
    spent: bool = False  # a scaler has stepped since the last backward, the gradient may be cleared
    tainted: bool = False  # something was wrong before: what follows is secondary

    def clear(self) -> None:
        self.pieces, self.used, self.tainted = [], "", False

    @property
    def scaled(self) -> list[Piece]:
        return [piece for piece in self.pieces if piece.is_scaled]

    @property
    def plain(self) -> list[Piece]:
        return [piece for piece in self.pieces if piece.is_plain]

    @property
    def unscaled(self) -> list[Piece]:
        return [piece for piece in self.pieces if piece.divided]

    @property
    def unscaled_at(self) -> list[int]:
        return [line for piece in self.unscaled for line in piece.divided]


class Ledger:
    def __init__(self) -> None:
        self.held: dict[int, Held] = {}
        self.books: dict[int, Books] = {}
        self.seen: set[Observed] = set()
        self.behind_an_exception = False
        self.stepped_unchecked = False  # directly, with unscaled gradients: whether it would with infinite ones?
        self._plain: list[int] = []  # the lines of the backwards of losses that aren't scaled
        self._late_clips: list[tuple[Observed, list[Held]]] = []

    def own(self, parameters: Iterable[Any]) -> None:
        """An optimizer is made over these."""
        for parameter in parameters:
            self.held.setdefault(id(parameter), Held(parameter))

    def holding(self, parameters: Iterable[Any]) -> list[Held]:
        """Those of some parameters that have a gradient with something in it."""
        return [held for held in self._all(parameters) if held.pieces]

    def _all(self, parameters: Iterable[Any]) -> Iterator[Held]:
        for parameter in parameters:
            held = self.held.get(id(parameter))
            if held is not None:
                if parameter.grad is None:
                    held.clear()
                yield held

    def see(self, kind: str, tainted: bool = False, **lines: int | list[int] | tuple[int, ...]) -> Observed:
        """Note an observation."""
        found = observed(kind, tainted or self.behind_an_exception, **lines)
        self.seen.add(found)
        return found

    def _bad(self, held: Held, kind: str, **lines: int | list[int]) -> Observed:
        found = self.see(kind, held.tainted, **lines)
        held.tainted = True
        return found

    def _lack(self, parameters: Iterable[Any], kind: str, **lines: int) -> None:
        every = list(self._all(parameters))
        self.see(kind, all(held.lacking for held in every), **lines)
        for held in every:
            held.lacking = True

    # --- what happens -----------------------------------------------------------------------------------------------

    def zeroed(self, parameters: Iterable[Any]) -> None:
        """Gradients are set to None, or to zero."""
        for held in self._all(parameters):
            held.clear()
            held.early = None

    def look(self) -> None:
        """Which gradients are None is looked up, before there are new ones."""
        list(self._all([held.parameter for held in self.held.values()]))

    def backward(self, sources: dict[int, set[Books | None]], line: int) -> None:
        """A backward adds to the parameters (by id) what carries these scales."""
        for held in self.held.values():
            for books in sources.get(id(held.parameter), ()):
                since = len(books.updates) if books is not None else 0
                held.pieces.append(Piece(books, line, since))
                held.used, held.spent, held.lacking = "", False, False
                if books is None:
                    self._plain.append(line)

    def divide(self, parameters: list[Any], books: Books, line: int, is_step: bool, infinite: bool = False) -> None:
        """A scaler divides gradients by its scale: `unscale_`, or a step without one before."""
        live = self.holding(parameters)
        if not live:
            spent = any(held.spent for held in self._all(parameters))
            kind = "no gradients, behind the step" if spent and not is_step else "no gradients"
            self._lack(parameters, kind, at=line)
            for held in self._all(parameters):
                held.early = books
        for held in live:
            if any(piece.scaler is not books for piece in held.scaled):
                raise UnsuitableError("another scaler's gradients")
            # One verdict on a parameter; what is plain and what is old may come together.
            was_tainted = held.tainted
            for kind, lines in self._wrong_with(held, books, line, is_step):
                held.tainted = was_tainted
                found = self._bad(held, kind, **lines)
                if kind == "used gradients unscaled":
                    books.late.append(found)
                self._note_misplaced(kind, books, lines)
            for piece in held.pieces:
                piece.divided, piece.since, piece.infinite = (*piece.divided, line), len(books.updates), infinite

    def _note_misplaced(self, kind: str, books: Books, lines: dict[str, int | list[int]]) -> None:
        """An update that moves behind the step will be the one that is missing there."""
        if any(code == "AMP410" for code, _ in TABLE[kind]) and isinstance(updates := lines.get("update"), list):
            books.misplaced = updates

    def _wrong_with(
        self, held: Held, books: Books, line: int, is_step: bool
    ) -> Iterator[tuple[str, dict[str, int | list[int]]]]:
        between = books.updates[min((piece.since for piece in held.unscaled), default=0) :]
        if isinstance(held.used, Books):
            updates = books.updates[held.used_since :]
            yield ("used gradients stepped" if is_step else "used gradients unscaled"), {"at": line, "update": updates}
        elif held.used and held.plain:
            yield (
                "plain gradients stepped directly, then divided",
                {"at": line, "backward": [p.line for p in held.plain]},
            )
        elif held.unscaled and held.scaled and not held.plain:
            yield "a sum of unscaled and scaled", {"unscaled": held.unscaled_at}
        elif held.unscaled and held.plain:
            backwards = [piece.line for piece in held.plain]
            yield (
                "plain on unscaled gradients, divided",
                {"backward": backwards, "update": between, "unscaled": held.unscaled_at},
            )
        elif held.unscaled:
            call = "step" if is_step else "unscale_"
            behind = " behind a direct step" if held.used and not is_step else ""
            yield f"unscaled gradients divided by {call}{behind}", {"at": line, "update": between}
        else:
            for piece in held.plain:
                yield "plain gradients divided", {"backward": piece.line}
            for piece in held.scaled:
                if piece.since < len(books.updates):
                    yield "gradients of an old scale", {"update": books.updates[piece.since :]}

    def step(self, optimizer: int, parameters: list[Any], books: Books, place: Place, is_unscaled: bool) -> None:
        """A scaler has stepped an optimizer, or skipped its step; `is_unscaled`: it did not have to divide."""
        if not is_unscaled:
            self.divide(parameters, books, place.line, is_step=True)
            books.unscaled[optimizer] = place
        live = self.holding(parameters)
        unscaled = books.unscaled[optimizer].line
        if is_unscaled and not live:  # cleared since: unscale_ found some, or the step would raise
            self._lack(parameters, "no gradients, cleared after unscale_", at=place.line)
        for held in live:
            self._stepped_over(held)
            if is_unscaled and held.scaled:
                if held.unscaled:
                    self._bad(held, "a sum of unscaled and scaled", unscaled=held.unscaled_at)
                else:
                    self._bad(held, "scaled gradients behind unscale_", unscaled=unscaled)
            for piece in held.pieces:
                piece.divided, piece.stepped = piece.divided or (unscaled,), True
            held.used, held.used_since = books, len(books.updates)
        self._stepped(optimizer, parameters, books, place)
        books.owed = True

    def _stepped(self, optimizer: int, parameters: Iterable[Any], books: Books, place: Place) -> None:
        books.stepped[optimizer] = books.last_step = place
        for held in self._all(parameters):
            held.spent = True

    def direct_step(self, parameters: list[Any], line: int) -> None:
        """An optimizer steps past the scaler."""
        for held in self.holding(parameters):
            self._stepped_over(held)
            for piece in held.scaled:
                assert piece.scaler is not None
                piece.scaler.bypassed.append(line)
            if held.scaled and held.unscaled:
                self._bad(held, "a sum of unscaled and scaled stepped directly", at=line, unscaled=held.unscaled_at)
            elif held.scaled:
                self._bad(held, "scaled gradients stepped directly", at=line)
            elif isinstance(held.used, Books):
                self._bad(held, "used gradients stepped directly", at=line)
            elif held.unscaled and any(piece.stepped for piece in held.unscaled) and not held.tainted:
                raise UnsuitableError("plain gradients added to those of an earlier step")
            elif held.unscaled:
                self.stepped_unchecked = True
                if held.tainted or any(piece.infinite for piece in held.unscaled):
                    self._bad(held, "unscaled gradients stepped directly", at=line)
                for books in self.books.values():
                    books.bypassed.append(line)
            for piece in held.pieces:
                piece.stepped = True
            held.used = "directly"

    def clip(self, parameters: list[Any], line: int, one_by_one: bool = False) -> None:
        """Gradients are clipped, all at once or parameter by parameter."""
        live = self.holding(parameters)
        for held in live:
            if held.scaled and any(piece.stepped for piece in held.unscaled):
                self._bad(held, "a sum of used and scaled clipped", at=line, unscaled=held.unscaled_at)
            elif held.scaled and held.unscaled:
                self._bad(held, "a sum of unscaled and scaled", unscaled=held.unscaled_at)
            elif held.scaled:
                # Where unscale_ came before the backward: in its right place it makes the clip right too.
                held.tainted |= held.early is held.scaled[0].scaler
                self._bad(held, "scaled gradients clipped", at=line)
        if live and all(isinstance(held.used, Books) for held in live):
            # Parameter by parameter the clip may be for others too, which no step has used.
            every = [held for held in self.held.values() if held.pieces]
            for held in live if one_by_one and not all(isinstance(held.used, Books) for held in every) else ():
                held.tainted = True
            found = [self._bad(held, "used gradients clipped", at=line) for held in live]
            self._late_clips.append((found[0], live))
        elif live and all(held.used and any(piece.scaler is not None for piece in held.pieces) for held in live):
            self.see("used gradients clipped", True, at=line)  # a direct step has used them: that it is direct is 402's
        if not live and any(held.spent for held in self._all(parameters)):
            self.see("cleared gradients clipped behind the step", True, at=line)

    def _stepped_over(self, held: Held) -> None:
        """A step meets gradients: that they were clipped after another step is not what is wrong."""
        for found, clipped in list(self._late_clips):
            if any(held is each for each in clipped) and held.used:
                self._excuse(found)

    def _excuse(self, found: Observed) -> None:
        """What was seen turns out to do no harm: it may be found, and need not be."""
        self.seen.discard(found)
        self.seen.add(found._replace(secondary=True))

    def update(self, books: Books, line: int) -> None:
        """A scaler's update is done."""
        if not books.owed:
            for found in books.late:  # no step has used them again: the update forgets that they were unscaled
                self._excuse(found)
        books.late = []
        books.updates.append(line)
        books.owed = False
        books.bypassed, books.misplaced = [], []

    # --- exceptions -------------------------------------------------------------------------------------------------

    def raised(
        self,
        message: str,
        books: Books,
        place: Place,
        optimizer: int = 0,
        parameters: Iterable[Any] = (),
        is_unscaled: bool = False,
        is_step: bool = False,
    ) -> None:
        """A scaler's method raises: what follows in this run is secondary, as if the call had done its work."""
        line = place.line
        if "_scale is None" in message:
            known = list(parameters) or [held.parameter for held in self.held.values()]
            plain = [piece.line for held in self.holding(known) for piece in held.plain] or self._plain
            self.see("no scale, behind a plain backward" if plain else "no scale", at=line, backward=plain)
        elif "No inf checks were recorded for this optimizer" in message:
            unscaled = books.unscaled[optimizer].line if is_unscaled else 0
            self._lack(parameters, "no gradients", at=line, unscaled=unscaled)
        elif "No inf checks were recorded prior to update" in message:
            # A direct step, or a clip of scaled gradients, is why nothing was checked.
            clipped = any(
                held.tainted and piece.scaler is books for held in self.held.values() for piece in held.scaled
            )
            self.see("update with nothing checked", bool(books.bypassed) or clipped, at=line)
        elif "unscale_() has already been called" in message:
            before = books.unscaled[optimizer]
            later = "" if place.same_iteration(before) else ", in a later iteration"
            self.see(f"unscale_ again{later}", at=line, unscaled=before.line, stepped=books.bypassed)
        elif "called after step()" in message or "step() has already been called" in message:
            before = books.stepped[optimizer]
            last = books.last_step or before
            later = "" if place.same_iteration(before) else ", in a later iteration"
            if self.behind_an_exception and not is_step and not later:
                self.see("unscale_ again", at=line)
            self.see(f"called after step{later}", at=line, stepped=last.line, update=books.misplaced)
        else:
            raise UnsuitableError(message)
        self.behind_an_exception = True
        if is_step:
            self._stepped(optimizer, parameters, books, place)
        if optimizer:
            books.unscaled.setdefault(optimizer, place)

    def end(self) -> None:
        """The run is over."""
        for books in self.books.values():
            for found in books.late:
                self._excuse(found)
            if books.owed and books.last_step is not None and books.last_step.loops and not self.behind_an_exception:
                self.see("update owed at the end", stepped=books.last_step.line, update=books.misplaced)
