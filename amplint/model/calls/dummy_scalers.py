"""Classes of the project that take the place of a scaler: `DummyScaler`, whose `scale` gives the loss back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.calls.external_calls import local_class, method
from amplint.model.names.reaching_definitions import only_reaching, returned
from amplint.model.syntax import ir

if TYPE_CHECKING:
    from amplint.model import Module


def makes_dummy_scaler(module: Module, made: ir.Value) -> bool:
    """Whether a call makes an object whose `scale` gives back what it is given."""
    cls = local_class(module, made.func) if isinstance(made, ir.Call) else None
    function = method(module, cls, "scale") if cls is not None else None
    if function is None or function.decorators:
        return False
    given = [each.value for each in returned(function)]
    return bool(given) and all(
        isinstance(each, ir.Name) and ir.parameter_of(only_reaching(module.names, each)) is function for each in given
    )
