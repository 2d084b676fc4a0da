"""Conditions as formulas: what has to hold for something to happen, over facts that the code leaves open.

A fact is a term (`amplint.model.objects.terms`), which says there what it implies of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import permutations
from typing import TypeAlias

from amplint.model.objects import terms
from amplint.model.objects.terms import Fact, Term

# Facts that a search for a world takes in, and the steps that it takes.
_MANY = 64
_MOST = 500

World: TypeAlias = dict[Term, bool]


class Form(Enum):
    """How a formula is made of its parts; an `AND` of nothing is true, an `OR` of nothing false."""

    FACT = "fact"
    NOT = "not"
    AND = "and"
    OR = "or"


@dataclass(frozen=True, slots=True)
class Formula:
    """A fact, the `term`, or what is made of other formulas."""

    form: Form
    parts: tuple[Formula, ...] = ()
    term: Term | None = None

    def facts(self) -> frozenset[Term]:
        """The facts that the formula speaks of."""
        own = frozenset((self.term,)) if self.term is not None else frozenset[Term]()
        return own.union(*(part.facts() for part in self.parts))

    def subjects(self) -> frozenset[Term]:
        """What the facts are about, however they ask."""
        return frozenset(term.subject for term in self.facts())

    def holds(self, world: World) -> bool:
        """Whether it holds where each fact is as a world has it."""
        if self.term is not None:
            return world[self.term]
        if self.form is Form.NOT:
            return not self.parts[0].holds(world)
        return (all if self.form is Form.AND else any)(part.holds(world) for part in self.parts)


TRUE, FALSE = Formula(Form.AND), Formula(Form.OR)


def fact(term: Term) -> Formula:
    """The formula that a fact holds."""
    return Formula(Form.FACT, term=term)


def equals(subject: Term, value: object) -> Formula:
    """The formula that something equals a literal."""
    return fact(terms.equal(subject, terms.literal(value)))


def present(subject: Term) -> Formula:
    """The formula that something is not None."""
    return fact(terms.present(subject))


def all_of(facts: Iterable[Fact]) -> Formula:
    """The formula that some facts are as they are said to be."""
    return both(*(fact(term) if holds else negated(fact(term)) for term, holds in facts))


def negated(formula: Formula) -> Formula:
    """Its negation."""
    if formula in (TRUE, FALSE):
        return FALSE if formula == TRUE else TRUE
    return formula.parts[0] if formula.form is Form.NOT else Formula(Form.NOT, (formula,))


def both(*parts: Formula) -> Formula:
    """All of the parts hold."""
    return _joined(Form.AND, parts, TRUE, FALSE)


def either(*parts: Formula) -> Formula:
    """One of the parts holds, at least."""
    return _joined(Form.OR, parts, FALSE, TRUE)


def _joined(form: Form, parts: tuple[Formula, ...], nothing: Formula, whole: Formula) -> Formula:
    """Parts made one: a part that is `nothing` is left out, and one that is `whole` decides."""
    kept = tuple(dict.fromkeys(part for part in parts if part != nothing))
    if whole in kept:
        return whole
    return kept[0] if len(kept) == 1 else Formula(form, kept)


def choice(test: Formula, then: Formula, other: Formula) -> Formula:
    """`then` where the test holds, else `other`."""
    return either(both(test, then), both(negated(test), other))


def replaced(formula: Formula, by: dict[Term, Formula]) -> Formula:
    """A formula with others in the place of some of its facts; what stays as it is stays the same object."""
    return _replaced(formula, by, {})


def _replaced(formula: Formula, by: dict[Term, Formula], seen: dict[int, Formula]) -> Formula:
    """The same; `seen`: what has become of its parts, by their ids, as one may stand in it several times."""
    if formula.term is not None:
        return by.get(formula.term, formula)
    found = seen.get(id(formula))
    if found is None:
        parts = [_replaced(part, by, seen) for part in formula.parts]
        if all(part is old for part, old in zip(parts, formula.parts, strict=True)):
            found = formula
        elif formula.form is Form.NOT:
            found = negated(parts[0])
        else:
            found = (both if formula.form is Form.AND else either)(*parts)
        seen[id(formula)] = found
    return found


def bearing_on(formula: Formula, *others: Formula) -> Formula:
    """What of a formula has to do with others: of what it asks for, that which shares a subject with them.

    It may hold where the whole does not: what is left out is taken to be possible.
    """
    subjects = frozenset[Term]().union(*(each.subjects() for each in others))
    left, kept = list(_conjuncts(formula, others)), list[Formula]()
    while near := [each for each in left if each.subjects() & subjects or not each.facts()]:
        kept += near
        left = [each for each in left if each not in near]
        subjects = subjects.union(*(each.subjects() for each in near))
    return both(*kept)


def _conjuncts(formula: Formula, others: tuple[Formula, ...]) -> Iterator[Formula]:
    """What a formula asks for, of each choice what bears on others."""
    if formula.form is Form.AND:
        for part in formula.parts:
            yield from _conjuncts(part, others)
    elif formula.form is Form.OR:
        yield either(*(bearing_on(part, *others) for part in formula.parts))
    else:
        yield formula


def worlds(*formulas: Formula) -> Iterator[World]:
    """The worlds in which all formulas hold, as far as they are found; each has all that the formulas ask for."""
    yield from _Search(formulas).worlds()


def in_order(facts: Iterable[Term]) -> list[Term]:
    """Facts in an order that is the same in each run: what is compared with the same thing stands together."""
    return sorted(facts, key=lambda term: (str(term.compared or term), term.compared is not None, str(term)))


class _Search:
    """Looks for worlds: facts that must hold are taken first, then one fact after the other is tried."""

    def __init__(self, formulas: Iterable[Formula]) -> None:
        self._whole = both(*formulas)
        self._order = in_order(self._whole.facts())
        self._apart = _apart(self._order)
        self._left = _MOST
        self.gave_up = False

    def worlds(self) -> Iterator[World]:
        """The worlds, in the order of their facts, true before false; none where there are too many facts."""
        if len(self._order) > _MANY:
            self.gave_up = True
            return
        for world in self._worlds(self._whole, {}):
            yield {term: world[term] for term in self._order}

    def _worlds(self, left: Formula, world: World) -> Iterator[World]:
        """The worlds that have what `world` has, and in which what is left to hold does."""
        while (forced := next(_forced(left), None)) is not None:
            left = self._with(left, world, *forced)
        if left == FALSE:
            return
        open_ = next((term for term in self._order if term not in world), None)
        if open_ is None:
            yield world
            return
        for holds in (True, False):
            if self._left <= 0:
                self.gave_up = True
                return
            tried = dict(world)
            yield from self._worlds(self._with(left, tried, open_, holds), tried)

    def _with(self, left: Formula, world: World, term: Term, holds: bool) -> Formula:
        """What is left to hold once a fact is taken into a world, and all that follows from it."""
        found, by = [Fact(term, holds)], dict[Term, Formula]()
        for each, value in found:  # grows
            if world.get(each, value) is not value:
                return FALSE
            if each not in by:
                world[each], by[each] = value, TRUE if value else FALSE
                found += self._apart.get(Fact(each, value), ())
        self._left -= 1
        return replaced(left, by)


def _forced(left: Formula) -> Iterator[tuple[Term, bool]]:
    """The facts without which a formula can't hold, each with its outcome."""
    for part in left.parts if left.form is Form.AND else (left,):
        if part.term is not None:
            yield part.term, True
        elif part.form is Form.NOT and part.parts[0].term is not None:
            yield part.parts[0].term, False
        elif part.form is Form.AND and part is not left:
            yield from _forced(part)


