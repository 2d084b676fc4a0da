"""What a setting is where nothing else is given: the default of a parameter, of an option, of a look-up."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from amplint.model.calls.call_sites import passed
from amplint.model.flow.path_conditions import truth_of
from amplint.model.inference.formulas import TRUE
from amplint.model.inference.numbers import number
from amplint.model.inference.value_sets import decided
from amplint.model.inference.values import Leaf, Test, asked, option_read, parameter_read, values_of
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round
from amplint.model.syntax.operators import COMPARES

if TYPE_CHECKING:
    from amplint.model import Module

_TEXT_TESTS = ("Equal", "NotEqual", "In", "NotIn")
_LONGEST = 40  # characters of a condition that a message names
_COMPARES = re.compile(r" (?:[=!]=|[<>]=?|is|in|not in) ")
_NEGATED = {" is not None": " is None", " is None": " is not None", " == ": " != ", " != ": " == "}


def number_or_default(module: Module, value: ir.Value | None) -> float | None:
    """The number that a value is, or is by default; None where the file shows neither."""
    kind = number(module, value)
    return kind.value if kind is not None and kind.value is not None else number_by_default(module, value)


def number_by_default(module: Module, value: ir.Value | None) -> float | None:
    """The number that a value is by default; None where the file doesn't show one."""
    return asked(module, _number_by_default, value, None) if value is not None else None


def _number_by_default(module: Module, value: ir.Value) -> float | None:
    leaves = values_of(module, value).leaves
    found = {_number(module, each) for each in leaves if not each.is_open and _can_be_by_default(module, each)}
    flags = (
        option_read(module, each.value) for each in leaves if each.is_open and isinstance(each.value, ir.Attribute)
    )
    found |= {float(each.without) for each in flags if each is not None and each.without is not None}
    return found.pop() if len(found) == 1 else None


def _can_be_by_default(module: Module, leaf: Leaf) -> bool:
    """Whether no test that a leaf needs comes out otherwise by default."""
    return needed_setting(module, leaf) is None


def needed_setting(module: Module, leaf: Leaf) -> Test | None:
    """The first test that a leaf needs and that comes out otherwise by default; None: there is none."""
    for test in leaf.tests:
        if isinstance(test.truth, bool):
            if holds_by_default(module, test.value) is (not test.truth):
                return test
        elif isinstance(test.truth, str):
            key = _text_by_default(module, test.value)
            if key is not None and key != test.truth:
                return test
    return None


def _number(module: Module, leaf: Leaf) -> float | None:
    value = leaf.value
    if isinstance(value, ir.Constant):
        return float(value.value) if isinstance(value.value, (int, float)) else None
    if isinstance(value, ir.Call):
        names, given = module.names.of(value.func), value.positional
        if names and names <= {"builtins.float", "builtins.int"} and len(given) == 1:
            return number_by_default(module, given[0])
        if names == {"builtins.bool"} and len(given) == 1:
            value = given[0]
    by_default = holds_by_default(module, value) if isinstance(value, (ir.Name, ir.Attribute, ir.Bool)) else None
    return None if by_default is None else float(by_default)


def holds_by_default(module: Module, test: ir.Value) -> bool | None:
    """How a test of settings comes out by default, or for all callers in sight: a parameter that each of them gives an
    object for is not None. None where the file doesn't show that.
    """

    def part(value: ir.Value) -> bool | None:
        if isinstance(value, ir.Compare) and len(value.ops) == 1:
            left, right = (number_by_default(module, each) for each in (value.left, value.rights[0]))
            if value.ops[0] in ("Is", "IsNot") and ir.is_none(value.rights[0]):
                if left is not None or is_always_given(module, value.left):
                    return value.ops[0] == "IsNot"
            compare = COMPARES.get(value.ops[0])
            if compare and left is not None and right is not None:
                return bool(compare(left, right))
            return _is_text_by_default(module, value)
        number = number_by_default(module, value)
        return None if number is None else bool(number)

    return truth_of(test, part)


def off_by_default(module: Module, node: ir.Node) -> tuple[ir.Value, bool] | None:
    """A test around a node that by default comes out otherwise than the node needs, and how it has to."""
    for test, holds in conditions_round(node):
        by_default = holds_by_default(module, test)
        if by_default is not None and by_default is not holds:
            return test, holds
    return None


def _is_text_by_default(module: Module, test: ir.Compare) -> bool | None:
    """How a test of a text comes out by default: `method == "lora"`, `method in ("lora", "full")`."""
    asked, right = _text_by_default(module, test.left), test.rights[0]
    given = right.items if isinstance(right, ir.Sequence) else (right,)
    among = [_text_by_default(module, each) for each in given]
    if asked is None or None in among or test.ops[0] not in _TEXT_TESTS:
        return None
    is_one = isinstance(right, ir.Sequence) == (test.ops[0] in ("In", "NotIn"))
    return (asked in among) is (test.ops[0] in ("Equal", "In")) if is_one else None


def _text_by_default(module: Module, value: ir.Value) -> str | None:
    """The text that a value is by default; None where the file doesn't show one."""
    found = {each.value.value if isinstance(each.value, ir.Constant) else None
             for each in values_of(module, value).leaves if not each.is_open}  # fmt: skip
    only = found.pop() if len(found) == 1 else None
    return only if isinstance(only, str) else None


def is_always_given(module: Module, value: ir.Value) -> bool:
    """Whether a value is a parameter for which all calls in sight, and there are some, give what is surely not None."""
    read = parameter_read(module, value)
    given = passed(module, read[0], read[1].name) if read is not None else ()
    known = decided(module)
    return bool(given) and all(
        each is not None and all(known.present(one.value) == TRUE for one in known.alternatives(each)) for each in given
    )


def in_words(text: str, holds: bool) -> str:
    """A condition in words: as the program asks for it, or negated."""
    if text.startswith("not ") and " and " not in text and " or " not in text:
        return in_words(text.removeprefix("not "), not holds)
    if holds:
        return f"`{text}`" if _COMPARES.search(text) else f"`{text}` is true"
    negated = next((text.replace(one, other) for one, other in _NEGATED.items() if text.count(one) == 1), None)
    if negated is not None and " and " not in text and " or " not in text:
        return f"`{negated}`"
    return f"`{text}` is false"


def only_if(module: Module, test: ir.Value, holds: bool) -> str:
    """A condition as a message begins with it: "if `args.amp` is true, "."""
    return f"if {in_words(module.on_one_line(test), holds)}, "


def with_setting(module: Module, test: Test) -> str:
    """A setting that a value needs, as a message begins with it."""
    if isinstance(test.truth, bool):
        return only_if(module, test.value, test.truth)
    return f"if `{module.on_one_line(test.value)}` is {test.truth!r}, "


def unless_by_default(module: Module, place: ir.Node) -> str:
    """The setting that a place needs and that is off by default, as a message begins with it; "": none, or a long one.

    What is None by default was not given, and is no setting.
    """
    off = off_by_default(module, place)
    if off is None or len(module.on_one_line(off[0])) > _LONGEST:
        return ""
    for each in ir.walk_values(off[0]):
        if isinstance(each, ir.Compare) and {"Is", "IsNot"} & set(each.ops):
            return ""
    return only_if(module, *off)
