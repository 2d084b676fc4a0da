"""Where the code trains in a region: which backward's loss comes out of which autocast region, and under what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.events import Events, events
from amplint.model.calls.external_calls import class_made, method
from amplint.model.calls.gradients_off import never_has_gradients
from amplint.model.inference.formulas import FALSE, TRUE, Formula, both, choice, fact, negated, present
from amplint.model.inference.value_sets import Decided, decided, is_vague
from amplint.model.inference.values import values_of
from amplint.model.names.reaching_definitions import reaching, returned
from amplint.model.names.tables import MAKES_CONTAINERS
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import Event
from amplint.model.objects.terms import path
from amplint.model.regions.openers import Open, may_be_region, openers
from amplint.model.regions.regions_at import trained_regions_round
from amplint.model.syntax import ir
from amplint.model.syntax.control import unpacked_from
from amplint.model.syntax.ir import Assigned, Other
from amplint.model.torch_facts.grad_modes import ENDS_GRADIENTS
from amplint.model.usage.frozen_models import frozen

if TYPE_CHECKING:
    from amplint.model import Module

_FOLLOW = 3
_MULTIPLY = {"Multiply"}
_MANY = 3000
# The methods that put what they are given into a list or dict.
_PUTS = {"append", "extend", "insert", "update"}


class Trained(NamedTuple):
    """A backward (or the `scale` before it), and the regions that its loss comes out of.

    `scaled`: what backward starts from was multiplied by a scaler, or may have been. `unseen`: it may also come out of
    a region that can't be seen. `multiplied`: something in what it is made of, as far as that is in sight, is a
    product, of which one factor may be a scale. `parts`: the ids of the values that the loss is, or is the sum of, of
    what those are called on, and of the targets that change it in place.
    """

    event: Event
    entered: tuple[Open, ...]
    scaled: bool
    unseen: bool
    multiplied: bool
    parts: frozenset[int]


def trained(module: Module) -> list[Trained]:
    """The backwards and scales of the file, in the order of the text."""
    return module.once(_trained)


def _trained(module: Module) -> list[Trained]:
    found = []
    calls = [*module.whole.called("backward", "scale"), *module.calls_of("torch.autograd.backward")]
    for call in {each.id: each for each in calls}.values():
        event = events(module).of(call)
        if event is not None and event.kind in ("backward", "scale") and event.subject is not None:
            found.append(trained_by(module, event, call))
    return sorted(found, key=lambda each: each.event.call.id)


def trained_by(module: Module, event: Event, call: ir.Call) -> Trained:
    """A backward or `scale` with the regions that its loss comes out of; the call is the event's."""
    slice_ = _Slice(module)
    if event.subject is not None:
        slice_.follow(event.subject)
    slice_.enter_callers()
    slice_.multiplied = slice_.multiplied or _starts_from(call)
    entered = tuple({(each.region, each.at.id): each for each in slice_.entered}.values())
    return Trained(event, entered, slice_.scaled, slice_.unseen, slice_.multiplied, frozenset(slice_.parts))


class _Step(NamedTuple):
    """A value to take in, through so many calls; `is_loss`: it is the loss or a part of it, and no input of a call."""

    value: ir.Value
    depth: int
    is_loss: bool


