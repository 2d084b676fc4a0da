"""Conditions as formulas: what has to hold for something to happen, over facts that the code leaves open.

A fact is named by a text. `path == 'value'` is the fact that something equals a literal: of two such about one path at
most one holds. `present(path)` is the fact that it is not None, and `path` that it is true: what is true or equals a
literal is there, and what equals an empty text is not true.
"""

from __future__ import annotations

import ast
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

    def paths(self) -> frozenset[str]:
        """What the facts are about, however they ask."""
        return frozenset(map(_path, self.facts()))

    def holds(self, world: World) -> bool:
        """Whether it holds where each fact is as a world has it."""
        if self.op == "fact":
            return world[self.name]
        if self.op == "not":
            return not self.parts[0].holds(world)
        return (all if self.op == "and" else any)(each.holds(world) for each in self.parts)


def _path(name: str) -> str:
    """What a fact is about."""
    if name.startswith("present("):
        return name.removeprefix("present(").removesuffix(")")
    return name.partition(_EQUALS)[0]


TRUE, FALSE = Formula("and"), Formula("or")


def fact(name: str) -> Formula:
    """The formula that a fact holds."""
    return Formula("fact", name=name)


def equals(path: str, value: object) -> Formula:
    """The formula that what is found at `path` equals a literal."""
    return fact(f"{path}{_EQUALS}{value!r}")


def present(path: str) -> Formula:
    """The formula that what is found at `path` is not None."""
    return fact(f"present({path})")


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
    if len(names) > _MANY:
        return
    apart = list(_apart(names))
    for values in product((True, False), repeat=len(names)):
        world = dict(zip(names, values, strict=True))
        impossible = any(world[one] is holds and world[other] is too for one, holds, other, too in apart)
        if not impossible and all(each.holds(world) for each in formulas):
            yield world


def _apart(names: list[str]) -> Iterator[tuple[str, bool, str, bool]]:
    """Pairs of facts, with outcomes that exclude each other: nothing equals two literals, or is true and None."""
    for name in names:
        path, equals_literal, literal = name.partition(_EQUALS)
        if equals_literal:
            yield from ((name, True, each, True) for each in names if each > name and each.startswith(path + _EQUALS))
            if path in names:
                yield name, True, path, not _is_true(literal)
        if present(path).name in names:
            yield name, True, present(path).name, False


def _is_true(literal: str) -> bool:
    """Whether a literal is true where a test asks for it."""
    try:
        return bool(ast.literal_eval(literal))
    except ValueError:  # inf
        return True


def possible(*formulas: Formula) -> World | None:
    """A world in which all formulas hold, if there is one, and it can be found."""
    return next(worlds(*formulas), None)


def contradict(*formulas: Formula) -> bool:
    """Whether formulas can't hold at once, as far as that can be found out."""
    facts = frozenset[str]().union(*(each.facts() for each in formulas))
    return len(facts) <= _MANY and possible(*formulas) is None


def likely(*formulas: Formula) -> World | None:
    """As `possible`, where what is compared with several literals is one of them: mostly it can be no other.

    What the formulas ask whether it is there, or true, may be neither.
    """
    return next(filter(_is_one_of, worlds(*formulas)), None)


def _is_one_of(world: World) -> bool:
    compared = [name.partition(_EQUALS)[0] for name in world if _EQUALS in name]
    equal = {name.partition(_EQUALS)[0] for name, holds in world.items() if holds and _EQUALS in name}
    return all(path in equal or _is_none(world, path) for path in compared if compared.count(path) > 1)


def _is_none(world: World, path: str) -> bool:
    return not world.get(path, True) or not world.get(present(path).name, True)
