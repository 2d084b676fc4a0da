"""Terms: values and conditions as they are the same for the same names and literals, wherever they stand."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from amplint.model.objects.key_parts import is_attribute

_MANY = 4096  # of as many it is remembered what they name


class Op(str, Enum):
    """What a term is that is no operator of Python's; those go by their names in the IR."""

    PATH = "path"  # a variable, an attribute or an item, with the key `name`
    LITERAL = "literal"  # written as `name`
    CALL = "call"  # of what has the key `name`; or a property of that key
    DISPLAY = "display"
    PRESENT = "present"  # that its part is not None
    ENABLED = "enabled"  # that the scaler with the key `name` is on
    GUESSED = "guess"  # that the condition with the id `name` came out true, by a guess
    ON = "on"  # that the code runs on a device of the type `name`
    VAGUE = "?"  # what can't be told from others; `name` is all that is known of it


class Term(NamedTuple):
    """A term: an operation on its parts, or on what has a name."""

    op: str
    name: str = ""
    parts: tuple[Term, ...] = ()

    def __str__(self) -> str:
        """The term as text, by which terms can be sorted, and items named."""
        parts = ",".join(map(str, self.parts))
        if self.op in (Op.PATH, Op.LITERAL):
            return self.name
        if self.op == Op.CALL:
            return f"call({self.name};{parts})"
        if self.op == Op.DISPLAY:
            return f"({parts})"
        if self.op == Op.VAGUE:
            return f"?{self.name}"
        return f"{str.__str__(self.op)}({self.name}{parts})"

    @property
    def is_path(self) -> bool:
        """Whether it is a variable, an attribute or an item."""
        return self.op == Op.PATH

    @property
    def is_compound(self) -> bool:
        """Whether it is no variable or literal alone."""
        return "(" in str(self)

    @property
    def is_literal(self) -> bool:
        """Whether it is a literal."""
        return self.op == Op.LITERAL

    @property
    def compared(self) -> Term | None:
        """What it says to be equal to a literal, if it says that."""
        return self.parts[0] if self.op == "Equal" and self.parts[1].is_literal else None

    @property
    def subject(self) -> Term:
        """What it is about, as a condition: what is compared with a literal, or is there; else what is true itself."""
        if self.op == Op.ON:
            return Term(Op.ON)
        return self.parts[0] if self.op == Op.PRESENT else self.compared or self

    @property
    def is_guess(self) -> bool:
        """Whether it says which arm a path has taken by a guess."""
        return self.op == Op.GUESSED

    def walk(self) -> Iterator[Term]:
        """The term and all that it consists of."""
        yield self
        for part in self.parts:
            yield from part.walk()

    def replaced(self, old: Term, new: Term) -> Term:
        """The term with another one wherever `old` is a part of it."""
        if self == old:
            return new
        return self._replace(parts=tuple(part.replaced(old, new) for part in self.parts)) if self.parts else self


class Fact(NamedTuple):
    """A condition, and whether it holds."""

    condition: Term
    holds: bool


ZERO, ONE = Term(Op.LITERAL, "0"), Term(Op.LITERAL, "1")


def on_device(device: str) -> Term:
    """That the code runs on a device of this type."""
    return Term(Op.ON, device)


def path(key: str) -> Term:
    """The variable, attribute or item with a key; as a condition, that it is true."""
    return Term(Op.PATH, key)


def literal(value: object) -> Term:
    """A literal."""
    return Term(Op.LITERAL, repr(value))


def present(value: Term) -> Term:
    """That something is not None."""
    return Term(Op.PRESENT, parts=(value,))


def enabled(scaler: str) -> Term:
    """That a scaler is on."""
    return Term(Op.ENABLED, scaler)


def guessed(number: int) -> Term:
    """That a condition, by its id, came out true by a guess."""
    return Term(Op.GUESSED, str(number))


def equal(one: Term, other: Term) -> Term:
    """That two are equal."""
    return Term("Equal", parts=(one, other))


def added(one: Term, other: Term) -> Term:
    """The sum of two."""
    return Term("Add", parts=(one, other))


def ordered(op: str, one: Term, other: Term) -> Fact:
    """A comparison of two by size, as the fact that one of them is greater."""
    if op in ("GreaterThan", "LessThanEqual"):
        return Fact(Term("GreaterThan", parts=(one, other)), op == "GreaterThan")
    return Fact(Term("GreaterThan", parts=(other, one)), op == "LessThan")


def multiple(condition: Term) -> tuple[Term, Term] | None:
    """The number and the period of a condition `number % period == 0`."""
    if condition.op != "Equal" or condition.parts[1] != ZERO or condition.parts[0].op != "Modulo":
        return None
    number, period = condition.parts[0].parts
    return number, period


def implied(condition: Term, facts: Mapping[Term, bool]) -> bool | None:
    """The truth of a condition by what some facts say of the same thing; None where they don't tell.

    What is true or equals a literal is there, what equals one literal equals no other, and is as true as that one. Of
    two equal values none is greater. What runs on one device runs on no other.
    """
    if condition.op == "GreaterThan" and any(map(facts.get, map(equal, condition.parts, condition.parts[::-1]))):
        return False
    if condition.op == Op.ON:
        return False if any(holds and fact.op == Op.ON and fact != condition for fact, holds in facts.items()) else None
    subject = condition.subject
    if condition.op != Op.PRESENT and facts.get(present(subject)) is False:
        return False
    equal_to = next((fact.parts[1] for fact, holds in facts.items() if holds and fact.compared == subject), None)
    if condition.op == Op.PRESENT:
        return True if equal_to is not None or facts.get(subject) else None
    if condition.compared is None:
        return _is_true(equal_to) if equal_to is not None else None
    other = condition.parts[1]
    if equal_to is not None and equal_to != other:
        return False
    return False if facts.get(subject, _is_true(other)) is not _is_true(other) else None


@lru_cache(maxsize=_MANY)
def _is_true(value: Term) -> bool:
    """Whether a literal is true where a test asks for it."""
    try:
        return bool(ast.literal_eval(value.name))
    except ValueError:  # inf
        return True


@lru_cache(maxsize=_MANY)
def names_in(term: Term) -> str:
    """The keys that a term reads, a line each."""
    return "\n".join(each.name for each in term.walk() if each.op in (Op.PATH, Op.CALL, Op.ENABLED))


@lru_cache(maxsize=_MANY)
def has_calls(term: Term) -> bool:
    """Whether a term depends on what a call returns."""
    return any(each.op == Op.CALL for each in term.walk())


def calls_of(term: Term, owner: str) -> bool:
    """Whether a term depends on what a method of an object returns."""
    return any(each.op == Op.CALL and is_attribute(each.name, owner) for each in term.walk())


def reads(term: Term, key: str) -> bool:
    """Whether a term depends on a variable or attribute."""
    names = names_in(term)
    return key in names and mentions(names, key)


def mentions(names: str, key: str) -> bool:
    """Whether a key is one of some keys, or a part of one: `self.a` and `self.a.b[0]` mention `self.a`."""
    start = names.find(key)
    while start >= 0:
        end = start + len(key)
        before, after = names[start - 1 : start], names[end : end + 1]
        if not (before.isalnum() or before == "_") and not (after.isalnum() or after == "_"):
            return True
        start = names.find(key, end)
    return False
