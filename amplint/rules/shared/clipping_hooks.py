"""Hooks of tensors that bound gradients while backward runs: before anything can unscale them (AMP401)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_sites import CallSites
from amplint.model.calls.events import BOUNDS, is_grad
from amplint.model.calls.external_calls import ancestors, local_callable, local_function
from amplint.model.inference.formulas import contradict
from amplint.model.inference.numbers import number
from amplint.model.inference.value_sets import decided
from amplint.model.inference.values import values_of
from amplint.model.names.grad_mode import without_gradients
from amplint.model.names.reaching_definitions import returned
from amplint.model.objects.amp_objects import objects
from amplint.model.regions.training_regions import trained
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import ifs_round, loops_round
from amplint.model.torch_facts.signatures import CLIPS
from amplint.rules.shared.scaler_order import receiver
from amplint.rules.shared.scaler_usage import is_off

if TYPE_CHECKING:
    from amplint.model import Module

_HOOKS = ("register_hook", "register_post_accumulate_grad_hook")
_CLAMPS = {each.rstrip("_") for each in BOUNDS}
_LIMITS = {"builtins.max", "builtins.min", "torch.maximum", "torch.minimum", "numpy.clip"}
_NORMS = ("norm", "vector_norm", "max", "amax")
# A bound by a name that may have the scale in it, or the range of a dtype.
_COMPENSATES = re.compile(r"(?i)scale(?!r)|finfo|\binf\b")
_ASKS_FOR_GRADIENTS = re.compile(r"\.grad\b")
_SIZELESS = ("sign", "sgn", "sign_", "normalize")
_LARGEST = 1000.0  # more than this is for overflows, not for training


class ClippingHook(NamedTuple):
    """The call that registers a hook which bounds gradients, and what scales them: a scaler's call of `scale`, or the
    scaler's construction.
    """

    call: ir.Call
    scaled: ir.Call


def clipping_hooks(module: Module) -> Iterator[ClippingHook]:
    """The hooks of a file that bound the gradients of losses which a scaler multiplies."""
    for call in module.whole.near(*_HOOKS).calls:
        hook = _hook_of(call)
        if hook is None or _has_gradients(module, call) or not _bounds(module, call, hook):
            continue
        for each in _own_calls(module, call):
            if not without_gradients(module, each) and (scaled := _scaled(module, each)) is not None:
                yield ClippingHook(each, scaled)


def _has_gradients(module: Module, call: ir.Call) -> bool:
    """Whether a hook is only registered on what has a gradient already: nothing has one when a model is new."""
    asked = [each.test for each in ifs_round(call)]
    asked += [each.iter for each in loops_round(call) if isinstance(each, ir.For)]
    return any(_ASKS_FOR_GRADIENTS.search(module.text(each)) for each in asked)


def _own_calls(module: Module, call: ir.Call) -> list[ir.Call]:
    """A call, or the file's own calls of the function of another file that it is in."""
    if module.is_own(call):
        return [call]
    function = ir.function_of(call)
    return [each for each in module.once(CallSites).of(function) if module.is_own(each)] if function is not None else []


def _hook_of(call: ir.Call) -> ir.Value | None:
    if not isinstance(call.func, ir.Attribute) or call.func.attr not in _HOOKS:
        return None
    return call.positional[0] if call.positional else call.keyword("hook")


# --- what scales ------------------------------------------------------------------------------------------------------


def _scaled(module: Module, hook: ir.Call) -> ir.Call | None:
    """What scales the gradients of a hook: the loss in the same file, or a scaler that its own object keeps."""
    losses = trained(module)
    scales = [each.event for each in losses if each.event.kind == "scale"]
    functions = {ir.function_of(each.call) for each in scales}
    if any(each.event.kind == "backward" and not _goes_with(each.event.call, functions) for each in losses):
        return None  # a training without a scaler: the hook may be for that one
    for each in scales:
        if isinstance(each.call, ir.Call) and not _is_off(module, hook, receiver(each)):
            return each.call
    return _kept_scaler(module, hook) if not scales else None


def _goes_with(backward: ir.Value, functions: set[ir.Function | None]) -> bool:
    """Whether a backward is in a function that scales: of the scaled loss, or where AMP is off."""
    return ir.function_of(backward) in functions


def _is_off(module: Module, hook: ir.Call, scaler: ir.Value) -> bool:
    """Whether a scaler is disabled, or isn't enabled where the hook is registered."""
    key = objects(module).is_scaler(scaler)
    made = objects(module).made_by(key) if key is not None else []
    if made and all(each.enabled is not None and is_off(module, each.enabled) for each in made):
        return True
    known = decided(module)
    return contradict(known.inside(hook), known.scaler_on(scaler))


