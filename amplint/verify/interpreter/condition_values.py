"""Conditions that the text doesn't decide: the values they are given, and which combinations are run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

# All combinations of so many conditions are run; of more, each pair.
FEW = 4
# Runs that a step is given at most, and with events that none of them has reached so many more.
MOST, MORE = 24, 12

Options = tuple[Any, ...]


@dataclass
class Choices:
    """The answers of one run, by question. A question that nothing hangs on always has its first answer."""

    wanted: dict[str, Any] = field(default_factory=dict)
    varied: frozenset[str] = frozenset()  # questions that something hangs on, though the text doesn't say so
    answers: dict[str, Any] = field(default_factory=dict)
    open: dict[str, Options] = field(default_factory=dict)  # the questions that something hangs on
    asked: dict[str, Options] = field(default_factory=dict)  # all of them

    def ask(self, question: str, options: Options, *, matters: bool) -> Any:
        """The answer of this run."""
        self.asked.setdefault(question, options)
        if matters or question in self.varied:
            self.open.setdefault(question, options)
        if question not in self.answers:
            self.answers[question] = self.wanted.get(question, options[0])
        return self.answers[question]

    def path(self) -> dict[str, Any]:
        """The answers that say which run this is."""
        return {question: self.answers[question] for question in self.open}

    def again(self) -> Choices:
        """The same run once more, as far as it is known."""
        return Choices({**self.wanted}, self.varied)

    def add(self, other: Choices) -> None:
        """Take in what another run of the same was asked."""
        for mine, theirs in (
            (self.answers, other.answers),
            (self.open, other.open),
            (self.asked, other.asked),
        ):
            mine.update(theirs)


def explore(
    run: Callable[[Choices], None],
    missing: Callable[[], Sequence[str]],
    asked_for: Sequence[dict[str, Any]] = (),
) -> Iterator[Choices]:
    """Run with all combinations of answers, found out on the way, and those `asked_for`; yields each run's choices.

    Of many questions each pair of answers is tried, and while events are `missing` (what each hangs on), runs with one
    more answer changed. In the end those are changed too of which the text doesn't say that an event hangs on them.
    """
    known: dict[str, Options] = {}
    done: list[dict[str, Any]] = []
    tried: list[dict[str, Any]] = []
    runs: list[Choices] = []
    wanted: dict[str, Any] | None = {}
    while wanted is not None and len(done) < MOST:
        choices = Choices(wanted)
        run(choices)
        yield choices
        runs.append(choices)
        known.update(choices.open)
        tried.append(wanted)
        done.append(choices.path())
        wanted = _next(known, done, tried)
        if wanted is None and len(known) > FEW and missing():
            wanted = _neighbour(known, done)
    for answers in asked_for:
        if not any(answers.items() <= each.answers.items() for each in runs):
            choices = Choices(answers)
            run(choices)
            yield choices
            runs.append(choices)
    yield from _vary(run, missing, runs)


def _vary(
    run: Callable[[Choices], None], missing: Callable[[], Sequence[str]], runs: list[Choices]
) -> Iterator[Choices]:
    """Change answers of runs one at a time: first what has words in common with what is missing.

    What reaches more goes on from there, and so does what is asked something new.
    """
    tried: set[str] = set()
    seen = {question for each in runs for question in each.asked}
    left, at = missing(), 0
    budget = MORE
    while left and budget and at < len(runs):
        base = runs[at]
        words = _words(" ".join(left))
        others = [each for each in reversed(base.asked) if each not in tried]
        if not others:
            at += 1
            continue
        question = max(others, key=lambda each: (len(words & _words(each)), each not in base.open))
        tried.add(question)
        for value in base.asked[question]:
            if value != base.answers[question] and budget:
                budget -= 1
                choices = Choices({**base.answers, question: value}, base.varied | {question})
                run(choices)
                yield choices
                if len(missing()) < len(left):
                    left, at, tried = missing(), 0, set()
                    runs.insert(0, choices)
                elif not seen.issuperset(choices.asked):
                    runs.insert(at, choices)
                seen.update(choices.asked)


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower())) - {"self", "none", "is", "not", "line", "reached", "only", "if"}


def _next(known: dict[str, Options], done: list[dict[str, Any]], tried: list[dict[str, Any]]) -> dict[str, Any] | None:
    if len(known) <= FEW:
        for values in product(*known.values()):
            wanted = dict(zip(known, values, strict=True))
            if not any(all(wanted[question] == answer for question, answer in each.items()) for each in done):
                return wanted
        return None
    first = {question: options[0] for question, options in known.items()}
    seen = [{**first, **each} for each in tried]
    missing = [
        pair
        for one, other in combinations(known, 2)
        for pair in product(((one, value) for value in known[one]), ((other, value) for value in known[other]))
        if not any(each[pair[0][0]] == pair[0][1] and each[pair[1][0]] == pair[1][1] for each in seen)
    ]
    if not missing:
        return None
    wanted = dict(missing[0])
    for question, options in known.items():
        if question not in wanted:
            wanted[question] = max(options, key=lambda value: _covered({**wanted, question: value}, missing))
    return wanted


def _neighbour(known: dict[str, Options], done: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The answers of an earlier run with one changed, as no run has had them."""
    for answers in done:
        for question in reversed(answers):
            for value in known[question]:
                wanted = {**answers, question: value}
                before = list(answers)[: list(answers).index(question)]
                prefix = {**{each: answers[each] for each in before}, question: value}
                if not any(all(each.get(key) == item for key, item in prefix.items()) for each in done):
                    return wanted
    return None


def _covered(wanted: dict[str, Any], missing: list[Any]) -> int:
    return sum(all(wanted.get(question) == value for question, value in pair) for pair in missing)
