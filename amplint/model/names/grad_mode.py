"""What contexts, decorators and calls say of gradients."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.torch_facts.grad_modes import ENABLE_GRAD, NO_GRAD, SET_GRAD

if TYPE_CHECKING:
    from amplint.model import Module


class GradMode(Enum):
    """What a context says: no gradients, gradients, or the one or the other."""

    OFF = auto()
    ON = auto()
    EITHER = auto()


def grad_mode(module: Module, context: ir.Value) -> GradMode | None:
    """What a context or decorator says of gradients, or a call that acts at once; None: nothing."""
    call = context if isinstance(context, ir.Call) else None
    names = module.names.of(call.func if call is not None else context)
    if names & ENABLE_GRAD:
        return GradMode.ON
    given = argument(call, "torch.set_grad_enabled", "mode") if call is not None else None
    if names & SET_GRAD:
        return _told(given, GradMode.ON, GradMode.OFF)
    if names & NO_GRAD:
        is_told = given is not None and any(name.endswith("inference_mode") for name in names)
        return _told(given, GradMode.OFF, GradMode.ON) if is_told else GradMode.OFF
    return None


def _told(given: ir.Value | None, on: GradMode, off: GradMode) -> GradMode:
    """What an argument says that is a flag: `on` or `off` where it is a literal."""
    if not isinstance(given, ir.Constant):
        return GradMode.EITHER
    return on if given.value else off


def without_gradients(module: Module, node: ir.Node) -> bool:
    """Whether no gradients are made at a node, by what stands round it in its file, or is set right before it."""
    return module.once(_without_gradients, node)


def _without_gradients(module: Module, node: ir.Node) -> bool:
    child, up = node, node.parent
    while up is not None:
        modes: list[GradMode | None] = []
        if isinstance(child, ir.Statement) and child.block is not None:
            modes = [mode for number, mode in module.once(_set_in, child.block) if number < child.id]
        if isinstance(up, ir.With):
            modes += [grad_mode(module, item.context) for item in reversed(up.items)]
        if isinstance(up, ir.Function) and isinstance(child, ir.Statement):
            modes += [grad_mode(module, each) for each in reversed(up.decorators)]
        for mode in modes:
            if mode in (GradMode.OFF, GradMode.ON):
                return mode is GradMode.OFF
        child, up = up, up.parent
    return False


def _set_in(module: Module, block: ir.Block) -> list[tuple[int, GradMode | None]]:
    """What the statements of a suite set, by their ids, the last one first."""
    found = [(each.id, _set_by(module, each)) for each in reversed(block.statements)]
    return [(number, mode) for number, mode in found if mode is not None]


def _set_by(module: Module, statement: ir.Statement) -> GradMode | None:
    """What a statement sets: `torch.set_grad_enabled(False)`."""
    call = statement.value if isinstance(statement, ir.Expr) else None
    is_one = isinstance(call, ir.Call) and module.names.of(call.func) & SET_GRAD
    return grad_mode(module, call) if is_one and call is not None else None