def _kept_scaler(module: Module, hook: ir.Call) -> ir.Call | None:
    """The construction of a scaler that the object keeps whose method registers a hook: others scale with it."""
    function = ir.function_of(hook)
    while function is not None and function.cls is None:
        function = function.outer
    own = function.cls if function is not None else None
    for cls in chain((own,), ancestors(module, own)) if own is not None else ():
        for each in ir.walk_statements(cls.body):
            for target in each.targets if isinstance(each, ir.Assign) else ():
                scaler = objects(module).is_scaler(target) if isinstance(target, ir.Attribute) else None
                if scaler is not None and objects(module).made_by(scaler) and not _is_off(module, hook, target):
                    return objects(module).made_by(scaler)[0].call
    return None


# --- what bounds ------------------------------------------------------------------------------------------------------


def _bounds(module: Module, call: ir.Call, hook: ir.Value) -> bool:
    """Whether a hook bounds its gradient by something that doesn't grow with the scale."""
    if _COMPENSATES.search(module.text(ir.statement_of(call))):
        return False
    if isinstance(hook, ir.Call) and module.names.only(hook.func) == "functools.partial" and hook.positional:
        bounds = [*hook.positional[1:], *hook.keywords.values()]
        if module.names.of(hook.positional[0]) & {"torch.clamp", "torch.clip"}:
            return _are_fixed(module, bounds)
        hook = hook.positional[0]
    function = _function(module, hook)
    if function is None or not function.params or _COMPENSATES.search(module.text(function)):
        return False
    first = function.params[function.cls is not None and len(function.params) > 1]
    return _Hook(module, function, first.name, _is_of_parameter(call)).bounds()


def _is_of_parameter(call: ir.Call) -> bool:
    """Whether a hook is given the parameter whose gradient has come, not the gradient."""
    return ir.last_name(call.func) == "register_post_accumulate_grad_hook"


def _function(module: Module, hook: ir.Value) -> ir.Function | None:
    """The function that a hook is: there, by its name, or as another function returns it."""
    if not isinstance(hook, ir.Call):
        return local_callable(module, hook)
    maker = local_function(module, hook.func)
    values = [each.value for each in returned(maker)] if maker is not None else []
    return local_callable(module, values[0]) if len(values) == 1 and values[0] is not None else None


def _are_fixed(module: Module, bounds: list[ir.Value]) -> bool:
    """Whether bounds don't come from a scale, are not all 0, and not so large that they are for overflows."""
    if any(_COMPENSATES.search(module.text(each)) for bound in bounds for each in _comes_from(module, bound)):
        return False
    numbers = [each.value for bound in bounds if (each := number(module, bound)) is not None]
    if any(each is not None and abs(each) > _LARGEST for each in numbers):
        return False
    return bool(bounds) and not (len(numbers) == len(bounds) and not any(numbers))


def _comes_from(module: Module, bound: ir.Value) -> Iterator[ir.Value]:
    """What the variables of a bound can be."""
    for each in ir.walk_values(bound):
        if isinstance(each, (ir.Name, ir.Attribute)):
            yield from (leaf.value for leaf in values_of(module, each).leaves)


