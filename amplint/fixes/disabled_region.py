"""An `enabled=False` region put round a statement: what a fix needs where an op is not for half precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.base.findings import Edit
from amplint.fixes.conditions import unit
from amplint.fixes.device_choice import as_device_type
from amplint.fixes.edits import indentation, insert, line_end, line_start
from amplint.fixes.inherited_arguments import module_name
from amplint.fixes.region_end import last_offset, shift
from amplint.fixes.statements import stands_alone
from amplint.model.objects.autocast_objects import Region
from amplint.model.syntax import ir
from amplint.model.torch_facts.deprecated_names import autocast_for
from amplint.model.torch_facts.names import AUTOCAST

if TYPE_CHECKING:
    from amplint.model import Module


def in_disabled_region(module: Module, statement: ir.Statement, region: Region) -> list[Edit] | None:
    """Put a statement into a part of `region` that is switched off; None where that can't be written there."""
    header = _header(module, statement, region)
    return wrapped(module, statement, header) if header is not None else None


def wrapped(module: Module, statement: ir.Statement, header: str) -> list[Edit] | None:
    """Put a statement into a `with` of its own, whose line is `header`; None where it shares its lines."""
    if not stands_alone(module, statement):
        return None
    start, end = line_start(module, module.span(statement)[0]), line_end(module, last_offset(module, statement))
    indent, step = indentation(module, statement) or "", unit(module, statement)
    behind = line_end(module, start)  # the first line is shifted with the header in front
    rest = shift(module, (behind, end), indent, step, outward=False) if behind < end else []
    return [insert(start, f"{indent}{header}{module.source.newline}{step}"), *rest]


def _header(module: Module, statement: ir.Statement, region: Region) -> str | None:
    device, func = _device(module, statement, region), region.call.func
    if device is None:
        return None
    header = switched_off(module, device)
    if header is not None:
        return header
    if isinstance(func, ir.Name) and module.names.only(func) == AUTOCAST:
        if func.name in module.program.scope.bindings:
            return f"with {func.name}({device}, enabled=False):"
    return None


def switched_off(module: Module, device: str) -> str | None:
    """The line that switches autocast off for a device, which is source text; None without torch by its name."""
    torch = module_name(module, "torch")
    made = autocast_for(module.target, device, off=True, torch=torch) if torch is not None else None
    return f"with {made}:" if made is not None else None


def _device(module: Module, statement: ir.Statement, region: Region) -> str | None:
    """The region's device as it can be written at a statement."""
    if region.device is not None:
        return f'"{region.device}"'
    given = region.device_type
    if isinstance(given, ir.Constant):
        return module.text(given)
    return as_device_type(module, given, statement) if given is not None else None
