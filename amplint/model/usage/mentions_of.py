"""The pieces of a file in which an object or a function is written, for questions about all that is done with it."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from amplint.model.calls.call_sites import names_of
from amplint.model.names.reaching_definitions import returned
from amplint.model.objects.access_paths import word_of
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.queries import Nodes, assigned
from amplint.model.torch_facts.names import AUTOCAST, OLD_AUTOCAST

if TYPE_CHECKING:
    from amplint.model import Module


# What is written where a gradient is stored.
STORES_GRAD = re.compile(r"\bgrad\b[^=\n]*=")


def near_kept(module: Module, keys: Collection[str]) -> Nodes:
    """The nodes near every mention of the objects that have one of some keys, under whatever name."""
    return module.whole.near(*words_of(module, keys))


def words_of(module: Module, keys: Collection[str]) -> tuple[str, ...]:
    """Words of which one stands in each mention of an object that has one of some keys."""
    known, words, more = objects(module), set[str](), {word_of(key) for key in keys}
    while more - words and "" not in more:
        words |= more
        near = module.whole.near(*sorted(words))
        for value in (value for key in keys for value in known.with_key(near, key)):
            more.update(assigned(value))
            function = ir.function_of(value) if isinstance(value.parent, ir.Return) else None
            more.update([function.name] if function is not None else ())  # a property
    return tuple(sorted(words)) if "" not in more else ("",)


def keys_made_by(module: Module, *classes: str) -> set[str]:
    """The keys of what is assigned an object of one of some classes."""
    return {key for made in module.calls_of(*classes) for key in objects(module).assigned_to(made)}


def near_scalers(module: Module) -> Nodes:
    """The nodes near every mention of a scaler."""
    return near_kept(module, objects(module).every_scaler())


def near_regions(module: Module) -> Nodes:
    """The nodes near every construction of an autocast object, and every mention of what keeps or gives one."""
    return module.whole.near(*module.once(_words_of_regions))


def _words_of_regions(module: Module) -> tuple[str, ...]:
    words = set(module.words(AUTOCAST, *OLD_AUTOCAST))
    for value in module.meaning(AUTOCAST, *OLD_AUTOCAST):
        function, statement = ir.function_of(value), ir.statement_of(value)
        if function is not None and (function.is_generator or returned(function)):
            words.add(function.name)
        words |= {ir.last_name(each) for each in statement.targets} if isinstance(statement, ir.Assign) else set()
    return tuple(sorted(words - {""}))


def near_definition(module: Module, what: ir.Function | ir.Class) -> Nodes:
    """The nodes near every mention of a function or class by its name, or by one that an import gives it."""
    return module.whole.near(*names_of(module, what))
