"""What a load reads of a checkpoint, and the program's own checkpoint doesn't have (AMP413)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.objects.amp_objects import objects
from amplint.model.project.importers import surely_lack
from amplint.model.syntax import ir
from amplint.model.syntax.control import may_suppress
from amplint.model.syntax.nesting import upwards
from amplint.rules.shared.checkpoints import from_file, saved_by, slot_of, states
from amplint.rules.shared.other_runs import entries
from amplint.rules.shared.scaler_keepers import reads

if TYPE_CHECKING:
    from amplint.model import Module


def lacks_what_is_read(module: Module, load: ir.Call) -> tuple[str, ir.Node] | None:
    """The key that a load takes out of a checkpoint without asking for it, and what is saved without that key.

    That is a dict that is written out with the keys under which the same function loads the states of optimizers. None
    where any file of the program may write the key.
    """
    given = load.args[0].value if len(load.args) == 1 else None
    if not isinstance(given, ir.Subscript) or not isinstance(given.index, ir.Constant):
        return None
    key = given.index.value
    if not isinstance(key, str) or not from_file(module, given) or _is_caught(load):
        return None
    name = re.escape(key.encode())
    written = re.compile(rb"[\"']%s[\"']|\b(dict|update)\([^()]*\b%s\s*=" % (name, name))
    wholes = [whole for each in _beside(module, load, given.base) for whole in _saved_under(module, each)]
    if not wholes or not surely_lack(module.source.filename, written):
        return None
    if any(_may_have(module, whole, key) for whole in wholes) or _is_mentioned(module, key):
        return None
    return key, wholes[0]


def _is_caught(load: ir.Call) -> bool:
    """Whether a KeyError may be caught round a load."""
    around = (each.parent for each in upwards(ir.statement_of(load)))
    return any(isinstance(up, ir.Try) or (isinstance(up, ir.With) and may_suppress(up)) for up in around)


def _beside(module: Module, load: ir.Call, checkpoint: ir.Value) -> Iterator[str]:
    """The keys under which the function loads the states of optimizers out of the same checkpoint."""
    known = objects(module)
    for state in states(module, "load_state_dict"):
        if ir.function_of(state.call) is ir.function_of(load) and known.is_optimizer(state.of) is not None:
            for entry in entries(module, state.call):
                if known.key(entry.checkpoint) is not None and known.key(entry.checkpoint) == known.key(checkpoint):
                    yield entry.key


def _saved_under(module: Module, key: str) -> Iterator[ir.Node]:
    """The dicts that are saved with the state of an optimizer under a key."""
    for state in states(module, "state_dict"):
        slot = slot_of(module, state.call) if objects(module).is_optimizer(state.of) is not None else None
        if slot is not None and slot.key == key and saved_by(module, state.call) is not None:
            yield slot.whole


def _may_have(module: Module, whole: ir.Node, key: str) -> bool:
    """Whether a dict may have a key: it is not written out, or more is put into it under keys that aren't."""
    if not isinstance(whole, ir.Mapping) or not all(isinstance(each, ir.Constant) for each, _ in whole.items):
        return True
    if any(isinstance(each, ir.Constant) and each.value == key for each, _ in whole.items):
        return True
    made = whole.parent
    if not isinstance(made, ir.Assign):
        return not isinstance(made, ir.Call)
    return not all(isinstance(target, ir.Name) and not _gets_more(module, target) for target in made.targets)


def _gets_more(module: Module, target: ir.Name) -> bool:
    """Whether something is put into a variable's dict, but for items with keys that are written out."""
    for each in reads(module, target.scope.home(target.name), target.name):
        up = each.parent
        if isinstance(up, ir.Subscript) and not isinstance(up.index, ir.Constant):
            return True
        if isinstance(up, ir.Attribute) and up.attr not in ("keys", "items", "values", "get"):
            return True
        if isinstance(up, (ir.Starred, ir.Binary)) or (isinstance(up, ir.Assign) and up.value is each):
            return True
    return False


def _is_mentioned(module: Module, key: str) -> bool:
    """Whether the file writes a key where it doesn't just read an item: into a dict, in a test, as a keyword of one."""
    near = module.whole.near(key)
    keywords = (each for each in near.calls if ir.last_name(each.func) in ("dict", "update"))
    texts = (each for each in near.values if isinstance(each, ir.Constant) and each.value == key)
    return any(not _is_read(each) for each in texts) or any(each.keyword(key) is not None for each in keywords)


def _is_read(key: ir.Constant) -> bool:
    """Whether a key is one of an item that is read."""
    item = key.parent
    return isinstance(item, ir.Subscript) and not ir.is_target(item)
