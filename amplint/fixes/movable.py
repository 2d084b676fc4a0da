"""Which statements can leave an autocast region without a change of meaning: a closed list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.calls.events import events
from amplint.model.regions.framework_regions import is_library_scaler_call
from amplint.model.syntax import ir
from amplint.model.syntax.scopes import UNKNOWN

if TYPE_CHECKING:
    from amplint.model import Module

# Elementwise arithmetic is in none of autocast's lists, so it gives the same inside a region and outside.
_ELEMENTWISE = {"Add", "Subtract", "Multiply", "Divide"}
_NUMBERS = {
    f"builtins.{name}"
    for name in (
        "print",
        "float",
        "int",
        "len",
        "round",
        "str",
        "bool",
        "enumerate",
        "range",
        "zip",
        "max",
        "min",
        "isinstance",
        "sum",
        "ValueError",
        "RuntimeError",
        "FloatingPointError",
    )
}
# Calls that compute nothing, and the modules of which that holds for all.
_ASIDE = {
    "torch.cuda.synchronize", "torch.cuda.empty_cache", "torch.cuda.nvtx.range_push", "torch.cuda.nvtx.range_pop",
    "torch.no_grad", "contextlib.suppress",
}  # fmt: skip
_ASIDE_MODULES = ("time.", "math.", "logging.", "gc.", "warnings.")
_READS = {
    "item",
    "size",
    "numel",
    "dim",
    "detach",
    "cpu",
    "tolist",
    "get_scale",
    "get_last_lr",
    "is_enabled",
    "parameters",
    "format",
    "items",
    "keys",
    "values",
    "named_parameters",
}
_REPORTS = {
    "append", "add_scalar", "add_scalars", "log_dict", "log_metrics", "info", "debug", "warning", "write",
    "set_postfix", "set_postfix_str", "set_description", "set_description_str", "backward",
}  # fmt: skip


def is_movable(module: Module, statement: ir.Statement) -> bool:
    """Whether a statement is on the list: backward, scaler and optimizer calls, schedulers, reports and reads."""
    if isinstance(statement, (ir.Function, ir.Class, ir.While, ir.Match)):
        return False
    if isinstance(statement, ir.With) and not all(isinstance(item.context, ir.Call) for item in statement.items):
        return False  # what is kept may be a region
    if isinstance(statement, ir.AugAssign) and statement.op not in _ELEMENTWISE:
        return False
    if not all(_value(module, value) for value in statement.values()):
        return False
    return all(is_movable(module, each) for block in statement.blocks() for each in block.statements)


def _value(module: Module, value: ir.Value) -> bool:
    if isinstance(value, (ir.Lambda, ir.Suspend)):
        return False
    if isinstance(value, ir.Binary) and value.op not in _ELEMENTWISE:
        return value.op == "Modulo" and _is_counting(module, value)
    if isinstance(value, ir.Binary) and value.op == "Divide" and _is_number(module, value.left):
        return _is_number(module, value.right)  # `1 / tensor` is a reciprocal, which autocast casts to float32
    if isinstance(value, ir.Call):
        return _call(module, value)
    return all(_value(module, child) for child in value.children())


def _is_counting(module: Module, value: ir.Binary) -> bool:
    return all(
        isinstance(each, (ir.Name, ir.Attribute, ir.Constant, ir.Binary)) for each in ir.walk_values(value)
    ) or any(isinstance(each, ir.Constant) and isinstance(each.value, str) for each in (value.left,))


def _call(module: Module, call: ir.Call) -> bool:
    if not all(_value(module, arg.value) for arg in call.args):
        return False
    if isinstance(call.func, ir.Attribute) and not _value(module, call.func.base):
        return False
    event = events(module).of(call)
    if event is not None:
        return event.kind != "opaque" or _is_named(call, ("backward",)) or is_library_scaler_call(module, call)
    names = module.names.of(call.func)
    if names <= _NUMBERS | _ASIDE or all(name.startswith(_ASIDE_MODULES) for name in names):
        return True
    return isinstance(call.func, ir.Attribute) and not names - {UNKNOWN} and _is_method(module, call, call.func)


def _is_method(module: Module, call: ir.Call, func: ir.Attribute) -> bool:
    """Whether a call of something unknown is one on the list, by the method's name."""
    if func.attr == "update":  # a metric may compute with what it is given
        return all(isinstance(arg.value, ir.Mapping) or _is_number(module, arg.value) for arg in call.args)
    if func.attr == "log":  # a logger takes something; a tensor's logarithm nothing, and is float32 in a region
        return bool(call.args)
    return func.attr in _READS or func.attr in _REPORTS or _steps_scheduler(func)


def _is_number(module: Module, value: ir.Value) -> bool:
    """Whether a value is evidently a number, no tensor."""
    if isinstance(value, ir.Binary):
        return _is_number(module, value.left) and _is_number(module, value.right)
    if isinstance(value, ir.Call):
        if isinstance(value.func, ir.Attribute) and value.func.attr in ("item", "numel", "dim"):
            return True
        if isinstance(value.func, ir.Attribute) and value.func.attr == "size":
            return bool(value.args)
        return module.names.of(value.func) <= {"builtins.len", "builtins.int", "builtins.float", "builtins.round"}
    if isinstance(value, ir.Subscript):
        return isinstance(value.base, ir.Attribute) and value.base.attr == "shape"
    return isinstance(value, ir.Constant)


def _is_named(call: ir.Call, names: tuple[str, ...]) -> bool:
    return isinstance(call.func, ir.Attribute) and call.func.attr in names


def _steps_scheduler(func: ir.Attribute) -> bool:
    base = func.base
    last = ir.last_name(base)
    return func.attr == "step" and "sched" in last.lower()
