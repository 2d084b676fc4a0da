"""What a run takes for granted of values out of sight: choices, varied from run to run, without a contradiction."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any, NamedTuple

from amplint.model.syntax.operators import COMPARES, ORDERS
from amplint.verify.interpreter.sayings import Saying, said
from amplint.verify.interpreter.standins import MISSING, Count, Unknown

# All combinations of so many conditions are run; of more, each pair.
FEW = 4
# Runs that a step is given at most, and with events that none of them has reached so many more.
MOST, MORE = 24, 12

# Runs that are given at most to assumptions that no run has made, and to assumptions with conditions or each other.
MOST_ASSUMED, MOST_COMBINED = 48, 24

Options = tuple[Any, ...]


class Offer(NamedTuple):
    """What a run could have assumed, so that a test comes out otherwise."""

    question: str
    value: Any
    test: str = ""  # "": what is asked only because a run assumes something
    alone: bool = False  # it isn't assumed together with something else

    @property
    def changed(self) -> dict[str, Any]:
        """The answer that a run has to have."""
        return {self.question: self.value}


@dataclass
class Untried:
    """What no run of a step has had, as there are only so many: filled in by `explore`."""

    assumptions: dict[str, None] = field(default_factory=dict)  # in words; a test comes out in one way without them
    combinations: int = 0  # of conditions and assumptions


_Pair = tuple[tuple[str, Any], tuple[str, Any]]  # two questions with their answers


@dataclass
class Choices:
    """The answers of one run, by question. A question that nothing hangs on always has its first answer."""

    wanted: dict[str, Any] = field(default_factory=dict)
    varied: frozenset[str] = frozenset()  # questions that something hangs on, though the text doesn't say so
    answers: dict[str, Any] = field(default_factory=dict)
    open: dict[str, Options] = field(default_factory=dict)  # the questions that something hangs on
    asked: dict[str, Options] = field(default_factory=dict)  # all of them
    sayings: dict[str, Saying] = field(default_factory=dict)  # of questions that aren't said as they are
    assumed: dict[str, Any] = field(default_factory=dict)  # what no run takes for granted that isn't asked to
    outcomes: dict[str, set[bool]] = field(default_factory=dict)  # of tests that hang on what can be assumed
    _offers: dict[str, Offer] = field(default_factory=dict)  # by these tests

    def ask(self, question: str, options: Options, *, matters: bool) -> Any:
        """The answer of this run."""
        self.asked.setdefault(question, options)
        if matters or question in self.varied:
            self.open.setdefault(question, options)
        if question not in self.answers:
            self.answers[question] = self.wanted.get(question, options[0])
        return self.answers[question]

    def assumes(self, question: str) -> Any:
        """What this run assumes; None: nothing, as it isn't asked to."""
        found = self.wanted.get(question)
        if found is not None:
            self.assumed[question] = self.answers[question] = found
        return found

    def met(self, test: str, *, holds: bool, question: str = "", value: Any = None, alone: bool = False) -> None:
        """A test came out so; with a `value` assumed for the question it would not, if something hangs on that."""
        self.outcomes.setdefault(test, set()).add(holds)
        if question:
            self._offers.setdefault(test, Offer(question, value, test, alone))

    def offers(self) -> list[Offer]:
        """The assumptions under which a test comes out otherwise than in all of this run, and that it doesn't make."""
        found = (offer for test, offer in self._offers.items() if len(self.outcomes[test]) == 1)
        new = (each for each in found if self.assumed.get(each.question) != each.value)
        return [*{(each.question, each.value): each for each in new}.values()]

    def path(self) -> dict[str, Any]:
        """The answers that say which run this is."""
        return {question: self.answers[question] for question in self.open} | self.assumed

    def again(self) -> Choices:
        """The same run once more, as far as it is known."""
        return Choices({**self.wanted}, self.varied)

    def add(self, other: Choices) -> None:
        """Take in what another run of the same was asked."""
        self.answers |= other.answers
        self.open |= other.open
        self.asked |= other.asked
        self.sayings |= other.sayings
        self.assumed |= other.assumed
        for test, outcomes in other.outcomes.items():
            self.outcomes.setdefault(test, set()).update(outcomes)
        self._offers = {**other._offers, **self._offers}


