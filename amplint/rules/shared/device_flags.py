"""Settings that say by their names whether a GPU is used: `args.use_cuda`, `args.gpu_id >= 0`, `not args.cpu`.

Without one nothing of a float16 region for cuda comes true: its autocast leaves the tensors of the CPU alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from amplint.model.inference.devices import device_of
from amplint.model.inference.formulas import Formula, both, fact, negated
from amplint.model.objects.terms import Op, Term

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.objects.autocast_objects import Region

_ON = re.compile(r"((use|is|on|has|with|enable)_?)?(cuda|gpu)(_?available)?")
_OFF = re.compile(r"((use|is|on|force)_?)?cpu(_?only)?|(no|disable|without)_?(cuda|gpu)s?")
_INDEX = re.compile(r"(gpu|cuda|device)_?(id|ids|index|num|no)|gpu|gpus|cuda")
_COUNT = re.compile(
    r"(n|num|number_of|count_of)_?(gpu|cuda|device)s?|(gpu|cuda|device)_?(count|num)|gpus|(gpu|cuda)_?ids"
)
_LAST = re.compile(r"\w+\W*$")
# That a number is at least as much as this.
_LEAST = {"GreaterThan": 1, "GreaterThanEqual": 0}
_MOST = {"LessThan": -1, "LessThanEqual": 0}


def where_a_gpu_is_used(module: Module, region: Region, formula: Formula) -> Formula:
    """A formula about a region, for cuda with what the settings in it are where a GPU is used."""
    if device_of(module, region) != "cuda":
        return formula
    known = ((term, uses_gpu(term)) for term in formula.facts())
    return both(formula, *(fact(term) if used else negated(fact(term)) for term, used in known if used is not None))


def uses_gpu(condition: Term) -> bool | None:
    """How a condition comes out where a GPU is used; None where its names don't tell."""
    if condition.op == Op.PATH:
        name = _name(condition)
        return True if _ON.fullmatch(name) else False if _OFF.fullmatch(name) else None
    if len(condition.parts) != 2 or not condition.parts[1].is_literal:
        return None
    subject, number = condition.parts[0], condition.parts[1].name
    if subject.op == Op.CALL and subject.name == "len" and subject.parts:
        subject = subject.parts[0]
    name = _name(subject) if subject.op == Op.PATH else ""
    counts = bool(_COUNT.fullmatch(name))
    if not re.fullmatch(r"-?\d+", number) or not (counts or _INDEX.fullmatch(name)):
        return None
    return _compared(condition.op, int(number), 1 if counts else 0)


def _compared(op: str, number: int, least: int) -> bool | None:
    """How a comparison with a number comes out for all numbers that are at least so much, if for all alike."""
    if op == "Equal":
        return False if number < least else None
    if op in _LEAST:
        return True if number + _LEAST[op] <= least else None
    if op in _MOST:
        return False if number + _MOST[op] < least else None
    return None


def _name(term: Term) -> str:
    """The last word of a variable or attribute, in small letters."""
    found = _LAST.search(term.name)
    return found[0].strip("\"'[]() ").lower() if found else ""