class _Slice:
    """What a loss is made of, and the regions round that."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._known = objects(module)
        self._calls = module.once(CallGraph)
        self._decided: Decided = decided(module)
        self._events: Events = events(module)
        self._openers = openers(module)
        self._seen: set[int] = set()
        # The functions in which something has no region of its own, and the calls by which each function was reached.
        self._open: dict[int, ir.Function] = {}
        self._sites: dict[int, list[ir.Call]] = {}
        self.entered: list[Open] = []
        self.scaled = self.unseen = self.multiplied = False
        self.parts: set[int] = set()

    def follow(self, loss: ir.Value) -> None:
        """Take in a loss, and all that it is made of, in the order of what is read."""
        left = [_Step(loss, _FOLLOW, is_loss=True)]
        while left and len(self._seen) < _MANY:
            step = left.pop()
            if step.value.id not in self._seen:
                self._seen.add(step.value.id)
                left += reversed(list(self._made_of(*step)))

    def _made_of(self, value: ir.Value, depth: int, is_loss: bool) -> Iterator[_Step]:
        """Take in a value, and give what it is made of."""
        if isinstance(value, ir.Attribute) and value.attr in ENDS_GRADIENTS:
            return
        if isinstance(value, ir.Name):
            yield from self._variable(value, depth, is_loss)
            return
        if is_loss and (forward := _left_by(value)) is not None:
            self._enter(forward, is_loss=True)
        self.multiplied = self.multiplied or (is_loss and _is_product(value))
        if isinstance(value, ir.Call):
            if never_has_gradients(self._module, value):
                return
            yield from self._call(value, depth, is_loss)
        if is_loss:
            self.parts.add(value.id)
        for child in value.children():
            yield _Step(child, depth, is_loss and (not isinstance(value, ir.Call) or child is value.func))

    def _call(self, call: ir.Call, depth: int, is_loss: bool) -> Iterator[_Step]:
        event = self._events.of(call)
        if event is not None and event.kind == "scale":
            self.scaled = True
        self._enter(call, is_loss=is_loss)
        for function in self._run_by(call) if depth else ():
            self._sites.setdefault(function.id, []).append(call)
            for each in returned(function):
                if each.value is not None:
                    yield _Step(each.value, depth - 1, is_loss)

    def _run_by(self, call: ir.Call) -> list[ir.Function]:
        """The functions that a call may run; of objects of the project's classes their `forward`."""
        callee = self._calls.find(call)
        if callee is not None:
            return [callee.function]
        if not isinstance(call.func, (ir.Name, ir.Attribute)):
            return []
        classes = (class_made(self._module, each.value) for each in values_of(self._module, call.func).leaves)
        found = (method(self._module, cls, "forward") for cls in dict.fromkeys(classes) if cls is not None)
        return [each for each in found if each is not None]

    def enter_callers(self) -> None:
        """Take in the regions in which the functions are called that open none themselves; after all is followed."""
        for function in self._open.values():
            found = trained_regions_round(self._module, function, self._sites)
            self.entered += [each for each in found if each.when is not None]
            self.unseen = self.unseen or any(each.when is None for each in found)

    def _variable(self, value: ir.Name, depth: int, is_loss: bool) -> Iterator[_Step]:
        for binding in reaching(self._module.names, value):
            if isinstance(binding, Assigned):
                yield _Step(binding.value, depth, is_loss)
                if _is_container(self._module, binding.value):
                    for each in put_into(self._module, value):
                        yield _Step(each, depth, is_loss)
            elif ir.parameter_of(binding) is not None:
                for given in self._decided.given(binding, value.name) if depth else ():
                    yield _Step(given, depth - 1, is_loss)
            elif (source := unpacked_from(binding)) is not None:
                yield _Step(source, depth, is_loss)
        for change in _increments(self._module, value):
            self.multiplied = self.multiplied or (is_loss and change.op in _MULTIPLY)
            if is_loss:
                self.parts.add(change.target.id)
            yield _Step(change.value, depth, is_loss)

    def _enter(self, call: ir.Call, *, is_loss: bool) -> None:
        """Take in the innermost region round a call, in each form that it can have.

        Where the loss itself is computed, its gradients flow, through frozen models too.
        """
        for context in self._openers.entered(call):
            if isinstance(context.at, ir.With) and not is_loss and self._is_frozen(context.at):
                continue
            inside = both(context.made, self._decided.inside(context.at))
            given = (self._given_to_switch(each.region.enabled) for each in context.opens.regions)
            inside = both(inside, *given)
            told = [each for each in context.opens.regions if each.when is not None]
            found = [
                Open(each.region, context.context, context.at, both(each.when, inside)) for each in told if each.when
            ]
            unseen = len(told) < len(context.opens.regions)
            unseen = unseen or any(may_be_region(self._module, each) for each in context.opens.unseen)
            if found or unseen:
                self.entered += [each for each in found if each.when != FALSE]
                self.unseen = self.unseen or unseen
                return
        function = ir.function_of(call)
        if function is not None:
            self._open[function.id] = function

    def _given_to_switch(self, enabled: ir.Value | None) -> Formula:
        """What the one call by which a function was reached gives for the parameters that switch a region in it: other
        calls may give something else.
        """
        function = ir.function_of(enabled) if enabled is not None else None
        sites = self._sites.get(function.id, []) if function is not None else []
        callee = self._calls.find(sites[0]) if len(sites) == 1 else None
        if enabled is None or function is None or callee is None or callee.function is not function:
            return TRUE
        given = self._calls.arguments(sites[0], callee) or {}
        found = []
        for name in {each.name for each in ir.walk_values(enabled) if isinstance(each, ir.Name)}:
            value = given.get(name)
            if value is not None and function.param(name) is not None:
                read = path(self._known.raw_variable(function.scope, name))
                on, there = self._decided.of(value), self._decided.present(value)
                found += [choice(fact(read), on, negated(on)), choice(present(read), there, negated(there))]
        return both(*(each for each in found if not is_vague(each)))

    def _is_frozen(self, at: ir.With) -> bool:
        """Whether a body calls frozen models, and none that an optimizer of the file has: no gradients flow in it."""
        still = frozen(self._module)
        if not still:
            return False
        owned = {root for roots in self._known.owns.values() for root in roots}
        called: set[str] = set()
        for each in ir.values_below(at.body):
            if isinstance(each, ir.Call):
                called |= self._keys_in(each.func)
                for arg in each.args:
                    called |= self._keys_in(arg.value)
        return bool(called & (still - owned)) and not called & owned

    def _keys_in(self, value: ir.Value | None) -> set[str]:
        """The objects that a chain of calls and attributes starts from: of `vae.encode(x).sample`, `vae`."""
        found = set()
        while isinstance(value, (ir.Call, ir.Attribute, ir.Subscript, ir.Name)):
            key = self._known.key(value) if isinstance(value, (ir.Attribute, ir.Name)) else None
            if key is not None:
                found.add(key)
            value = None if isinstance(value, ir.Name) else value.func if isinstance(value, ir.Call) else value.base
        return found