def explore(
    run: Callable[[Choices], None],
    missing: Callable[[], Sequence[str]],
    asked_for: Sequence[dict[str, Any]] = (),
    untried: Untried | None = None,
) -> Iterator[Choices]:
    """Run with all combinations of answers, found out on the way, and those `asked_for`; yields each run's choices.

    Of many questions each pair of answers is tried, and while events are `missing` (what each hangs on), runs with one
    more answer changed. Then what no run does by itself is assumed, by itself and each two together. In the end those
    answers are changed too of which the text doesn't say that an event hangs on them. What there are too many of is put
    into `untried`.
    """
    untried = untried if untried is not None else Untried()
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
    if wanted is not None:
        untried.combinations += _missing_combinations(known, done, tried)
    assuming = _Assuming(runs)
    while (more := assuming.next()) is not None:
        run(more)
        yield more
        assuming.take_in(more)
    assuming.tell(untried)
    for answers in asked_for:
        if not any(answers.items() <= each.answers.items() for each in runs):
            choices = Choices(answers)
            run(choices)
            yield choices
            runs.append(choices)
    yield from _vary(run, missing, runs)


_Answer = tuple[str, str]  # a question, and its answer as it is written


class _Try(NamedTuple):
    """A run that may be made: another one once more, with something assumed."""

    base: Choices
    offer: Offer

    @property
    def wanted(self) -> dict[str, Any]:
        """The answers that the run is to have."""
        return {**self.base.path(), **self.offer.changed}

    @property
    def pairs(self) -> set[frozenset[_Answer]]:
        """What is assumed with each answer that the other run had."""
        new = _answer(self.offer.question, self.offer.value)
        return {frozenset((each, new)) for each in _answers(self.base.path()) if each[0] != self.offer.question}


def _answer(question: str, value: Any) -> _Answer:
    return question, repr(value)


def _answers(path: dict[str, Any]) -> list[_Answer]:
    return [_answer(question, value) for question, value in path.items()]


