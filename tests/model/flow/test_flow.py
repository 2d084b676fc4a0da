"""What flow analysis says of a function against what running it shows, on random programs and on chosen ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplint.engine.analysis import run
from amplint.registry import all_rules
from amplint.sources.source import Source
from amplint.verify.program.files import lowered

HEAD = """\
import torch
from torch.nn.utils import clip_grad_norm_


def train(model, opt, scaler, batches, a, b, c):
"""
EVENTS = {
    "scaled": "scaler.scale(model(x)).backward()",
    "plain": "model(x).backward()",
    "unscale": "scaler.unscale_(opt)",
    "clip": "clip_grad_norm_(model.parameters(), 1.0)",
    "step": "scaler.step(opt)",
    "update": "scaler.update()",
    "zero": "opt.zero_grad()",
}
FLAGS = ("a", "b", "c")
COUNTER = "(i + 1) % 2 == 0"

# --- random programs --------------------------------------------------------------------------------------------------


def _tests(flags: tuple[str, ...]) -> st.SearchStrategy[Any]:
    flag = st.sampled_from(flags)
    return st.recursive(
        flag,
        lambda inner: st.one_of(
            st.tuples(st.just("not"), inner), st.tuples(st.sampled_from(("and", "or")), inner, inner)
        ),
        max_leaves=3,
    )


def _suites(tests: st.SearchStrategy[Any], kinds: tuple[str, ...], counting: bool) -> st.SearchStrategy[Any]:
    event = st.tuples(st.just("event"), st.sampled_from(kinds))
    leaf = st.one_of(event, event, event, st.tuples(st.just("flip"), st.sampled_from(FLAGS)))
    if not counting:
        leaf = st.one_of(leaf, leaf, leaf, st.tuples(st.just("jump"), st.sampled_from(("break", "continue", "return"))))

    def bigger(suite: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        found = [
            st.tuples(st.just("if"), tests, suite, st.one_of(st.none(), suite)),
            st.tuples(st.just("for"), suite, st.one_of(st.none(), suite)),
            st.tuples(st.just("with"), st.sampled_from(("True", "False", *FLAGS)), suite),
            st.tuples(st.just("finally"), suite, suite),
        ]
        if not counting:
            found.append(st.tuples(st.just("match"), st.sampled_from(FLAGS), suite, suite))
        return st.one_of(found)

    statement = st.recursive(leaf, lambda inner: bigger(st.lists(inner, min_size=1, max_size=4)), max_leaves=10)
    return st.lists(statement, min_size=2, max_size=7)


def _programs(kinds: tuple[str, ...], counting: bool = False) -> st.SearchStrategy[Any]:
    """Random training loops; `counting`: in which only counters decide, and nothing leaves early."""
    suite = _suites(_tests((COUNTER,) if counting else FLAGS), kinds, counting)
    return suite.map(lambda body: [("for", body, None)])


# --- as text ----------------------------------------------------------------------------------------------------------


class Text:
    """A program's lines; events are told apart by theirs."""

    def __init__(self, program: list[Any]) -> None:
        self.lines = HEAD.splitlines()
        self.rows: dict[int, int] = {}
        self._suite(program, 1, False)

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"

    def _add(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def _suite(self, suite: list[Any], depth: int, loop: bool) -> None:
        for each in suite:
            self._statement(each, depth, loop)

    def _statement(self, each: Any, depth: int, loop: bool) -> None:
        kind = each[0]
        if kind == "event":
            self._add(depth, EVENTS[each[1]])
            self.rows[id(each)] = len(self.lines)
        elif kind == "flip":
            self._add(depth, f"{each[1]} = not {each[1]}")
        elif kind == "jump":
            self._add(depth, each[1] if loop or each[1] == "return" else "pass")
        elif kind == "if":
            self._add(depth, f"if {render(each[1])}:")
            self._suite(each[2], depth + 1, loop)
            if each[3] is not None:
                self._add(depth, "else:")
                self._suite(each[3], depth + 1, loop)
        elif kind == "for":
            self._add(depth, "for i, x in enumerate(batches):")
            self._suite(each[1], depth + 1, True)
            if each[2] is not None:
                self._add(depth, "else:")
                self._suite(each[2], depth + 1, loop)
        elif kind == "with":
            self._add(depth, f'with torch.autocast("cuda", enabled={each[1]}):')
            self._suite(each[2], depth + 1, loop)
        elif kind == "finally":
            self._add(depth, "try:")
            self._suite(each[1], depth + 1, loop)
            self._add(depth, "finally:")
            # A jump out of a finally is a warning in new Pythons.
            self._suite([e for e in each[2] if e[0] in ("event", "flip")] or [("flip", "a")], depth + 1, False)
        elif kind == "match":
            self._add(depth, f"match {each[1]}:")
            self._add(depth + 1, "case True:")
            self._suite(each[2], depth + 2, loop)
            self._add(depth + 1, "case _:")
            self._suite(each[3], depth + 2, loop)


def render(test: Any) -> str:
    if isinstance(test, str):
        return test
    if test[0] == "not":
        return f"(not {render(test[1])})"
    return f"({render(test[1])} {test[0]} {render(test[2])})"


# --- run --------------------------------------------------------------------------------------------------------------


class Jump(Exception):
    """break, continue or return."""


@dataclass
class Run:
    """One execution, with loops of `rounds` iterations; notes in which state each event runs."""

    flags: dict[str, bool]
    rounds: int
    scaled: bool = False
    plain: bool = False
    mixed: bool = False
    stage: str = "ready"
    raised: bool = False  # torch would have refused a call by now: the run goes on, but proves nothing any more
    index: int = 0
    regions: list[bool] = field(default_factory=list)
    bad_clips: set[int] = field(default_factory=set)
    sure_clips: set[int] = field(default_factory=set)  # those where all of the gradients are scaled
    inside: set[int] = field(default_factory=set)
    sure_inside: set[int] = field(default_factory=set)
    in_sight: bool = False  # nothing that the caller did is left for an update to find
    told: bool = False  # a clip of these gradients was reported: the next one isn't
    given: bool = True  # the gradients are as the caller left them
    given_clips: set[int] = field(default_factory=set)  # of those, since the last update

    def suite(self, suite: list[Any], loop: bool) -> None:
        for each in suite:
            self.statement(each, loop)

    def test(self, test: Any) -> bool:
        if isinstance(test, str):
            return (self.index + 1) % 2 == 0 if test == COUNTER else self.flags[test]
        if test[0] == "not":
            return not self.test(test[1])
        left = self.test(test[1])
        return (left and self.test(test[2])) if test[0] == "and" else (left or self.test(test[2]))

    def statement(self, each: Any, loop: bool) -> None:
        kind = each[0]
        if kind == "event":
            self.event(each)
        elif kind == "flip":
            self.flags[each[1]] = not self.flags[each[1]]
        elif kind == "jump":
            if loop or each[1] == "return":
                raise Jump(each[1])
        elif kind == "if":
            arm = each[2] if self.test(each[1]) else each[3]
            self.suite(arm or [], loop)
        elif kind == "for":
            self.loop(each, loop)
        elif kind == "with":
            on = {"True": True, "False": False}.get(each[1])
            self.regions.append(self.flags[each[1]] if on is None else on)
            try:
                self.suite(each[2], loop)
            finally:
                self.regions.pop()
        elif kind == "finally":
            try:
                self.suite(each[1], loop)
            finally:
                self.suite([e for e in each[2] if e[0] in ("event", "flip")] or [("flip", "a")], False)
        elif kind == "match":
            self.suite(each[2] if self.flags[each[1]] else each[3], loop)

    def loop(self, each: Any, outer: bool) -> None:
        before = self.index
        for index in range(self.rounds):
            self.index = index
            try:
                self.suite(each[1], True)
            except Jump as jump:
                if jump.args[0] == "return":
                    raise
                if jump.args[0] == "break":
                    self.index = before
                    return
        self.index = before
        self.suite(each[2] or [], outer)

    def event(self, each: Any) -> None:
        kind = each[1]
        if kind in ("scaled", "plain", "zero", "update"):
            self.given, self.given_clips = self.given and kind == "update", set()
        if kind == "unscale" and self.given and self.stage == "ready":
            self.bad_clips |= self.given_clips  # they come scaled, or it raises
        if kind in ("scaled", "plain") and self.regions and self.regions[-1]:
            self.inside.add(id(each))
            if not self.raised:
                self.sure_inside.add(id(each))
        if kind == "scaled":
            self.mixed = self.mixed or self.plain or self.stage != "ready"
            self.scaled = True
        elif kind == "plain":
            self.mixed = self.mixed or self.scaled
            self.plain = True
        elif kind == "clip" and self.given:
            self.given_clips.add(id(each))
        elif kind == "clip" and self.scaled:
            self.bad_clips.add(id(each))
            if not self.mixed and not self.raised and not self.told and self.stage == "ready":
                self.sure_clips.add(id(each))
            self.told = True
        elif kind == "zero":
            self.scaled = self.plain = self.mixed = self.told = False
        elif kind in ("unscale", "step"):
            self.given = False
            self.told = True  # what is added to unscaled gradients is another matter
            self.raised = self.raised or self.stage == "stepped" or (self.stage == "unscaled" and kind == "unscale")
            self.scaled = self.scaled and self.stage != "ready"
            self.stage = "stepped" if kind == "step" or self.stage == "stepped" else "unscaled"
        elif kind == "update":
            self.raised = self.raised or (self.in_sight and self.stage == "ready")
            self.in_sight = True
            if self.stage != "ready" and not self.scaled:
                self.plain = self.mixed = False
            self.stage = "ready"


def runs(program: list[Any]) -> Iterator[Run]:
    for values in product((False, True), repeat=len(FLAGS)):
        for rounds in (1, 2, 3):
            run = Run(dict(zip(FLAGS, values, strict=True)), rounds)
            with suppress(Jump):
                run.suite(program, False)
            yield run


def flagged(text: Text, code: str) -> set[int]:
    source = str(text)
    compile(source, "program", "exec")
    # Each by itself: of several in one region the rules report the first.
    found, _ = run([all_rules()[code]], lowered(Source("program.py", source)))
    rows = {source.count("\n", 0, each.start) + 1 for each in found}
    return {number for number, row in text.rows.items() if row in rows}


def show(text: Text, events: set[int]) -> str:
    rows = {row for number, row in text.rows.items() if number in events}
    return "\n".join(f"{'>' if n in rows else ' '} {line}" for n, line in enumerate(text.lines, 1))


SLOW = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SLOW
@given(_programs(tuple(EVENTS)))
def test_no_clip_is_reported_that_never_meets_scaled_gradients(program: list[Any]) -> None:
    text = Text(program)
    bad = set().union(*(run.bad_clips for run in runs(program)))
    assert not flagged(text, "AMP401") - bad, show(text, flagged(text, "AMP401") - bad)


@SLOW
@given(_programs(("scaled", "clip", "unscale", "step", "update", "zero"), counting=True))
def test_no_clip_is_missed_where_only_counters_decide(program: list[Any]) -> None:
    text = Text(program)
    sure = set().union(*(run.sure_clips for run in runs(program)))
    assert not sure - flagged(text, "AMP401"), show(text, sure - flagged(text, "AMP401"))


@SLOW
@given(_programs(("scaled", "plain", "step")))
def test_backward_is_reported_where_it_runs_inside_a_region_and_only_there(program: list[Any]) -> None:
    text = Text(program)
    every = list(runs(program))
    inside, sure = (
        set().union(*found) for found in zip(*((run.inside, run.sure_inside) for run in every), strict=True)
    )
    found = flagged(text, "AMP301")
    assert sure <= found <= inside, show(text, (sure - found) | (found - inside))
