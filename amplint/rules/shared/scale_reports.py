"""Whether the loss scale goes to more than a log where it is read: what only reports it divides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.flow.tensors import SCALE_READS
from amplint.model.flow.value_uses import COMPUTING, LOGS, reads_of
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, node_of
from amplint.model.syntax.nesting import loop_of

if TYPE_CHECKING:
    from amplint.model import Module

# Functions and methods whose result is the number that they are given, or its text.
_SAME = {"float", "int", "str", "repr", "round", "format", "item", "cpu", "detach"}
# What is asked of a dict whose entries go somewhere as a whole.
_OF_ALL = {"items", "keys", "update"}


def reads_scale(module: Module, node: ir.Node) -> bool:
    """Whether the function round a node reads the scale, for whatever purpose."""
    return bool(_reads_in(module, node))


def uses_scale(module: Module, node: ir.Node) -> bool:
    """Whether the function round a node does more with the scale than report and compare it: it may divide by hand."""
    return not all(_Uses(module).only_report(each) for each in _reads_in(module, node))


def uses_scale_before(module: Module, node: ir.Node, after: int = 0) -> bool:
    """Whether it does so before it comes to a node, or in another iteration of the loop that this is in.

    `after`: the id of another one, which divides by the scale: only what is read between the two matters.
    """
    comes_again = loop_of(node) is not None and not after
    before = [each for each in _reads_in(module, node) if after < each.id < node.id or comes_again]
    return not all(_Uses(module).only_report(each) for each in before)


def _reads_in(module: Module, node: ir.Node) -> list[ir.Attribute]:
    function = ir.function_of(node)
    return [
        value
        for value in module.whole.within(function).values
        if isinstance(value, ir.Attribute) and value.attr in SCALE_READS and ir.function_of(value) is function
    ]


def _read(value: ir.Value) -> ir.Value:
    """The call that a method is read for, or the value itself."""
    up = value.parent
    return up if isinstance(up, ir.Call) and up.func is value else value


class _Uses:
    """Follows the scale from where it is read. What can't be followed is a use."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._objects = objects(module)
        self._seen: set[str] = set()

    def only_report(self, attribute: ir.Attribute) -> bool:
        """Whether all that becomes of a read of the scale is a report, or a comparison with another scale."""
        return self._up(_read(attribute))

    def _up(self, value: ir.Value) -> bool:
        up = value.parent
        if isinstance(up, (ir.FString, ir.Expr)):
            return True
        if isinstance(up, ir.Compare):
            return all(self._is_number(each) for each in (up.left, *up.rights))
        if isinstance(up, ir.Attribute):
            return up.attr in _SAME and _read(up) is not up and self._up(_read(up))
        if isinstance(up, ir.Binary):
            return up.op == "Modulo" and isinstance(up.left, ir.Constant) and isinstance(up.left.value, str)
        if isinstance(up, ir.Call):
            return up.func is not value and self._given(up, value)
        if isinstance(up, ir.Assign):
            return value is up.value and all(self._kept(each, value) for each in up.targets)
        if isinstance(up, ir.Conditional) and up.test is value:
            return True
        return isinstance(up, (ir.Sequence, ir.Mapping, ir.Conditional, ir.Starred)) and self._up(up)

    def _is_number(self, value: ir.Value) -> bool:
        """Whether a comparison with a value says no more than how the scale itself is, or whether it changed."""
        if isinstance(value, ir.Constant):
            return True
        if isinstance(value, ir.Name):
            bound = self._objects.bindings(value)
            return bool(bound) and all(
                isinstance(each, Assigned) and not isinstance(each.value, ir.Name) and self._is_number(each.value)
                for each in bound
            )
        read = value.func if isinstance(value, ir.Call) else value
        return isinstance(read, ir.Attribute) and read.attr in SCALE_READS

    def _given(self, call: ir.Call, value: ir.Value) -> bool:
        """Whether a call that is given the scale only reports it."""
        name, names = ir.last_name(call.func), self._module.names.of(call.func)
        if name in _SAME and (name != "format" or not isinstance(call.func, ir.Attribute)):
            return self._up(call)
        if name not in LOGS or any(each.startswith(COMPUTING) and each != "builtins.print" for each in names):
            return False
        if name != "update" or not isinstance(call.func, ir.Attribute):
            return True
        if any(arg.value is value and arg.keyword for arg in call.args):
            return self._objects.is_scaler(call.func.base) is None  # a meter, `logger.update(scale=scale)`
        return isinstance(value, ir.Mapping) and self._container(call.func.base, None)

    def _kept(self, target: ir.Value, value: ir.Value) -> bool:
        """Whether a variable, or an entry of a dict, that the scale is assigned to goes nowhere else."""
        if isinstance(target, ir.Subscript):
            key = target.index.value if isinstance(target.index, ir.Constant) else None
            return self._container(target.base, key)
        if not isinstance(target, ir.Name):
            return False
        if isinstance(value, (ir.Mapping, ir.Sequence)):
            return self._container(target, None)
        if self._objects.own_key(target) in self._seen:
            return True
        return self._is_new(target) and all(map(self._up, self._reads(target)))

    def _is_new(self, target: ir.Name) -> bool:
        """Whether a variable belongs to the function; one that is come to again is being followed already."""
        key = self._objects.own_key(target)
        if key is None or any(isinstance(node_of(each), ir.Function) for each in self._objects.bindings(target)):
            return False
        self._seen.add(key)
        return True

    def _container(self, target: ir.Value, key: object) -> bool:
        """Whether a dict with the scale in it, under a key if it is known, is only reported."""
        if not isinstance(target, ir.Name):
            return False
        if self._objects.own_key(target) in self._seen:
            return True
        return self._is_new(target) and all(self._of_container(each, key) for each in self._reads(target))

    def _reads(self, target: ir.Name) -> list[ir.Value]:
        """The reads of a variable; in what is unpacked into several it is a target."""
        key = self._objects.own_key(target)
        found = reads_of(self._module, key) if key is not None else []
        return [each for each in found if not (isinstance(each, ir.Name) and each.bound)]

    def _of_container(self, read: ir.Value, key: object) -> bool:
        up = read.parent
        if isinstance(up, ir.Subscript) and up.base is read:
            if ir.is_target(up):
                return True
            index = up.index.value if isinstance(up.index, ir.Constant) else None
            return index is not None and key is not None and (index != key or self._up(up))
        if isinstance(up, ir.Attribute):
            return up.attr in _OF_ALL
        if isinstance(up, ir.Call):
            return up.func is not read and self._given(up, read)
        return isinstance(up, ir.FString)