class _Assuming:
    """Repeats `runs` with what each could have assumed, and adds the new ones to them.

    First is what makes a test come out as in no run yet, then what is asked only under an assumption, answered in all
    ways. Then come assumptions with each answer of the conditions, and with each other, where both are free to meet.
    """

    def __init__(self, runs: list[Choices]) -> None:
        self._runs = runs
        self._todo: list[_Try] = []
        self._done: list[dict[str, Any]] = []
        self._known = {question for each in runs for question in each.open}
        self._had: set[_Answer] = set()
        self._pairs: set[frozenset[_Answer]] = set()  # that runs have had
        self._asked: set[frozenset[_Answer]] = set()  # of two assumptions
        self._outcomes: dict[str, set[bool]] = {}
        self._at: _Try | None = None  # the run that is made
        self._first, self._more = MOST_ASSUMED, MOST_COMBINED  # what is left
        for each in runs:
            self._learn(each)
        self._todo = [_Try(each, offer) for each in runs for offer in each.offers()]

    def next(self) -> Choices | None:
        """The next run's choices; None: there is none."""
        self._todo = [each for each in self._todo if each.wanted not in self._done]
        self._at = min(
            (each for each in self._todo if (self._first if self._is_first(each) else self._more) > 0),
            key=self._rank,
            default=None,
        )
        if self._at is None:
            return None
        if self._is_first(self._at):
            self._first -= 1
        else:
            self._more -= 1
        self._done.append(self._at.wanted)
        return Choices(self._at.wanted, self._at.base.varied)

    def take_in(self, choices: Choices) -> None:
        """Take what a run has come to, and what else could be assumed in it."""
        assert self._at is not None
        self._runs.append(choices)
        offered = {_answer(each.offer.question, each.offer.value) for each in self._todo}
        new = {question: options for question, options in choices.open.items() if question not in self._known}
        others = [Offer(question, each) for question, options in new.items() for each in options]
        self._learn(choices)
        self._todo += [_Try(choices, each) for each in others if not each.changed.items() <= choices.answers.items()]
        for offer in choices.offers():
            answer = _answer(offer.question, offer.value)
            if (answer not in offered and answer not in self._had) or self._meets(self._at.offer, offer):
                self._todo.append(_Try(choices, offer))

    def _meets(self, one: Offer, other: Offer) -> bool:
        """Whether two assumptions may be made together, and have not been asked to be."""
        if one.alone or other.alone or one.question == other.question:
            return False
        pair = frozenset((_answer(one.question, one.value), _answer(other.question, other.value)))
        is_new = pair not in self._asked
        self._asked.add(pair)
        return is_new

    def tell(self, untried: Untried) -> None:
        """Say what is left: of what no run has had each, else how many pairs."""
        left = [each for each in self._todo if each.wanted not in self._done]
        words = [each for each in left if self._is_first(each)]
        for each in words:
            untried.assumptions[said(each.offer.changed, each.base.sayings)] = None
        pairs = {pair for each in left if each not in words for pair in each.pairs}
        untried.combinations += len(pairs - self._pairs)

    def _learn(self, choices: Choices) -> None:
        answers = _answers(choices.path())
        self._had.update(answers)
        self._pairs.update(map(frozenset, combinations(answers, 2)))
        for test, outcomes in choices.outcomes.items():
            self._outcomes.setdefault(test, set()).update(outcomes)

    def _is_first(self, each: _Try) -> bool:
        """Whether a run would be the first one with an answer that a test or a condition has nowhere yet."""
        settled = len(self._outcomes.get(each.offer.test, ())) > 1
        return not settled and _answer(each.offer.question, each.offer.value) not in self._had

    def _rank(self, each: _Try) -> int:
        """How soon a run is made: the lower, the sooner."""
        if self._is_first(each):
            return 0
        if _answer(each.offer.question, each.offer.value) not in self._had:
            return 1
        return 3 if each.pairs <= self._pairs else 2


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
    """The answers of the next run; None: there is none."""
    if len(known) <= FEW:
        return _combination(known, done)
    missing = _missing_pairs(known, tried)
    if not missing:
        return None
    wanted = dict(missing[0])
    for question, options in known.items():
        if question not in wanted:
            wanted[question] = max(options, key=lambda value: _covered({**wanted, question: value}, missing))
    return wanted


