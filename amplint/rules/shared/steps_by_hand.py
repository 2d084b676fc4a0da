"""Steps without an optimizer: `w - lr * g` for weights and what `torch.autograd.grad` gives for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.flow.value_uses import named_after_scale
from amplint.model.names.reaching_definitions import reaching
from amplint.model.objects.loop_sources import loop_source
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.control import unpacked_from
from amplint.model.syntax.ir import Assigned
from amplint.rules.shared.scale_reports import uses_scale

if TYPE_CHECKING:
    from amplint.model import Module

_GRAD = "torch.autograd.grad"
_COPIES = {"builtins.list", "builtins.tuple"}
_DIVIDES = ("div", "div_", "true_divide")
_FOLLOW = 3
# What scales a loss, or holds a scaled one.
_SCALES = re.compile(r"(?i)scale")


class StepByHand(NamedTuple):
    """A call of `torch.autograd.grad`, and what subtracts its gradients from weights.

    `divided`: something divides them before, perhaps by a scale. `sure`: what they are taken of is seen to be
    parameters of a model.
    """

    call: ir.Call
    update: ir.Node
    divided: bool
    sure: bool


def steps_by_hand(module: Module) -> Iterator[StepByHand]:
    """The steps with gradients of several weights that nothing in sight multiplies with a scale."""
    for call in module.calls_of(_GRAD):
        loss, weights, start = (argument(call, _GRAD, name) for name in ("outputs", "inputs", "grad_outputs"))
        is_one = isinstance(weights, ir.Sequence) and len(weights.items) < 2 and not weights.unpacks()
        if loss is None or weights is None or is_one or not (start is None or ir.is_none(start)):
            continue
        if any(
            isinstance(each, (ir.Name, ir.Attribute)) and _SCALES.search(ir.last_name(each))
            for each in ir.walk_values(loss)
        ):
            continue
        found = _Gradients(module, call)
        step = next(found.steps(), None) if not uses_scale(module, call) else None
        if step is not None:
            yield StepByHand(call, *step, sure=_are_parameters(module, weights))


class _Gradients:
    """Follows what one call of `torch.autograd.grad` gives, in its function."""

    def __init__(self, module: Module, call: ir.Call) -> None:
        self._module, self._call = module, call

    def steps(self) -> Iterator[tuple[ir.Node, bool]]:
        """What subtracts them from something, and whether something divides them before."""
        whole = self._module.whole.within(ir.function_of(self._call))
        nodes: list[ir.Node] = [each for each in whole.values if isinstance(each, (ir.Binary, ir.Call))]
        nodes += [each for each in whole.statements if isinstance(each, ir.AugAssign)]
        for node in sorted(nodes, key=lambda each: each.id):
            step = _subtracted(node)
            parts = list(ir.walk_values(step)) if step is not None else []
            names = [each for each in parts if isinstance(each, ir.Name)]
            if not any(map(self._is_one, names)) or any(map(_is_of_attack, parts)):
                continue
            if not any(isinstance(each, (ir.Name, ir.Attribute)) and named_after_scale(each) for each in parts):
                yield node, any(map(_divides, [*parts, *self._made_by(names)]))

    def _is_one(self, name: ir.Name) -> bool:
        """Whether a name is one of several gradients: `g` of `zip(weights, grads)`, `grads` of `grads[i]`."""
        source = loop_source(self._module, name)
        if source is not None:
            return self._has(source)
        if any(
            unpacked_from(each) is self._call and _is_of_several(each) for each in reaching(self._module.names, name)
        ):
            return True
        up = name.parent
        if not isinstance(up, ir.Subscript) or up.base is not name:
            return False
        paired = self._paired(name, up)
        return self._has(paired) if paired is not None else not isinstance(up.index, ir.Constant) and self._has(name)

    def _paired(self, name: ir.Name, item: ir.Subscript) -> ir.Value | None:
        """What `pair[0]` goes through in `map(lambda pair: pair[1] - lr * pair[0], zip(grads, weights))`."""
        function = ir.function_of(name)
        made = next((each for each in self._module.whole.near("map").calls if _maps(each, function)), None)
        zipped = made.positional[1] if made is not None and len(made.positional) == 2 else None
        number = item.index.value if isinstance(item.index, ir.Constant) else None
        if not isinstance(zipped, ir.Call) or self._module.names.of(zipped.func) != {"builtins.zip"}:
            return None
        is_place = isinstance(number, int) and 0 <= number < len(zipped.positional)
        return zipped.positional[number] if is_place and isinstance(number, int) else None

    def _has(self, value: ir.Value, depth: int = _FOLLOW) -> bool:
        """Whether a value is what the call gives, or a list of it."""
        if value is self._call:
            return True
        if not depth:
            return False
        if isinstance(value, ir.Name):
            bindings = reaching(self._module.names, value)
            return any(isinstance(each, Assigned) and self._has(each.value, depth - 1) for each in bindings)
        if isinstance(value, ir.Conditional):
            return self._has(value.then, depth) or self._has(value.other, depth)
        if isinstance(value, ir.Call):
            copied = self._module.names.of(value.func) & _COPIES
            return bool(copied) and len(value.positional) == 1 and self._has(value.positional[0], depth)
        if isinstance(value, ir.Comprehension) and len(value.elements) == 1:
            names = [each for each in ir.walk_values(value.elements[0]) if isinstance(each, ir.Name)]
            sources = [loop_source(self._module, each) for each in names]
            return any(each is not None and self._has(each, depth - 1) for each in sources)
        return False

    def _made_by(self, names: list[ir.Name]) -> Iterator[ir.Value]:
        """What the gradients of a step went through in comprehensions before."""
        sources = [loop_source(self._module, each) or each for each in names]
        for each in sources:
            for binding in reaching(self._module.names, each) if isinstance(each, ir.Name) else ():
                if isinstance(binding, Assigned) and isinstance(binding.value, ir.Comprehension):
                    yield from ir.walk_values(binding.value)


def _subtracted(node: ir.Node) -> ir.Value | None:
    """What is subtracted from something else, as in `w - lr * g`, `w.sub_(lr * g)` and `w.add_(g, alpha=-lr)`."""
    if isinstance(node, ir.Binary):
        return node.right if node.op == "Subtract" else None
    if isinstance(node, ir.AugAssign):
        return node.value if node.op == "Subtract" else None
    if not isinstance(node, ir.Call) or not node.positional:
        return None
    if ir.called_on(node, "sub", "sub_") is not None:
        return node.positional[0]
    rate = node.keyword("alpha") if ir.called_on(node, "add", "add_") is not None else None
    return node.positional[-1] if isinstance(rate, ir.Unary) else None


def _is_of_attack(value: ir.Value) -> bool:
    """Whether only the direction of a gradient is used, as an attack on inputs does."""
    return isinstance(value, ir.Call) and ir.last_name(value.func) == "sign"


def _divides(value: ir.Value) -> bool:
    if isinstance(value, ir.Call):
        return ir.last_name(value.func) in _DIVIDES
    return isinstance(value, ir.Binary) and value.op == "Divide"


def _is_of_several(binding: ir.Binding) -> bool:
    target = binding.node.parent if isinstance(binding, ir.Other) and binding.node is not None else None
    return isinstance(target, ir.Sequence) and len(target.items) > 1


def _maps(call: ir.Call, function: ir.Function | None) -> bool:
    """Whether a call is `map` with the lambda that a function is."""
    first = call.positional[0] if call.positional else None
    return ir.last_name(call.func) == "map" and isinstance(first, ir.Lambda) and first.function is function


def _are_parameters(module: Module, value: ir.Value, depth: int = _FOLLOW) -> bool:
    """Whether a value is seen to be the parameters of a model."""
    parts = list(ir.walk_values(value))
    if any(
        isinstance(each, ir.Call) and ir.last_name(each.func) in ("parameters", "named_parameters") for each in parts
    ):
        return True
    names = [each for each in parts if isinstance(each, ir.Name)] if depth else []
    bindings = [each for name in names for each in reaching(module.names, name) if isinstance(each, Assigned)]
    return any(_are_parameters(module, each.value, depth - 1) for each in bindings)