class _Hook:
    """What a hook does with its gradient."""

    def __init__(self, module: Module, function: ir.Function, name: str, of_parameter: bool) -> None:
        self._module = module
        self._name, self._of_parameter = name, of_parameter
        self._statements = list(ir.walk_statements(function.body, into=False))
        self._made = self._made_of_gradient()
        self._kept = self._values_kept()

    def bounds(self) -> bool:
        """Whether it bounds the gradient, by its elements or by its norm."""
        values = [
            each for statement in self._statements for root in statement.values() for each in ir.walk_values(root)
        ]
        if any(self._clips(each) for each in values if isinstance(each, ir.Call)):
            return True
        return any(self._cuts(each) for each in self._statements if isinstance(each, ir.If))

    def _is_gradient(self, value: ir.Value) -> bool:
        if self._of_parameter:
            return is_grad(value) and self._is_named(ir.root(value))
        return self._is_named(value)

    def _is_named(self, value: ir.Value) -> bool:
        return ir.is_variable(value, self._name)

    def _mentions(self, value: ir.Value) -> bool:
        """Whether a value is computed from the gradient."""
        return any(
            self._is_gradient(each) or (isinstance(each, ir.Name) and each.name in self._made)
            for each in ir.walk_values(value)
        )

    def _made_of_gradient(self) -> set[str]:
        """The variables that are computed from the gradient."""
        self._made = set[str]()
        for each in self._statements:
            if isinstance(each, ir.Assign) and each.value is not None and self._mentions(each.value):
                self._made |= {target.name for target in each.targets if isinstance(target, ir.Name)}
        return self._made

    def _values_kept(self) -> set[int]:
        """What the gradient becomes is made of: what is returned, stored, or written to it in place."""
        ends: list[ir.Value] = []
        for each in self._statements:
            if isinstance(each, (ir.Return, ir.AugAssign, ir.Assign, ir.Expr)) and each.value is not None:
                ends += [each.value] if self._ends_in(each) else []
        kept: set[int] = set()
        while ends:
            values = list(self._results(ends.pop()))
            names = {each.name for each in values if isinstance(each, ir.Name)}
            kept |= {each.id for each in values}
            ends += [
                each.value
                for each in self._statements
                if isinstance(each, ir.Assign) and each.value is not None and each.value.id not in kept
                if any(isinstance(target, ir.Name) and target.name in names for target in each.targets)
            ]
        return kept

    def _results(self, value: ir.Value) -> Iterator[ir.Value]:
        """What a value is computed of; not what a call looks at that gives no gradient: `print(grad.clamp(-1, 1))`."""
        names = self._module.names.of(value.func) if isinstance(value, ir.Call) else set()
        if "builtins.print" in names:
            return
        yield value
        for each in value.children():
            yield from self._results(each)

    def _ends_in(self, statement: ir.Return | ir.AugAssign | ir.Assign | ir.Expr) -> bool:
        """Whether what a statement computes is what the gradient becomes."""
        if isinstance(statement, ir.Assign):
            return any(map(is_grad, statement.targets))
        return self._is_in_place(statement.value) if isinstance(statement, ir.Expr) else True

    def _is_in_place(self, value: ir.Value | None) -> bool:
        """Whether a call writes to the gradient: `grad.mul_(factor)`, `p.grad.data.copy_(...)`."""
        func = value.func if isinstance(value, ir.Call) else None
        return isinstance(func, ir.Attribute) and func.attr.endswith("_") and self._mentions(func.base)

    def _clips(self, call: ir.Call) -> bool:
        """Whether a call bounds the gradient, or a factor for it, by what isn't made of it."""
        names, last = self._module.names.of(call.func), ir.last_name(call.func)
        given = [arg.value for arg in call.args]
        if names & CLIPS:
            return any(self._is_named(each) for value in given[:1] for each in ir.walk_values(value))
        if call.id not in self._kept:
            return False
        if last.rstrip("_") in _CLAMPS:
            of_torch = any(each.startswith("torch.") for each in names)
            if not of_torch and isinstance(call.func, ir.Attribute):
                given = [call.func.base, *given]
            return bool(given) and self._grows(given[0]) and self._is_bound(given[1:])
        if names & _LIMITS:
            grow = [each for each in given if self._grows(each)]
            return bool(grow) and self._is_bound([each for each in given if each not in grow])
        return False

    def _is_bound(self, bounds: list[ir.Value]) -> bool:
        return not any(map(self._mentions, bounds)) and _are_fixed(self._module, bounds)

    def _grows(self, value: ir.Value) -> bool:
        """Whether a value grows with the gradient: its size doesn't cancel, as in `grad / grad.norm()`."""
        ratios = [each for each in ir.walk_values(value) if isinstance(each, ir.Binary) and each.op == "Divide"]
        signs = (each for each in ir.walk_values(value) if isinstance(each, ir.Call))
        if any(ir.last_name(each.func) in _SIZELESS for each in signs):
            return False
        return self._mentions(value) and not any(map(self._cancels, ratios))

    def _cancels(self, ratio: ir.Binary) -> bool:
        return self._mentions(ratio.left) and self._mentions(ratio.right)

    def _cuts(self, statement: ir.If) -> bool:
        """`if grad.norm() > limit: grad = grad * (limit / grad.norm())`."""
        test = statement.test
        sides = list(test.children()) if isinstance(test, ir.Compare) else []
        norms = [each for each in sides if self._is_norm(each)]
        others = [each for each in sides if each not in norms]
        inside = [value for each in ir.walk_statements(statement.then) for value in each.values()]
        changed = any(
            isinstance(each, ir.Binary) and each.op in ("Multiply", "Divide") and each.id in self._kept
            for value in inside
            for each in ir.walk_values(value)
        )
        return len(norms) == 1 and len(sides) == 2 and self._is_bound(others) and changed

    def _is_norm(self, value: ir.Value) -> bool:
        """The norm, or the largest element, of the gradient, maybe through a variable."""
        if isinstance(value, ir.Name) and value.name in self._made:
            made = (
                each.value
                for each in self._statements
                if isinstance(each, ir.Assign) and each.value is not None
                if any(ir.is_variable(target, value.name) for target in each.targets)
            )
            return any(self._is_norm(each) for each in made if not isinstance(each, ir.Name))
        return any(
            isinstance(each, ir.Call) and ir.last_name(each.func) in _NORMS and self._mentions(each)
            for each in ir.walk_values(value)
        )