def _combination(known: dict[str, Options], done: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The first combination of answers that no run has had; None: all were run."""
    for values in product(*known.values()):
        wanted = dict(zip(known, values, strict=True))
        if not any(each.items() <= wanted.items() for each in done):
            return wanted
    return None


def _missing_combinations(known: dict[str, Options], done: list[dict[str, Any]], tried: list[dict[str, Any]]) -> int:
    """How many combinations of answers no run has had that should have been run."""
    if len(known) > FEW:
        return len(_missing_pairs(known, tried))
    wanted = (dict(zip(known, values, strict=True)) for values in product(*known.values()))
    return sum(not any(each.items() <= one.items() for each in done) for one in wanted)


def _missing_pairs(known: dict[str, Options], tried: list[dict[str, Any]]) -> list[_Pair]:
    """The pairs of answers that no run has had."""
    first = {question: options[0] for question, options in known.items()}
    seen = [{**first, **each} for each in tried]
    pairs = (
        ((one, value), (other, another))
        for one, other in combinations(known, 2)
        for value, another in product(known[one], known[other])
    )
    return [pair for pair in pairs if not any(dict(pair).items() <= each.items() for each in seen)]


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


def _covered(wanted: dict[str, Any], missing: list[_Pair]) -> int:
    return sum(all(wanted.get(question) == value for question, value in pair) for pair in missing)


# How many micro steps make a step, where the text doesn't say; the first is taken where nothing hangs on it.
PERIODS = (2, 1)
_WRONG_NUMBER = re.compile(r"(\w+\.)*is_?(nan|inf)\(")  # what is asked of numbers that mostly are none
SAID = {
    "GreaterThan": ">", "GreaterThanEqual": ">=", "LessThan": "<", "LessThanEqual": "<=", "Equal": "==", "In": "in",
}  # fmt: skip


# Whether a machine has CUDA: by this function a program asks for it.
CUDA = "torch.cuda.is_available"


def _start_of(counter: str) -> str:
    return f"{counter} starts at"


def _start_for(count: Count, asked: Callable[[int], bool], near: Iterable[float], period: int) -> int | None:
    """Where a variable has to begin, so that what is asked of its count changes soon after; None: it never does.

    It begins with a step, where a step has several micro steps.
    """
    holds = asked(count)
    at = {math.floor(each) + more for each in near if math.isfinite(each) for more in (-1, 0, 1, 2)}
    if count.every:
        at = {each for each in at if 0 <= each < count.every} | {0, count.every - 1}
    later = [each for each in at if asked(each) is not holds]
    ways = ((each - count) % count.every if count.every else (each - count) / count.pace for each in later)
    ahead = min((each for each in (math.ceil(way * count.onward) for way in ways) if each > 0), default=None)
    if ahead is None or (count.most is not None and count.at + ahead > count.most):
        return None
    start = count.at + count.onward * (ahead - (not count.once))
    if period > 1 and not count.once and count.onward > 0:
        start -= start % period
    return start if (start - count.first) * count.onward > 0 else None


class _Something:
    """A value that is neither None nor a number or string."""


_SOMETHING = _Something()
_Asked = Callable[[Any], bool]


@dataclass
class _Known:
    """What a value can still be, and the questions that were answered about it. Numbers are not negative."""

    values: list[Any] = field(default_factory=lambda: [_SOMETHING, None, 0, 1, 2, 0.5])
    answered: list[tuple[_Asked, bool]] = field(default_factory=list)
    said: dict[str, Options] = field(default_factory=dict)  # the questions in words, with their options

    def can_be(self, *more: Any) -> None:
        """Take in other values, as far as they fit what was answered."""
        for each in more:
            if not any(each == value and type(each) is type(value) for value in self.values) and all(
                asked(each) is answer for asked, answer in self.answered
            ):
                self.values.append(each)

    def holds(self, asked: _Asked) -> bool | None:
        """The answer to a question, None where it is open."""
        found = {asked(each) for each in self.values}
        return found.pop() if len(found) == 1 else None

    def answer(self, asked: _Asked, *, holds: bool) -> None:
        """Remember an answer."""
        self.answered.append((asked, holds))
        self.values = [each for each in self.values if asked(each) is holds]


@dataclass
class Facts:
    """Answers questions about values out of sight by what was decided before, else by a choice."""

    choices: Choices
    periods: frozenset[str] = frozenset()  # what the program takes remainders by
    there: Set[str] = frozenset()  # what can't be None
    tools: Set[str] = frozenset()  # what is a scaler or an optimizer, or None
    always: Set[str] = frozenset()  # those of them that are never None
    iteration: Callable[[], int] = lambda: 0  # the one that the run is in
    period: Callable[[], int] = lambda: 0  # how many micro steps the text says that a step has
    _known: dict[str, _Known] = field(default_factory=dict)
    _remainders: dict[str, int] = field(default_factory=dict)  # by what they are of what a variable counts
    _otherwise: dict[str, dict[int, bool]] = field(default_factory=dict)  # by questions and iterations

    def _of(self, value: Unknown) -> _Known:
        known = self._known.get(value.setting)
        if known is None:
            known = self._known[value.setting] = _Known()
            if value.text in self.tools:
                never = value.text in self.always or value.text in self.there
                known.values = [_SOMETHING] if never else [_SOMETHING, None]
        return known

    def _ask(self, value: Unknown, asked: _Asked, said: str, *, first: bool, matters: bool) -> bool:
        known = self._of(value)
        found = known.holds(asked)
        if found is None:
            found = bool(self.choices.ask(said, (first, not first), matters=matters))
            known.answer(asked, holds=found)
            known.said[said] = (first, not first)
        elif matters:
            self._matter(known)
        return found

    def _matter(self, known: _Known) -> None:
        """Something hangs on what was decided, and so on the questions that have decided it."""
        for before, options in known.said.items():
            self.choices.ask(before, options, matters=True)

    def is_none(self, value: Unknown, *, matters: bool) -> bool:
        """Whether it is None; what has a tensor or another object behind it isn't."""
        if value.tensor is not None or (value.role is not None and not matters) or value.text in self.there:
            return False
        return self._ask(value, lambda it: it is None, f"{value.text} is None", first=False, matters=matters)

    def must_be_none(self, value: Unknown) -> bool:
        """Whether what was decided leaves it only None."""
        known = self._known.get(value.setting)
        return known is not None and known.values == [None]

    def may_only_be(self, value: Unknown) -> list[str]:
        """The strings that it can be by what was decided; none where it can be something else as well."""
        values = self._of(value).values
        return values if all(isinstance(each, str) for each in values) else []

    def take_for_tool(self, value: Unknown) -> bool:
        """Take a value for an object, as a tool's method is called; False: it was decided that there is none."""
        known = self._of(value)
        if _SOMETHING not in known.values:
            return False
        known.answer(lambda it: it is _SOMETHING, holds=True)
        return True

    def is_object(self, value: Unknown) -> bool:
        """Whether what was decided leaves a value only an object: it is true, and is not None."""
        return self._of(value).values == [_SOMETHING]

    def one_of(self, value: Unknown, keys: Sequence[Any]) -> Any:
        """Which of several numbers and strings it is, what the step does hangs on; `MISSING`: none of them."""
        known = self._of(value)
        known.can_be(*keys)
        left = {repr(each): each for each in keys if each in known.values}
        if not left:
            return MISSING
        said, found = f"{value.text} is", next(iter(left.values()))
        if len(left) < len(keys):  # it is what was decided before that leaves only these
            said = f"{value.text}, one of {', '.join(left)}, is"
            self._matter(known)
        if len(left) > 1:
            found = left[self.choices.ask(said, (*left,), matters=True)]
        known.answer(lambda it: bool(it == found), holds=True)
        return found

    def is_finite(self, text: str, *, matters: bool) -> bool:
        """Whether a number of the bench, which is finite, is taken to be: `text` is how the program writes it."""
        saying = Saying(f"{text} is finite", f"{text} is not finite")
        return not self._is_otherwise(saying.holds, saying, matters=matters)

    def measured(self, text: str, *, holds: bool, matters: bool) -> bool:
        """Whether a test of numbers of the bench is taken to hold, of which it `holds` or doesn't."""
        denied = f"not ({text})"
        saying = Saying(text, denied) if holds else Saying(denied, text)
        return self._is_otherwise(f"{text} is as measured", saying, matters=matters) is not holds

    def _is_otherwise(self, question: str, saying: Saying, *, matters: bool) -> bool:
        """Whether what is true of the bench's numbers is taken for false in this iteration.

        Data differ from batch to batch: it is false in the first iteration that asks, and in each second one after it.
        """
        self.choices.sayings.setdefault(question, saying)
        if self.choices.ask(question, (True, False), matters=matters):
            return False
        known = self._otherwise.setdefault(question, {})
        return known.setdefault(self.iteration(), len(known) % 2 == 0)

    def starts_at(self, counter: str) -> int | None:
        """The number that this run lets a variable begin to count at; None: its own."""
        found = self.choices.assumes(_start_of(counter))
        return found if isinstance(found, int) else None

    def counted(
        self, text: str, count: Count, asked: Callable[[int], bool], near: Iterable[float], *, matters: bool
    ) -> bool:
        """What is `asked` of a number that is counted, as `text` says; it may change `near` some numbers.

        If it comes out alike in all of this run, a later start is offered.
        """
        holds = asked(count)
        start = _start_for(count, asked, near, self.period()) if matters and count.of else None
        if count.every:
            self._remainders[count.of] = count.every
        elif start is not None and start == self.starts_at(count.of) and count.of in self._remainders:
            every = self._remainders[count.of]  # it is asked only with such a remainder
            start = -(-(start + 1) // every) * every - 1
        if start is None:
            self.choices.met(text, holds=holds)
        else:
            self.choices.met(text, holds=holds, question=_start_of(count.of), value=start)
        return holds

    def fails(self, text: str) -> bool:
        """Whether a call raises in this iteration, as it may for want of memory: in the second one that comes to it."""
        question = f"{text} runs out of memory"
        self.choices.met(question, holds=False, question=question, value=True, alone=True)
        known = self._otherwise.setdefault(question, {})
        failing = known.setdefault(self.iteration(), len(known) == 1)
        return bool(self.choices.assumes(question)) and failing

    def has_cuda(self, *, matters: bool) -> bool:
        """Whether there is the CUDA of the bench."""
        self.choices.sayings.setdefault(CUDA, Saying("CUDA is available", "CUDA is not available"))
        self.choices.met(CUDA, holds=True, question=CUDA if matters else "", value=False, alone=True)
        return self.choices.assumes(CUDA) is None

    def is_without_cuda(self) -> bool:
        """Whether this run assumes that there is no CUDA."""
        return self.choices.assumes(CUDA) is False

    def truth(self, value: Unknown, *, matters: bool) -> bool:
        """Whether it counts as true."""
        if value.test is not None:
            return value.test(matters)
        if value.counts is not None:
            return bool(value.counts(matters))
        if value.tensor is not None:
            return True
        if value.text in self.periods:
            self.number(value, matters=matters)
        first = not _WRONG_NUMBER.match(value.text)
        return self._ask(value, bool, value.text, first=first, matters=matters)

    def number(self, value: Unknown, *, matters: bool) -> int:
        """What it is where it says how many micro steps make a step."""
        if value.counts is not None:
            return value.counts(matters)
        known = self._of(value)
        options = [each for each in PERIODS if each in known.values]
        if not options:
            return max([1, *(int(each) for each in known.values if isinstance(each, (int, float)))])
        found: int = options[0]
        said = f"{value.text} ="
        if len(options) > 1:
            found = self.choices.ask(said, tuple(options), matters=matters)
            known.said[said] = tuple(options)
        elif matters:
            self._matter(known)
        known.answer(lambda it: it == found and not isinstance(it, bool), holds=True)
        return found

    def compare(self, value: Unknown, op: str, other: Any, *, matters: bool) -> bool:
        """Whether `value op other` holds; `op` is the IR's."""
        if op in ("NotEqual", "IsNot", "NotIn"):
            positive = {"NotEqual": "Equal", "IsNot": "Is", "NotIn": "In"}[op]
            return not self.compare(value, positive, other, matters=matters)
        if other is None and op in ("Is", "Equal"):
            return self.is_none(value, matters=matters)
        if isinstance(other, bool) and op in ("Is", "Equal"):
            return self.truth(value, matters=matters) is other
        if value.test is not None and op in COMPARES and isinstance(other, (int, float)):
            return bool(COMPARES[op](int(value.test(matters)), other))
        if value.text in self.periods and isinstance(other, (int, float)):
            self.number(value, matters=matters)
        said = f"{value.text} {SAID.get(op, op)} {other!r}"
        if op in ORDERS and isinstance(other, (int, float)):
            return self._in_order(value, op, other, said, matters=matters)
        if op == "Equal" and isinstance(other, (int, float, str)):
            self._of(value).can_be(other)
            return self._ask(value, lambda it: bool(it == other), said, first=True, matters=matters)
        if op == "In" and isinstance(other, (list, tuple)):
            return self._among(value, other, said, matters=matters)
        return bool(self.choices.ask(said, (True, False), matters=matters))

    def _among(self, value: Unknown, listed: Sequence[Any], said: str, *, matters: bool) -> bool:
        names = [each for each in listed if isinstance(each, (int, float, str))]
        self._of(value).can_be(*names)
        return self._ask(value, lambda it: it in names, said, first=True, matters=matters)

    def _in_order(self, value: Unknown, op: str, other: float, said: str, *, matters: bool) -> bool:
        """A comparison with a number: who makes it takes the value for one."""
        known = self._of(value)
        known.can_be(*(each for each in (other, other + 0.5, other - 0.5) if each >= 0))
        numbers = any(isinstance(each, (int, float)) for each in known.values)
        if not numbers:
            return False
        if not all(isinstance(each, (int, float)) for each in known.values):
            known.answer(lambda it: isinstance(it, (int, float)), holds=True)
        return self._ask(value, lambda it: ORDERS[op](it, other), said, first=True, matters=matters)
