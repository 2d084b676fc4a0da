"""What is true wherever it is there: a model, an optimizer, a scaler. What has a length can be there and be false."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.calls.external_calls import bases_in_sight, local_class, method
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.torch_facts.modules import CONTAINERS, RETURNS_ITSELF, WRAPPERS

if TYPE_CHECKING:
    from amplint.model import Module

_FALSE_BY = ("__len__", "__bool__")
_TORCHS = ("torch.nn.", "torch.optim.")


def is_never_empty(module: Module, value: ir.Value) -> bool:
    """Whether a variable or attribute is an object, or None, and the object is surely true."""
    known = objects(module)
    key = known.key(value) if isinstance(value, (ir.Name, ir.Attribute)) else None
    if key is None:
        return False
    return known.is_scalers(key) or known.is_optimizers(key) or _is_model(module, key)


def makes_never_empty(module: Module, call: ir.Call) -> bool:
    """Whether what a call makes is an object that is surely true."""
    func = _first(call).func
    names, cls = module.names.of(func), local_class(module, func)
    if cls is not None:
        return _has_no_length(module, cls)
    if names & WRAPPERS:
        return True
    if names and all(name.startswith(_TORCHS) and name.rpartition(".")[2][:1].isupper() for name in names):
        return not names & CONTAINERS
    return any(_is_model(module, key) for key in objects(module).assigned_to(call))


def _first(call: ir.Call) -> ir.Call:
    """The call that makes an object: `Net()` of `Net().to(device)`."""
    while (base := ir.called_on(call, *RETURNS_ITSELF)) is not None and isinstance(base, ir.Call):
        call = base
    return call


def _is_model(module: Module, key: str) -> bool:
    """Whether an optimizer of the file has the parameters of what a key is one of, and that is no container."""
    known = objects(module)
    cls = known.instance(key)
    return (
        bool(known.owned_by(key))
        and not known.classes_of(key) & CONTAINERS
        and (cls is None or _has_no_length(module, cls))
    )


def _has_no_length(module: Module, cls: ir.Class) -> bool:
    """Whether no method in sight makes an object of a class false."""
    if not bases_in_sight(module, cls) or any(method(module, cls, name) is not None for name in _FALSE_BY):
        return False
    bases = (name for base in cls.bases for name in module.names.of(base.value))
    return not CONTAINERS & set(bases) and all(name.startswith("torch.nn.") for name in bases)