def _apart(facts: list[Term]) -> dict[Fact, list[Fact]]:
    """What follows from each outcome of a fact for others."""
    found: dict[Fact, list[Fact]] = {}
    for one, other in permutations(facts, 2):
        if one.subject == other.subject:
            for holds in (True, False):
                truth = terms.implied(other, {one: holds})
                if truth is not None:
                    found.setdefault(Fact(one, holds), []).append(Fact(other, truth))
                    found.setdefault(Fact(other, not truth), []).append(Fact(one, not holds))
    return found


def possible(*formulas: Formula) -> World | None:
    """A world in which all formulas hold, if there is one, and it can be found."""
    return next(worlds(*formulas), None)


def contradict(*formulas: Formula) -> bool:
    """Whether formulas can't hold at once, as far as that can be found out."""
    search = _Search(formulas)
    return next(search.worlds(), None) is None and not search.gave_up


def likely(*formulas: Formula) -> World | None:
    """As `possible`, where what is compared with several literals is one of them: mostly it can be no other.

    What the formulas ask whether it is there, or true, may be neither.
    """
    return next(filter(_is_one_of, worlds(*formulas)), None)


def _is_one_of(world: World) -> bool:
    compared = [term.compared for term in world if term.compared is not None]
    equal = {term.compared for term, holds in world.items() if holds}
    return all(each in equal or _is_none(world, each) for each in compared if compared.count(each) > 1)


def _is_none(world: World, subject: Term) -> bool:
    return not world.get(subject, True) or not world.get(terms.present(subject), True)
