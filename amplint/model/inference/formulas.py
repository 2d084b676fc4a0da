"""Conditions as formulas: what has to hold for something to happen, over facts that the code leaves open.

A fact is a term (`amplint.model.objects.terms`), which says there what it implies of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import permutations, product
from typing import TypeAlias

from amplint.model.objects import terms
from amplint.model.objects.terms import Fact, Term

# Worlds are tried one by one.
_MANY = 12

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
    """A formula with others in the place of some of its facts."""
    if formula.term is not None:
        return by.get(formula.term, formula)
    parts = [replaced(part, by) for part in formula.parts]
    return negated(parts[0]) if formula.form is Form.NOT else (both if formula.form is Form.AND else either)(*parts)


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
    """The worlds in which all formulas hold; none where there are too many facts to try."""
    facts = in_order(_facts(formulas))
    if len(facts) > _MANY:
        return
    apart = list(_apart(facts))
    for values in product((True, False), repeat=len(facts)):
        world = dict(zip(facts, values, strict=True))
        impossible = any(world[one] is holds and world[other] is too for one, holds, other, too in apart)
        if not impossible and all(formula.holds(world) for formula in formulas):
            yield world


def _facts(formulas: Iterable[Formula]) -> frozenset[Term]:
    return frozenset[Term]().union(*(formula.facts() for formula in formulas))


def in_order(facts: Iterable[Term]) -> list[Term]:
    """Facts in an order that is the same in each run: what is compared with the same thing stands together."""
    return sorted(facts, key=lambda term: (str(term.compared or term), term.compared is not None, str(term)))


def _apart(facts: list[Term]) -> Iterator[tuple[Term, bool, Term, bool]]:
    """Pairs of facts, with outcomes that exclude each other."""
    for one, other in permutations(facts, 2):
        if one.subject == other.subject:
            for holds in (True, False):
                truth = terms.implied(other, {one: holds})
                if truth is not None:
                    yield one, holds, other, not truth


def possible(*formulas: Formula) -> World | None:
    """A world in which all formulas hold, if there is one, and it can be found."""
    return next(worlds(*formulas), None)


def contradict(*formulas: Formula) -> bool:
    """Whether formulas can't hold at once, as far as that can be found out."""
    return len(_facts(formulas)) <= _MANY and possible(*formulas) is None


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
