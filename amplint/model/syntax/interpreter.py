"""The order in which Python runs statements, whatever is taken through them.

An `Interpreter` takes states through suites, branches, loops, `with`, `try` and `match`, and keeps apart the ways in
which a suite is left. What a state is, how a test comes out in it and where paths meet, a subclass says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from amplint.model.syntax import ir

S = TypeVar("S")


@dataclass(slots=True)
class Paths(Generic[S]):
    """The states with which a suite is left, by the way it is left."""

    normal: list[S] = field(default_factory=list)
    breaks: list[S] = field(default_factory=list)
    continues: list[S] = field(default_factory=list)
    exits: list[S] = field(default_factory=list)
    raises: list[S] = field(default_factory=list)

    def leave(self, inner: Paths[S]) -> None:
        """Add the ways in which an inner suite leaves this one."""
        self.breaks += inner.breaks
        self.continues += inner.continues
        self.exits += inner.exits
        self.raises += inner.raises

    def replace(self, change: Callable[[S], S]) -> None:
        """Change the states, however the suite is left."""
        self.normal = [*map(change, self.normal)]
        self.breaks = [*map(change, self.breaks)]
        self.continues = [*map(change, self.continues)]
        self.exits = [*map(change, self.exits)]
        self.raises = [*map(change, self.raises)]


class Rounds(Generic[S]):
    """The iterations of a loop that is being run."""

    def start(self) -> list[S]:
        """The states in which the next iteration starts; none where there is no other."""
        raise NotImplementedError

    def inside(self) -> AbstractContextManager[None]:
        """What holds while the suite of an iteration is run."""
        return nullcontext()

    def end(self, states: list[S]) -> None:
        """Take the states with which an iteration has come to its end, or to a `continue`."""
        raise NotImplementedError

    def behind(self) -> list[S]:
        """The states in which the loop has ended by itself, when it is over."""
        raise NotImplementedError


class Interpreter(Generic[S]):
    """Takes states through statements. The methods without an underscore are what a subclass makes of them."""

    def __init__(self) -> None:
        self._by_type: dict[type[ir.Statement], Callable[[Any, list[S]], Paths[S]]] = {
            ir.If: self._if,
            ir.For: self._loop,
            ir.While: self._loop,
            ir.With: self._with,
            ir.Try: self._try,
            ir.Match: self._match,
            ir.Jump: self._jump,
            ir.Return: lambda statement, states: Paths(exits=self.returned(statement, states)),
            ir.Raise: lambda statement, states: Paths(raises=self.simple(statement, states)),
        }

    # --- what a subclass says ---------------------------------------------------------------------------------------

    def goes_on(self, states: list[S]) -> bool:
        """Whether a statement is run in some states."""
        return bool(states)

    def statement(self, statement: ir.Statement, states: list[S]) -> Paths[S]:
        """How a statement is left."""
        run = self._by_type.get(type(statement))
        return run(statement, states) if run is not None else Paths(normal=self.simple(statement, states))

    def simple(self, statement: ir.Statement, states: list[S]) -> list[S]:
        """The states after a statement without suites, or a definition."""
        raise NotImplementedError

    def returned(self, statement: ir.Return, states: list[S]) -> list[S]:
        """The states in which a `return` leaves the function."""
        raise NotImplementedError

    def joined(self, states: list[S]) -> list[S]:
        """The states of paths that have met."""
        return states

    def behind_statement(self, _statement: ir.Statement, states: list[S]) -> list[S]:
        """The states of the paths that have met at the end of a statement."""
        return self.joined(states)

    def arms(self, statement: ir.If, states: list[S]) -> tuple[list[S], list[S]]:
        """The states in which the test of an `if` holds, and those in which it doesn't."""
        raise NotImplementedError

    def behind_arms(self, _statement: ir.If, states: list[S]) -> list[S]:
        """The states of the paths that have met behind an `if`."""
        return states

    def rounds(self, loop: ir.For | ir.While, states: list[S]) -> Iterable[Rounds[S]]:
        """The iterations of a loop: once for all states, or by groups of them that go through it apart."""
        raise NotImplementedError

    def inside(
        self, item: ir.Item, statement: ir.With, states: list[S], run: Callable[[list[S]], Paths[S]]
    ) -> Paths[S]:
        """Enter a context, `run` what is in it, and leave it."""
        raise NotImplementedError

    def attempt(self, statement: ir.Try, states: list[S]) -> Paths[S]:
        """How the suite of a `try` is left."""
        return self.block(statement.body, states)

    def interrupted(self, statement: ir.Try, states: list[S]) -> list[S]:
        """The states that exceptions out of sight may leave the suite of a `try` with, which some states enter."""
        raise NotImplementedError

    def caught(self, statement: ir.Try, interrupted: list[S], raised: list[S]) -> tuple[Iterable[list[S]], list[S]]:
        """The states in which the handlers of a `try` start, one after the other, and those that none catches."""
        return [interrupted for _ in statement.handlers], [] if statement.handlers else raised

    def subject(self, statement: ir.Match, states: list[S]) -> list[S]:
        """The states in which a `match` has evaluated its subject."""
        raise NotImplementedError

    def case(self, case: ir.Case, statement: ir.Match, states: list[S]) -> tuple[list[S], list[S]]:
        """The states in which a case is the one, and those in which it isn't."""
        raise NotImplementedError

    def unmatched(self, _statement: ir.Match, states: list[S]) -> list[S]:
        """The states behind a `match` of which no case was the one."""
        return states

    # --- suites and statements --------------------------------------------------------------------------------------

    def block(self, block: ir.Block, states: list[S]) -> Paths[S]:
        """How a suite is left."""
        paths = Paths(normal=states)
        for statement in block.statements:
            if not self.goes_on(paths.normal):
                paths.normal = []
                break
            inner = self.statement(statement, paths.normal)
            paths.leave(inner)
            paths.normal = self.behind_statement(statement, inner.normal)
        return paths

    def _into(self, paths: Paths[S], block: ir.Block | None, states: list[S]) -> None:
        """Run a suite on some states, if there is one, and add the ways in which it is left."""
        inner = self.block(block, self.joined(states)) if block is not None else Paths(normal=states)
        paths.leave(inner)
        paths.normal += inner.normal

    @staticmethod
    def _jump(statement: ir.Jump, states: list[S]) -> Paths[S]:
        if statement.kind == "pass":
            return Paths(normal=states)
        return Paths(breaks=states) if statement.kind == "break" else Paths(continues=states)

    def _if(self, statement: ir.If, states: list[S]) -> Paths[S]:
        paths: Paths[S] = Paths()
        for arm, taken in zip((statement.then, statement.orelse), self.arms(statement, states), strict=True):
            if taken:
                self._into(paths, arm, taken)
        paths.normal = self.behind_arms(statement, paths.normal)
        return paths

    def _loop(self, loop: ir.For | ir.While, states: list[S]) -> Paths[S]:
        paths: Paths[S] = Paths()
        for rounds in self.rounds(loop, states):
            while starting := rounds.start():
                with rounds.inside():
                    inner = self.block(loop.body, starting)
                paths.normal += inner.breaks
                paths.exits += inner.exits
                paths.raises += inner.raises
                rounds.end([*inner.normal, *inner.continues])
            if ended := rounds.behind():
                self._into(paths, loop.orelse, ended)
            paths.normal = self.joined(paths.normal)
        return paths

    def _with(self, statement: ir.With, states: list[S]) -> Paths[S]:
        return self._contexts(statement, 0, states)

    def _contexts(self, statement: ir.With, at: int, states: list[S]) -> Paths[S]:
        """Enter the contexts of a `with` from one on, and run its suite."""
        if at == len(statement.items):
            return self.block(statement.body, self.joined(states))
        return self.inside(statement.items[at], statement, states, partial(self._contexts, statement, at + 1))

    def _try(self, statement: ir.Try, states: list[S]) -> Paths[S]:
        interrupted = self.interrupted(statement, states)
        paths: Paths[S] = Paths()
        body = self.attempt(statement, states)
        paths.leave(body)
        starting, paths.raises = self.caught(statement, interrupted, body.raises)
        self._into(paths, statement.orelse, body.normal)
        for handler, caught in zip(statement.handlers, starting, strict=True):
            self._into(paths, handler.body, caught)
        return paths if statement.final is None else self._finally(statement.final, paths, interrupted)

    def _finally(self, final: ir.Block, paths: Paths[S], interrupted: list[S]) -> Paths[S]:
        """However the rest is left, the last suite runs, and then it goes on in the same way."""
        after: Paths[S] = Paths()
        if not paths.normal and interrupted:  # its events are met in any case
            after.leave(self.block(final, self.joined(interrupted)))
        for left, then in (
            (paths.normal, after.normal),
            (paths.breaks, after.breaks),
            (paths.continues, after.continues),
            (paths.exits, after.exits),
            (paths.raises, after.raises),
        ):
            if left:
                inner = self.block(final, self.joined(left))
                after.leave(inner)
                then.extend(inner.normal)
        return after

    def _match(self, statement: ir.Match, states: list[S]) -> Paths[S]:
        paths: Paths[S] = Paths()
        states = self.subject(statement, states)
        for case in statement.cases:
            taken, missed = self.case(case, statement, states)
            self._into(paths, case.body, taken)
            states = self.joined(missed)
        paths.normal += self.unmatched(statement, states)
        return paths