def _left_by(value: ir.Value) -> ir.Call | None:
    """The call right before a loss is read that a model has left in an attribute: `logits = model(x)`, `model.loss`."""
    if isinstance(value.parent, ir.Call) and value.parent.func is value:
        return None
    root = ir.root(value)
    if not isinstance(value, ir.Attribute) or "loss" not in value.attr.lower() or not isinstance(root, ir.Name):
        return None
    statement = ir.statement_of(value)
    before = statement.block.statements[: statement.block.statements.index(statement)]
    last = before[-1] if before else None
    made = last.value if isinstance(last, (ir.Assign, ir.Expr)) else None
    return made if isinstance(made, ir.Call) and made.args else None


def _starts_from(call: ir.Call) -> bool:
    """Whether a backward is given the gradient that it starts from, which may be a scale."""
    method = isinstance(call.func, ir.Attribute) and ir.last_name(call.func.base) != "autograd"
    return len(call.positional) > (0 if method else 1) or bool(call.keywords.keys() & {"gradient", "grad_tensors"})


def _is_product(value: ir.Value) -> bool:
    if isinstance(value, ir.Call):
        return ir.last_name(value.func) in ("mul", "mul_", "multiply", "ldexp")
    return isinstance(value, ir.Binary) and value.op in _MULTIPLY


def _increments(module: Module, name: ir.Name) -> Iterator[ir.AugAssign]:
    """What adds something to a variable, or multiplies it, in place."""
    for binding in module.names.bindings(name):
        target = binding.node if isinstance(binding, Other) else None
        if target is not None and isinstance(target.parent, ir.AugAssign) and target.parent.target is target:
            yield target.parent


def _is_container(module: Module, value: ir.Value) -> bool:
    """Whether a value is a list or dict that is written out, or made empty."""
    if isinstance(value, ir.Call):
        return bool(module.names.of(value.func) & MAKES_CONTAINERS)
    return isinstance(value, (ir.Mapping, ir.Sequence))


def put_into(module: Module, name: ir.Name) -> Iterator[ir.Value]:
    """What is put into a container that a variable holds: `losses.append(x)`, `losses["a"] += x`, `add(losses, x)`."""
    home = name.scope.home(name.name)
    for each in module.whole.near(name.name).values:
        if not isinstance(each, ir.Name) or each.name != name.name or each.scope.home(each.name) is not home:
            continue
        up = each.parent
        if isinstance(up, ir.Subscript) and up.base is each and isinstance(up.parent, (ir.Assign, ir.AugAssign)):
            stored = up.parent
            targets = stored.targets if isinstance(stored, ir.Assign) else (stored.target,)
            if up in targets and stored.value is not None:
                yield stored.value
        elif isinstance(up, ir.Attribute) and up.attr in _PUTS and isinstance(up.parent, ir.Call):
            yield from (arg.value for arg in up.parent.args)
        elif isinstance(up, ir.Call) and up.func is not each and isinstance(up.parent, ir.Expr):
            yield from (arg.value for arg in up.args if arg.value is not each)


def runs_in(module: Module, entered: Open, name: str) -> Formula:
    """That a region is entered, is on, and runs in the dtype `name`."""
    known = decided(module)
    return both(entered.when or TRUE, known.around(entered.at), known.region_runs_in(entered.region, name))
