"""Options of a run that the code sets itself: `args.amp = True`, after the command line said otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.objects.access_paths import word_of
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import dominates
from amplint.model.syntax.scopes import owner_class

if TYPE_CHECKING:
    from amplint.model import Module


def set_before(module: Module, value: ir.Value) -> ir.Value | None:
    """The True or False that an option of an object surely has where it is read, because it was set to it before.

    Only where one function sets and reads it, and never to anything else: what others read may be from before or after.
    """
    if not isinstance(value, (ir.Attribute, ir.Subscript)) or not isinstance(value.base, ir.Name):
        return None
    of_self = isinstance(value, ir.Attribute) and owner_class(value) is not None
    key = objects(module).raw(value) if not of_self else None
    if key is None:
        return None
    sets = module.once(_sets, key)
    if not sets or not module.once(_is_of_one_function, key):
        return None
    before = (each for each in sets if each.id < value.id)
    return sets[0].value if any(dominates(each, value) for each in before) else None


def _sets(module: Module, key: str) -> list[ir.Assign]:
    """The statements that set an option, where all set it to one of True and False."""
    found = [
        each
        for each in module.whole.near(word_of(key)).statements
        if isinstance(each, ir.Assign) and any(objects(module).raw(target) == key for target in each.targets)
    ]
    literals = [each.value.value if isinstance(each.value, ir.Constant) else None for each in found]
    return found if all(isinstance(one, bool) and one is literals[0] for one in literals) else []


def _is_of_one_function(module: Module, key: str) -> bool:
    """Whether one function has all attributes and items of an option's name."""
    word = word_of(key)
    named = {
        ir.function_of(each)
        for each in module.whole.near(word).values
        if (isinstance(each, ir.Attribute) and each.attr == word and not _is_torchs(module, each))
        or (isinstance(each, ir.Subscript) and isinstance(each.index, ir.Constant) and each.index.value == word)
    }
    return len(named) == 1


def _is_torchs(module: Module, value: ir.Attribute) -> bool:
    """Whether an attribute is a module or name of torch's: `torch.amp`."""
    return any(name.startswith("torch.") for name in module.names.of(value))
