"""Conditions as formulas: what has to hold for something to happen, over facts that the code leaves open.

A fact is named by a text. `path == 'value'` is the fact that something equals a literal: of two such about one path at
most one holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

# Worlds are tried one by one.
_MANY = 12
_EQUALS = " == "

World: TypeAlias = dict[str, bool]


@dataclass(frozen=True, slots=True)
class Formula:
    """`op` is "fact", "not", "and" or "or"; an "and" of nothing is true, an "or" of nothing false."""

    op: str
    parts: tuple[Formula, ...] = ()
    name: str = ""

    def facts(self) -> frozenset[str]:
        """The facts that the formula speaks of."""
        return frozenset((self.name,)) if self.op == "fact" else frozenset().union(*(p.facts() for p in self.parts))

    def holds(self, world: World) -> bool:
        """Whether it holds where each fact is as a world has it."""
        if self.op == "fact":
            return world[self.name]
        if self.op == "not":
            return not self.parts[0].holds(world)
        return (all if self.op == "and" else any)(each.holds(world) for each in self.parts)


TRUE, FALSE = Formula("and"), Formula("or")


def fact(name: str) -> Formula:
    """The formula that a fact holds."""
    return Formula("fact", name=name)


def equals(path: str, value: object) -> Formula:
    """The formula that what is found at `path` equals a literal."""
    return fact(f"{path}{_EQUALS}{value!r}")


def negated(formula: Formula) -> Formula:
    """Its negation."""
    if formula in (TRUE, FALSE):
        return FALSE if formula == TRUE else TRUE
    return formula.parts[0] if formula.op == "not" else Formula("not", (formula,))


def both(*parts: Formula) -> Formula:
    """All of the parts hold."""
    found = tuple(dict.fromkeys(each for each in parts if each != TRUE))
    if FALSE in found:
        return FALSE
    return found[0] if len(found) == 1 else Formula("and", found)


def either(*parts: Formula) -> Formula:
    """One of the parts holds, at least."""
    found = tuple(dict.fromkeys(each for each in parts if each != FALSE))
    if TRUE in found:
        return TRUE
    return found[0] if len(found) == 1 else Formula("or", found)


def choice(test: Formula, then: Formula, other: Formula) -> Formula:
    """`then` where the test holds, else `other`."""
    return either(both(test, then), both(negated(test), other))


def worlds(*formulas: Formula) -> Iterator[World]:
    """The worlds in which all formulas hold; none where there are too many facts to try."""
    names = sorted(frozenset().union(*(each.facts() for each in formulas)))
    for values in product((True, False), repeat=len(names)) if len(names) <= _MANY else ():
        world = dict(zip(names, values, strict=True))
        if _is_possible(world) and all(each.holds(world) for each in formulas):
            yield world


def _is_possible(world: World) -> bool:
    """Whether nothing equals two literals."""
    equal = [name.partition(_EQUALS)[0] for name, holds in world.items() if holds and _EQUALS in name]
    return len(equal) == len(set(equal))


def possible(*formulas: Formula) -> World | None:
    """A world in which all formulas hold, if there is one, and it can be found."""
    return next(worlds(*formulas), None)


def contradict(*formulas: Formula) -> bool:
    """Whether formulas can't hold at once, as far as that can be found out."""
    facts = frozenset[str]().union(*(each.facts() for each in formulas))
    return len(facts) <= _MANY and possible(*formulas) is None


def likely(*formulas: Formula) -> World | None:
    """As `possible`, where what is compared with several literals is one of them: mostly it can be no other."""
    return next(filter(_is_one_of, worlds(*formulas)), None)


def _is_one_of(world: World) -> bool:
    compared = [name.partition(_EQUALS)[0] for name in world if _EQUALS in name]
    equal = {name.partition(_EQUALS)[0] for name, holds in world.items() if holds and _EQUALS in name}
    return all(path in equal for path in compared if compared.count(path) > 1)
