"""Which device a fix should write: what the code itself uses, and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amplint.findings import Applicability
from amplint.model import ir
from amplint.model.compat import tests_of
from amplint.model.dtypes import devices, is_old_first, region_devices, regions
from amplint.model.evidence import asks_for_device, evidence
from amplint.model.scopes import Assigned, Scope

if TYPE_CHECKING:
    from amplint.model import Module


class Choice(NamedTuple):
    """The device as source text, and how far it can be trusted."""

    text: str
    applicability: Applicability


def choose(module: Module, at: ir.Node) -> Choice | None:
    """The device to write at `at`: the regions' literal, "cuda" where all evidence is cuda, else the chosen one.

    Where the file shows none at all, it is the one that the project's configuration says. None: that neither.
    """
    literals: set[str] = set()
    written: list[ir.Value] = []
    for region in regions(module):
        found = region_devices(module, region)
        literals |= {each.type for each in found if each.type}
        given = region.device_type
        if given is not None and not isinstance(given, ir.Constant) and not is_old_first(module, given):
            written.append(given)
    shown = evidence(module)
    if len(literals) == 1 and not written:
        literal = literals.pop()
        # A region for a device that the file's tensors are not on may be an aside.
        agreed = literal == "cuda" or shown.types <= {literal, "cpu"}
        return Choice(f'"{literal}"', Applicability.SAFE if agreed else Applicability.UNSAFE)
    if not written and not literals and shown.types == {"cuda"} and not shown.chosen:
        return Choice('"cuda"', Applicability.SAFE)
    for value in (*written, *shown.chosen):
        text = as_device_type(module, value, at)
        if text is not None:
            return Choice(text, Applicability.UNSAFE)
    if module.device is not None and not (written or literals or shown.places or shown.chosen):
        # What names no device is for cuda; another one makes a difference, in a file that may be the exception.
        safe = module.device == "cuda"
        return Choice(f'"{module.device}"', Applicability.SAFE if safe else Applicability.UNSAFE)
    return None


def device_is_asked(module: Module, call: ir.Call) -> bool:
    """Whether the code itself decides by the device whether there is a scaler: in `enabled`, or in a test around it."""
    enabled = call.keyword("enabled")
    if enabled is not None and asks_for_device(module, enabled):
        return True
    return any(asks_for_device(module, test) for test in tests_of(call))


def as_device_type(module: Module, value: ir.Value, at: ir.Node) -> str | None:
    """`value` as a str that names a device's type, as it can be written at `at`; None where it can't."""
    if isinstance(value, ir.Attribute) and value.attr == "type" and readable_at(module, value.base, at):
        return module.text(value)
    if not readable_at(module, value, at):
        return None
    found = devices(module, value)
    if all(each.kind == "object" for each in found):
        return f"{module.text(value)}.type"
    if all(each.kind == "str" and each.name is not None and ":" not in each.name for each in found):
        return module.text(value)
    return None


def readable_at(module: Module, value: ir.Value, at: ir.Node) -> bool:
    """Whether a name or `self.attribute` can be read at `at` and is surely bound there."""
    if isinstance(value, ir.Attribute):
        return readable_at(module, value.base, at) and _same_function(value, at)
    if not isinstance(value, ir.Name):
        return False
    home = value.scope.home(value.name)
    here = _scope_at(module, at)
    if home is None or here.home(value.name) is not home:
        return False
    if home is not here:
        return True
    # In one scope the text's order decides: it has to be bound further up.
    return any(
        (isinstance(binding, Assigned) and binding.target.id < at.id) or not isinstance(binding, Assigned)
        for binding in home.bindings[value.name]
    )


def _same_function(value: ir.Value, at: ir.Node) -> bool:
    return ir.function_of(value) is ir.function_of(at)


def _scope_at(module: Module, at: ir.Node) -> Scope:
    function = ir.function_of(at)
    return function.scope if function is not None else module.program.scope
