"""Models of which autocast never casts a parameter: after a step in a region none of them is old."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.calls.external_calls import local_class, method
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.scopes import owner_class
from amplint.rules.shared.in_region import ELEMENTWISE, is_product

if TYPE_CHECKING:
    from amplint.model import Module

_MODULE = {"torch.nn.Module"}
# What torch has that makes no layers and multiplies no matrices; products are looked for by their own names.
_PLAIN = ("torch.nn.functional.", "torch.nn.Parameter", "torch.nn.init.", "torch.optim.", "torch.distributions.")
# Methods of a module that compute nothing.
_OF_MODULES = {
    "parameters", "named_parameters", "register_parameter", "register_buffer", "requires_grad_", "train", "eval", "to",
    "zero_grad", "state_dict", "load_state_dict",
}  # fmt: skip


def is_never_cast(module: Module, optimizer: str | None) -> bool:
    """Whether an optimizer owns only models of the file's classes that surely have no op which autocast runs in half,
    and multiplies no matrices itself.
    """
    known = objects(module)
    made = known.classes_of(optimizer)
    if optimizer is None or not made or not made <= ELEMENTWISE:
        return False
    owned = known.owns.get(optimizer) or known.owns.get(known.original(optimizer), set())
    classes = [known.own_class(each) for each in owned]
    return bool(classes) and all(each is not None and _is_plain(module, each) for each in classes)


def _is_plain(module: Module, cls: ir.Class, depth: int = 4) -> bool:
    """Whether nothing in a class, or in those of its parts, is an op that autocast runs in a half type, or may be."""
    if not depth or not all(module.names.of(each.value) <= _MODULE for each in cls.bases):
        return False
    methods = [each for each in cls.body.statements if isinstance(each, ir.Function)]
    values = [value for each in methods for value in ir.values_below(each.body)]
    return not any(map(is_product, values)) and all(
        _is_plain_call(module, each, depth) for each in values if isinstance(each, ir.Call)
    )


def _is_plain_call(module: Module, call: ir.Call, depth: int) -> bool:
    cls = local_class(module, call.func)
    if cls is not None:
        return _is_plain(module, cls, depth - 1)
    names, word = module.names.of(call.func), ir.last_name(call.func)
    if any(name.startswith("torch.nn.") for name in names):
        return all(name.startswith(_PLAIN) for name in names)
    if names and all(name.startswith(("torch.", "builtins.", "math.")) for name in names):
        return True
    func = call.func
    own = owner_class(func) if isinstance(func, ir.Attribute) else None
    if own is not None:
        return word in _OF_MODULES or method(module, own, word) is not None
    return isinstance(func, ir.Attribute) and not _is_of_a_given_part(func.base)


def _is_of_a_given_part(value: ir.Value) -> bool:
    """Whether a method is one of an attribute of `self` that is a parameter, or another variable, as it was given."""
    if not isinstance(value, ir.Attribute) or (cls := owner_class(value)) is None:
        return False
    return any(isinstance(each, ir.Name) for each in cls.stored(value.attr))
