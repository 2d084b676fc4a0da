"""An `enabled=False` region put round a statement: what a fix needs where an op is not for half precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.findings import Edit
from amplint.model import ir
from amplint.model.dtypes import AUTOCAST, Region
from amplint.rules.dedent import last_offset, shift
from amplint.rules.devices import as_device_type
from amplint.rules.editing import indentation, insert, line_end, line_start
from amplint.rules.guards import unit
from amplint.rules.pins import module_name
from amplint.rules.statements import stands_alone

if TYPE_CHECKING:
    from amplint.model import Module

# The autocast that an island is written with, as `torch.autocast`.
_SINCE = "1.10"


def island(module: Module, statement: ir.Statement, region: Region) -> list[Edit] | None:
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
    torch, func = module_name(module, "torch"), region.call.func
    if torch is not None and module.target.guarantees(_SINCE):
        made = f"{torch}.autocast"
    elif (
        isinstance(func, ir.Name) and module.names.only(func) == AUTOCAST and func.name in module.program.scope.bindings
    ):
        made = func.name
    else:
        return None
    device = _device(module, statement, region)
    return f"with {made}({device}, enabled=False):" if device is not None else None


def _device(module: Module, statement: ir.Statement, region: Region) -> str | None:
    """The region's device as it can be written at a statement."""
    if region.device is not None:
        return f'"{region.device}"'
    given = region.device_type
    if isinstance(given, ir.Constant):
        return module.text(given)
    return as_device_type(module, given, statement) if given is not None else None
