"""What a setting is where nothing else is given: the default of a parameter, of an option, of a look-up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.flow.path_conditions import truth_of
from amplint.model.inference.argparse_options import option
from amplint.model.names.reaching_definitions import only_assignment, reaching
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Other
from amplint.model.syntax.operators import COMPARES

if TYPE_CHECKING:
    from amplint.model import Module

_FOLLOW = 4


def number_by_default(module: Module, value: ir.Value | None, depth: int = _FOLLOW) -> float | None:
    """The number that a value is by default; None where the file doesn't show one."""
    if isinstance(value, ir.Constant):
        return float(value.value) if isinstance(value.value, (int, float)) else None
    if not depth or value is None:
        return None
    found: list[ir.Value | None] = []
    if isinstance(value, ir.Attribute) and (known := option(module, value)) is not None:
        found.append(known.default)
    if isinstance(value, ir.Name):
        made = only_assignment(module.names, value)
        if made is not None:
            found.append(made.value)
        functions = [each.node for each in reaching(module.names, value) if isinstance(each, Other)]
        params = [each.param(value.name) for each in functions if isinstance(each, ir.Function)]
        found += [each.default if each is not None else None for each in params]
    if isinstance(value, ir.Call):
        names, given = module.names.of(value.func), value.positional
        if names and names <= {"builtins.float", "builtins.int"} and len(given) == 1:
            found.append(given[0])
        elif names == {"builtins.getattr"} and len(given) == 3:
            found.append(given[2])
        elif isinstance(value.func, ir.Attribute) and value.func.attr == "get" and len(given) > 1:
            found.append(given[1])
    numbers = {number_by_default(module, each, depth - 1) for each in found}
    return numbers.pop() if len(numbers) == 1 else None


def holds_by_default(module: Module, test: ir.Value) -> bool | None:
    """How a test of settings comes out by default; None where the file doesn't show that."""

    def part(value: ir.Value) -> bool | None:
        if isinstance(value, ir.Compare) and len(value.ops) == 1:
            left, right = (number_by_default(module, each) for each in (value.left, value.rights[0]))
            if value.ops[0] in ("Is", "IsNot") and left is not None and ir.is_none(value.rights[0]):
                return value.ops[0] == "IsNot"
            compare = COMPARES.get(value.ops[0])
            return bool(compare(left, right)) if compare and left is not None and right is not None else None
        number = number_by_default(module, value)
        return None if number is None else bool(number)

    return truth_of(test, part)
