"""Loops over optimizers: which objects a loop's variables stand for, round by round."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.external_calls import local_function
from amplint.model.names.tables import items_of
from amplint.model.objects.access_paths import word_of
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.call_context import CallContext
from amplint.model.objects.key_parts import item_of, unnamed_id, unnamed_key
from amplint.model.objects.loop_sources import zipped
from amplint.model.objects.terms import Term, literal
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned

if TYPE_CHECKING:
    from amplint.model import Module

# A container that can't be seen is taken to hold two.
_SOME = 2
_MANY = 8
_USES = ("parameters", "step", "zero_grad", "unscale_", "update", "scale", "param_groups")
# What may be called with an optimizer. `update` is not: a scaler's takes none, and a meter's takes anything.
_TAKES = tuple(each for each in _USES if each not in ("update", "param_groups"))


class Round(NamedTuple):
    """What the names of a loop stand for in one round: the keys of objects, or the places in a container.

    `others`: the names that it binds to something else.
    """

    objects: dict[str, str]
    places: dict[str, Term]
    others: tuple[str, ...] = ()

    @property
    def keys(self) -> dict[str, str]:
        """What each of the names is known by."""
        return {**self.objects, **{own: str(place) for own, place in self.places.items()}}

    def only(self, names: Container[str]) -> Round:
        """Some of the names."""
        return Round(
            {own: key for own, key in self.objects.items() if own in names},
            {own: place for own, place in self.places.items() if own in names},
        )


class Containers:
    """Reads the containers of scalers and optimizers of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._objects = objects(module)
        self._displays: dict[str, ir.Value | None] = {}
        self._in_loops: dict[int, tuple[list[ir.Name], list[ir.Name]]] = {}  # target -> its names, where they are read

    def rounds(self, target: ir.Value, source: ir.Value, body: Iterable[ir.Value]) -> list[Round] | None:
        """For each round what the target's names stand for; None for a loop over anything else.

        `body`: every value of the loop's body.
        """
        names, values = self._names_of(target, body)
        indexes = self._indexes(target, source, values)
        if indexes is not None:
            return [Round({}, places) for places in indexes]
        used = any(self._is_used(name, values) for name in names)
        used = used or (self._in_sight(source) and any(self._is_passed_on(name, values) for name in names))
        used = used or any(self._is_used_by_callees(name, values) for name in names)
        aligned = self._aligned(target, source) if used and all(map(self._is_loops, names)) else None
        if aligned is None:
            return None
        bound = [self._objects.raw_variable(name.scope, name.name) for name in names]
        rounds = [Round(keys, self._counted(target, source, number)) for number, keys in enumerate(aligned)]
        return [each._replace(others=tuple(own for own in bound if own not in each.keys)) for each in rounds]

    def _counted(self, target: ir.Value, source: ir.Value, number: int) -> dict[str, Term]:
        """The place that a loop over `enumerate` counts, as one of its target's names, in a round."""
        if not isinstance(source, ir.Call) or not isinstance(target, ir.Sequence) or len(target.items) != 2:
            return {}
        name = target.items[0]
        from_zero = len(source.args) == 1 and self._module.names.of(source.func) == {"builtins.enumerate"}
        if not from_zero or not isinstance(name, ir.Name) or not self._is_loops(name):
            return {}
        return {self._objects.raw_variable(name.scope, name.name): literal(number)}

    def _names_of(self, target: ir.Value, body: Iterable[ir.Value]) -> tuple[list[ir.Name], list[ir.Name]]:
        """The names of a loop's target, and where a loop's body has them."""
        if target.id not in self._in_loops:  # of a name only whether it is the target's matters
            bound = {each.name: each for each in ir.walk_values(target) if isinstance(each, ir.Name)}
            self._in_loops[target.id] = (
                list(bound.values()),
                [each for each in body if isinstance(each, ir.Name) and each.name in bound],
            )
        return self._in_loops[target.id]

    def _is_loops(self, name: ir.Name) -> bool:
        """Whether a variable is bound by loops only."""
        return not any(isinstance(each, Assigned) for each in self._objects.bindings(name))

    def _is_used(self, name: ir.Name, values: Sequence[ir.Name]) -> bool:
        """Whether a loop's variable is used as a scaler or optimizer."""
        for value in values:
            if value.name == name.name and not value.bound:
                parent = value.parent
                if isinstance(parent, ir.Attribute) and parent.attr in _USES:
                    return True
                if isinstance(parent, ir.Call) and parent.func is not value:
                    if self._objects.is_optimizer(value) is not None or ir.last_name(parent.func) in _TAKES:
                        return True
        return False

    def _indexes(self, target: ir.Value, source: ir.Value, values: Sequence[ir.Name]) -> list[dict[str, Term]] | None:
        """What the variable of a loop over a container's indexes or keys is, where it only asks for optimizers there:
        `for i in range(len(optimizers)): scaler.step(optimizers[i])`.
        """
        items = _items_asked(values)
        if not isinstance(target, ir.Name) or not items or not self._is_loops(target):
            return None
        table = self._indexed(source)
        base = self._objects.key(table) if table is not None else None
        used = (each for each in items if self._objects.key(each.base) == base)
        if table is None or base is None or not any(map(self._is_optimizers, used)):
            return None
        places = self._places(table, base)
        own = self._objects.raw_variable(target.scope, target.name)
        return [{own: place} for place in places] if places is not None else None

    def _places(self, table: ir.Value, base: str) -> list[Term] | None:
        """The indexes or keys of a container; its items are known by them from here on, where the file shows them."""
        display = self._display(table)
        if not isinstance(display, (ir.Sequence, ir.Mapping)) or not 0 < len(display.items) <= _MANY:
            return [literal(number) for number in range(_SOME)]
        items = items_of(self._module, display) or []
        terms = [self._objects.term(key) if key is not None else None for key, _ in items]
        places = [each for each in terms if each is not None]
        if len(places) != len(display.items):
            return None
        for place, (_, value) in zip(places, items, strict=True):
            if (key := self._objects.key(value)) is not None:
                self._objects.name_item(item_of(base, place), key)
        return places

    def _is_optimizers(self, item: ir.Value) -> bool:
        """Whether an item is used as a scaler or optimizer."""
        up = item.parent
        if isinstance(up, ir.Attribute):
            return up.attr in _USES
        return isinstance(up, ir.Call) and up.func is not item and ir.last_name(up.func) in _TAKES

    def _indexed(self, source: ir.Value) -> ir.Value | None:
        """The container whose indexes or keys a loop runs over."""
        if isinstance(source, ir.Call) and self._module.names.of(source.func) == {"builtins.range"}:
            length = source.positional[0] if len(source.positional) == 1 else None
            if isinstance(length, ir.Call) and self._module.names.of(length.func) == {"builtins.len"}:
                return length.positional[0] if length.positional else None
            return None
        table = ir.called_on(source, "keys")
        return source if table is None and isinstance(source, (ir.Name, ir.Attribute)) else table

    def _is_passed_on(self, name: ir.Name, values: Sequence[ir.Name]) -> bool:
        """Whether a function of this file is given a loop's variable."""
        own = [value for value in values if value.name == name.name]
        calls = [value.parent for value in own if isinstance(value.parent, ir.Call) and value.parent.func is not value]
        return any(self._objects.function(self._objects.key(call.func) or "") is not None for call in calls)

    def _is_used_by_callees(self, name: ir.Name, values: Sequence[ir.Name]) -> bool:
        """Whether a function that is given a loop's variable uses it as a scaler or optimizer."""
        for value in values:
            call = value.parent
            if value.name != name.name or not isinstance(call, ir.Call) or value not in call.positional:
                continue
            function = local_function(self._module, call.func)
            is_bound = function is not None and function.cls is not None and isinstance(call.func, ir.Attribute)
            index = call.positional.index(value) + is_bound
            if function is None or call.unpacks() or index >= len(function.params):
                continue
            param = function.params[index].name
            read = [each for each in ir.values_below(function.body) if ir.is_variable(each, param)]
            if any(self._is_used(each, read) for each in read[:1]):
                return True
        return False

    def _in_sight(self, source: ir.Value) -> bool:
        """Whether what a loop runs over is written out in the file."""
        if not isinstance(source, ir.Call):
            return isinstance(self._display(source), (ir.Sequence, ir.Mapping))
        if isinstance(source.func, ir.Attribute) and not source.args:
            return self._in_sight(source.func.base)
        return bool(source.positional) and all(map(self._in_sight, source.positional))

    def _aligned(self, target: ir.Value, source: ir.Value) -> list[dict[str, str]] | None:
        """The names of a target, in each round of a loop over `source`."""
        if isinstance(target, ir.Name):
            keys = self._items(source)
            own = self._objects.raw_variable(target.scope, target.name)
            return [{own: key} for key in keys] if keys is not None else None
        if not isinstance(target, ir.Sequence):
            return None
        columns = self._columns(target, source)
        if columns is None:
            return None
        length = min(len(column) for column in columns)
        return [{own: key for column in columns for own, key in column[i].items()} for i in range(length)]

    def _columns(self, target: ir.Sequence, source: ir.Value) -> list[list[dict[str, str]]] | None:
        """The names of a target of several, each with what it is round by round, as far as it is an object."""
        parts = zipped(self._module, target, source)
        if parts is None:
            display = self._display(source)
            return self._columns_of_pairs(target, display) if isinstance(display, ir.Sequence) else None
        aligned = [self._aligned(one, other) for one, other in parts]
        return [each for each in aligned if each is not None] or None

    def _columns_of_pairs(self, target: ir.Sequence, display: ir.Sequence) -> list[list[dict[str, str]]] | None:
        """The same, of a loop over pairs that are written out."""
        rows = [each for each in display.items if isinstance(each, ir.Sequence)]
        if not rows or len(rows) != len(display.items) or any(len(row.items) != len(target.items) for row in rows):
            return None
        columns = []
        for i, item in enumerate(target.items):
            keys = [self._objects.key(row.items[i]) for row in rows] if isinstance(item, ir.Name) else []
            if isinstance(item, ir.Name) and None not in keys:
                own = self._objects.raw_variable(item.scope, item.name)
                columns.append([{own: key} for key in keys if key is not None])
        return columns or None

    def _items(self, source: ir.Value) -> list[str] | None:
        """The keys of what a loop over `source` takes, one after the other."""
        if isinstance(source, ir.Call) and isinstance(source.func, ir.Attribute):
            if source.func.attr not in ("values", "items") or source.args:
                return None
            display = self._display(source.func.base)
            if isinstance(display, ir.Mapping):
                literals = [self._objects.render(key) if key is not None else None for key, _ in display.items]
                return self._keys([value for _, value in display.items], source.func.base, literals)
            return self._some(source.func.base)
        if isinstance(source, ir.Call):
            names = self._module.names.of(source.func)
            if names and names <= {"builtins.list", "builtins.tuple", "builtins.reversed"} and source.positional:
                return self._items(source.positional[0])
            return None
        display = self._display(source)
        if isinstance(display, ir.Sequence):
            return self._keys(display.items, source)
        found = self._items(display) if isinstance(display, ir.Call) else None
        return found or self._some(source)

    def _keys(self, items: Sequence[ir.Value], source: ir.Value, names: Sequence[str | None] = ()) -> list[str] | None:
        """The keys of a display's items: their own, or, where they are made there, by `names` or their numbers."""
        if not items or len(items) > _MANY or any(isinstance(each, ir.Starred) for each in items):
            return self._some(source)
        keys = [self._objects.key(each) for each in items]
        base = self._objects.key(source)
        places = [name or str(number) for number, name in enumerate(names or [None] * len(keys))]
        found = [
            key or (item_of(base, place) if base is not None else None) for place, key in zip(places, keys, strict=True)
        ]
        return [each for each in found if each is not None] if None not in found else None

    def _some(self, source: ir.Value) -> list[str] | None:
        """The items of a container out of sight: those that are asked for by their keys, and more that aren't."""
        key = self._objects.key(source)
        if key is None:
            return None
        asked = dict.fromkeys(
            item
            for each in self._module.whole.near(word_of(key)).values
            if isinstance(each, ir.Subscript) and isinstance(each.index, ir.Constant) and self._is_optimizers(each)
            if self._objects.key(each.base) == key and (item := self._objects.key(each)) is not None
        )
        others = [each for number in range(_SOME) if (each := item_of(key, number)) not in asked]
        return [*asked, *others[: max(1, _SOME - len(asked))]][-_MANY:]

    def _display(self, value: ir.Value) -> ir.Value:
        """The display that a variable or attribute is bound to, once, here or where it was passed from."""
        sources = self._objects.sources(value) if isinstance(value, (ir.Name, ir.Attribute)) else ()
        if len(sources) == 1 and self._is_bound_once(value):
            return sources[0]
        key = self._objects.key(value) or ""
        unnamed = unnamed_id(key)
        if unnamed is not None:
            return self._module.value(unnamed)
        if key and key not in self._displays:
            self._displays[key] = self._display_at(key)
        return self._displays.get(key) or value

    def passed(self, value: ir.Value) -> str | None:
        """The key by which a callee knows a container that has no name: `clear([optimizer_a, optimizer_b])`."""
        if isinstance(value, (ir.Sequence, ir.Mapping)):
            items = [each for _, each in value.items] if isinstance(value, ir.Mapping) else value.items
            known = bool(items) and all(self._objects.key(each) is not None for each in items)
        else:
            known = isinstance(value, ir.Call) and self._items(value) is not None
        return unnamed_key(value.id) if known else None

    def _is_bound_once(self, value: ir.Value) -> bool:
        return not isinstance(value, ir.Name) or len(self._objects.bindings(value)) == 1

    def _display_at(self, key: str) -> ir.Value | None:
        """The display that the variable or attribute of a key is bound to, once."""
        found: ir.Value | None = None
        with self._objects.within(CallContext()):  # the key is one of the outermost caller's
            for target, value in self._module.once(_displays_near, word_of(key)):
                if isinstance(target, (ir.Name, ir.Attribute)) and self._objects.key(target) == key:
                    if self._is_bound_once(target) and list(self._objects.sources(target)) == [value]:
                        found = value
        return found


def _displays_near(module: Module, word: str) -> list[tuple[ir.Value, ir.Value]]:
    """The first targets of assignments of displays near a word, and the displays."""
    return [
        (each.targets[0], each.value)
        for each in module.whole.near(word).statements
        if isinstance(each, ir.Assign) and isinstance(each.value, (ir.Sequence, ir.Mapping))
    ]


def _items_asked(values: Sequence[ir.Name]) -> list[ir.Subscript]:
    """The items that a variable is the index of; none where it is read for anything else."""
    read = [each for each in values if not each.bound]
    items = [each.parent for each in read if isinstance(each.parent, ir.Subscript) and each.parent.index is each]
    return items if len(items) == len(read) else []
