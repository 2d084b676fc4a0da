"""What the objects of a class of settings are made with: `Settings(torch.float16, scaled=True)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.external_calls import local_class
from amplint.model.inference.declared_choices import class_of
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir

if TYPE_CHECKING:
    from amplint.model import Module


class Given(NamedTuple):
    """A call that makes an object of a class, and what it gives for a field."""

    made: ir.Call
    value: ir.Value


def given_field(module: Module, value: ir.Value) -> tuple[ir.Class, list[Given]] | None:
    """What all calls in sight give for the field that a value reads, `settings.scaled`, of the class that the object is
    declared to be of.

    Args:
        module: The file.
        value: The attribute that is read.

    Returns:
        The class, and what each call gives; None where a call doesn't show it, or none is in sight.
    """
    cls = class_of(module, value.base) if isinstance(value, ir.Attribute) else None
    if cls is None or not isinstance(value, ir.Attribute):
        return None
    calls = [each for each in module.whole.called(cls.name) if local_class(module, each.func) is cls]
    found = [(each, objects(module).kept_values(each, cls).get(value.attr)) for each in calls]
    given = [Given(made, field) for made, field in found if field is not None]
    return (cls, given) if given and len(given) == len(calls) else None
