"""The gradient of a tensor that no optimizer owns is used without unscaling after a scaled backward pass.

## What it does
Finds a tensor that requires a gradient and that no optimizer has: `torch.zeros(1, requires_grad=True)`, an
`nn.Parameter` outside of a module, `inputs.requires_grad_()`. amplint reports the tensor if its gradient is used after
`scaler.scale(loss).backward()` in one of these ways:

- a manual update (`tensor -= lr * tensor.grad`);
- a step along the gradient (`inputs + epsilon * inputs.grad`);
- a comparison of the gradient's size with a bound.

amplint reports nothing:

- if the size of the gradient doesn't matter: `inputs.grad.sign()`, a gradient divided by its own norm, or one that is
  passed to another backward pass;
- if the function reads the scale;
- if the tensor is stored or returned, so that an optimizer elsewhere may get it;
- if the scaler is disabled.

## Why is this bad?
`scaler.unscale_` and `scaler.step` divide the gradients of an optimizer's parameters by the scale, and check them for
inf and NaN. For other tensors nothing does so: at the initial scale their steps are 65,536 times too large, they change
with the scale, and inf and NaN reach the tensor.

## Example
```python
scaler.scale(loss).backward()
with torch.no_grad():
    temperature -= 0.1 * temperature.grad
```

## Use instead
```python
# once, before the loop
optimizer.add_param_group({"params": [temperature], "lr": 0.1})

# in the loop
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
```

## Fix safety
There is no fix. Add the tensor to an optimizer, or divide its gradient by `scaler.get_scale()` and skip the update if
the gradient is not finite.

## Proof
In the test programs a model trains on the tensor's new values, and its updates are compared with a float32 reference.
The model's updates differ in the wrong programs, and agree within float16's noise in the corrected programs. The table
shows the model's updates, not the steps of the tensor.

## References
- [Gradient penalty](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-penalty), which divides
  gradients by the scale itself
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Finding, Severity
from amplint.model.calls.events import events, is_grad
from amplint.model.flow.analysis import Flow, flows
from amplint.model.names.reaching_definitions import reaching
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.event import Event
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.nesting import exclusive
from amplint.model.syntax.scopes import owner_class
from amplint.model.torch_facts.op_spellings import SAME_VALUES
from amplint.model.usage.mentions_of import near_kept
from amplint.registry.rule import Rule
from amplint.rules.shared.scale_reports import uses_scale

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(),
    triggers=(".grad & .scale( & backward & requires_grad", ".grad & .scale( & backward & Parameter("),
    not_shown="verify doesn't compare gradients of inputs and of tensors outside the optimizer",
)

_PARAMETERS = {"torch.nn.Parameter", "torch.nn.parameter.Parameter"}
_MEASURES = ("norm", "abs", "max", "mean", "sum", "item", "square")
_WORDS = ("scale", "norm", "inv")
_PRINTS = ("print", "info", "debug", "append")
_FOLLOW = 3


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each use of a scaled gradient that no optimizer sees to."""
    for flow in flows(module):
        backwards = [each for each in events(module).below(flow.container.body) if each.kind == "backward"]
        if not backwards:
            continue
        uses = _Uses(module, flow)
        for use, tensor in uses.found():
            key = str(objects(module).key(tensor))
            if _follows_scaled(module, flow, backwards, use, key) and uses.is_free(tensor, key):
                text = module.text(tensor)
                yield rule.finding(
                    module.span(use),
                    f"no optimizer has `{text}`, so nothing divides `{text}.grad` by the loss scale; divide "
                    f"`{text}.grad` by `get_scale()`, or add `{text}` to an optimizer",
                    withheld=f"amplint can't tell whether an optimizer should contain `{text}`",
                )


def _follows_scaled(module: Module, flow: Flow, backwards: list[Event], use: ir.Node, key: str) -> bool:
    """Whether the last backward before a use starts from a scaled loss on some path, and nothing divides since."""
    before = [each for each in backwards if each.call.id < use.id and not exclusive(each.call, use)]
    if not before or uses_scale(module, use):
        return False
    last = before[-1]
    beside = [each for each in before if each is last or exclusive(each.call, last.call)]
    scaled = [each for each in beside if _is_scaled(module, flow, each)]
    here = module.whole.within(ir.function_of(use))
    return bool(scaled) and not any(
        isinstance(each, (ir.Call, ir.Assign, ir.AugAssign)) and _changes(module, each, key)
        for each in (*here.calls, *here.statements)
        if scaled[0].call.id < each.id < use.id and ir.function_of(each) is ir.function_of(use)
    )


def _is_scaled(module: Module, flow: Flow, backward: Event) -> bool:
    """Whether a backward starts from `scaler.scale(loss)`, and some path reaches it with the scaler on."""
    reached, scaler = flow.event_states.get(backward.call.id), _scaler_of(module, backward.subject)
    if reached is None or scaler is None:
        return False
    return not all(flow.disabled(scaler, state) for state in reached.states)


def _scaler_of(module: Module, value: ir.Value | None) -> str | None:
    """The scaler by whose scale a loss is multiplied, by itself or under a name."""
    if isinstance(value, ir.Call):
        event = events(module).of(value)
        return event.scaler if event is not None and event.kind == "scale" else None
    if isinstance(value, ir.Name):
        found = {
            _scaler_of(module, each.value) if isinstance(each, Assigned) and isinstance(each.value, ir.Call) else None
            for each in reaching(module.names, value)
        }
        return found.pop() if len(found) == 1 else None
    return None


def _changes(module: Module, node: ir.Call | ir.Assign | ir.AugAssign, key: str) -> bool:
    """Whether a node may divide a tensor's gradient: one that stores it, works in place, or gives it to a function."""
    if not isinstance(node, ir.Call):
        return any(is_grad(each) for each in (node.targets if isinstance(node, ir.Assign) else (node.target,)))
    func = node.func
    if isinstance(func, ir.Attribute) and func.attr.endswith("_") and is_grad(func.base):
        return True
    own = isinstance(func, ir.Attribute) and _owner(module, func.base) == key
    return not own and ir.last_name(func) not in _PRINTS and any(_owner(module, arg.value) == key for arg in node.args)


def _owner(module: Module, value: ir.Value) -> str | None:
    """The key of the tensor that a value is, or whose data or gradient it is."""
    while isinstance(value, ir.Attribute) and value.attr in ("data", "grad"):
        value = value.base
    return objects(module).key(value)


class _Uses:
    """The uses of gradients in one function for which their size matters."""

    def __init__(self, module: Module, flow: Flow) -> None:
        self._module = module
        self._known = objects(module)
        self._flow = flow

    def found(self) -> Iterator[tuple[ir.Value, ir.Value]]:
        """Where a gradient is used, and the tensor whose it is."""
        container = self._flow.container
        for statement in ir.walk_statements(container.body, into=False):
            if isinstance(statement, ir.AugAssign) and statement.op in ("Add", "Subtract"):
                tensor = self._linear(statement.value)
                if tensor is not None and self._is(statement.target, tensor):
                    yield statement.value, tensor
            for root in statement.values():
                for value in ir.walk_values(root):
                    tensor = self._stepped(value) or self._measured(value)
                    if tensor is not None:
                        yield value, tensor

    def _stepped(self, value: ir.Value) -> ir.Value | None:
        """The tensor of `tensor - lr * tensor.grad` and of `tensor.sub_(lr * tensor.grad)`."""
        if isinstance(value, ir.Binary) and value.op in ("Add", "Subtract"):
            for own, step in ((value.left, value.right), (value.right, value.left)):
                tensor = self._linear(step)
                if tensor is not None and self._is(own, tensor):
                    return tensor
        if isinstance(value, ir.Call) and isinstance(value.func, ir.Attribute) and value.positional:
            if value.func.attr in ("add_", "sub_", "add", "sub"):
                tensor = self._linear(value.positional[-1])
                rest = [*value.positional[:-1], *(arg.value for arg in value.args if arg.keyword)]
                if tensor is not None and self._is(value.func.base, tensor) and all(map(self._is_plain, rest)):
                    return tensor
        return None

    def _measured(self, value: ir.Value) -> ir.Value | None:
        """The tensor of `tensor.grad.norm() > bound`."""
        if not isinstance(value, ir.Compare) or len(value.ops) != 1 or "Than" not in value.ops[0]:
            return None
        for size, bound in ((value.left, value.rights[0]), (value.rights[0], value.left)):
            inner, measured = size, False
            while isinstance(inner, ir.Call) and isinstance(inner.func, ir.Attribute) and inner.func.attr in _MEASURES:
                inner, measured = inner.func.base, True
            tensor = self._linear(inner)
            if measured and tensor is not None and self._is_plain(bound) and not _is_zero(bound):
                return tensor
        return None

    def _linear(self, value: ir.Value, depth: int = _FOLLOW) -> ir.Value | None:
        """The tensor whose gradient a value is, times something that doesn't depend on a gradient or on the scale."""
        if isinstance(value, ir.Attribute):
            if value.attr == "grad":
                return value.base if isinstance(value.base, (ir.Name, ir.Attribute)) else None
            return self._linear(value.base, depth) if value.attr == "data" else None
        if isinstance(value, ir.Call) and isinstance(value.func, ir.Attribute) and value.func.attr in SAME_VALUES:
            return self._linear(value.func.base, depth)
        if isinstance(value, ir.Unary):
            return self._linear(value.operand, depth)
        if isinstance(value, ir.Binary) and value.op in ("Multiply", "Divide"):
            for one, other in ((value.left, value.right), (value.right, value.left)):
                tensor = self._linear(one, depth)
                if tensor is not None and (one is value.left or value.op == "Multiply"):
                    return tensor if self._is_plain(other) else None
        if isinstance(value, ir.Name) and depth:
            bindings = self._known.bindings(value)
            if len(bindings) == 1 and isinstance(bindings[0], Assigned) and not self._is_changed(value):
                return self._linear(bindings[0].value, depth - 1)
        return None

    def _is_changed(self, value: ir.Name) -> bool:
        """Whether a variable is the object of a method that works in place, or is divided in place."""
        key = self._known.own_key(value)
        for call in self._module.whole.near(value.name).calls:
            if isinstance(call.func, ir.Attribute) and call.func.attr.endswith("_"):
                if isinstance(call.func.base, ir.Name) and self._known.own_key(call.func.base) == key:
                    return True
        return any(
            isinstance(each, ir.AugAssign)
            and isinstance(each.target, ir.Name)
            and self._known.own_key(each.target) == key
            for each in self._module.whole.near(value.name).statements
        )

    def _is_plain(self, value: ir.Value, depth: int = _FOLLOW) -> bool:
        """Whether a number has to do neither with a gradient nor with the scale, as far as its names tell."""
        for each in ir.walk_values(value):
            if isinstance(each, ir.Attribute) and each.attr == "grad":
                return False
            if isinstance(each, (ir.Name, ir.Attribute)):
                if any(word in ir.last_name(each).lower() for word in _WORDS):
                    return False
                if depth and not all(self._is_plain(source, depth - 1) for source in self._known.sources(each)):
                    return False
        return True

    def _is(self, value: ir.Value, tensor: ir.Value) -> bool:
        """Whether a value is the tensor, its data or a copy."""
        while True:
            if isinstance(value, ir.Call) and isinstance(value.func, ir.Attribute) and value.func.attr in SAME_VALUES:
                value = value.func.base
            elif isinstance(value, ir.Attribute) and value.attr == "data":
                value = value.base
            else:
                return self._known.key(value) == self._known.key(tensor) is not None

    # --- whose the tensor is ----------------------------------------------------------------------------------------

    def is_free(self, tensor: ir.Value, key: str) -> bool:
        """Whether the file makes a tensor that requires a gradient, and gives it to nothing that could unscale it."""
        if isinstance(tensor, ir.Attribute):
            cls = owner_class(tensor)
            if cls is None or any(ir.last_name(base.value) != "object" for base in cls.bases):
                return False
        return self._requires_gradient(tensor, key) and not any(
            self._is_given_away(value)
            for value in near_kept(self._module, {key}).values
            if isinstance(value, (ir.Name, ir.Attribute)) and self._known.key(value) == key
            if not (isinstance(value, ir.Name) and value.bound)
        )

    def _requires_gradient(self, tensor: ir.Value, key: str) -> bool:
        assert isinstance(tensor, (ir.Name, ir.Attribute))
        if any(self._makes_leaf(source) for source in self._known.sources(tensor)):
            return True
        for statement in near_kept(self._module, {key}).statements:
            if isinstance(statement, ir.Expr) and self._makes_leaf(statement.value):
                value = statement.value
                if isinstance(value, ir.Call) and isinstance(value.func, ir.Attribute):
                    if self._known.key(value.func.base) == key:
                        return True
            if isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Constant) and statement.value.value:
                for target in statement.targets:
                    if isinstance(target, ir.Attribute) and target.attr == "requires_grad":
                        if self._known.key(target.base) == key:
                            return True
        return False

    def _makes_leaf(self, value: ir.Value) -> bool:
        if not isinstance(value, ir.Call):
            return False
        given = value.keyword("requires_grad")
        if given is not None:
            return isinstance(given, ir.Constant) and given.value is True
        if isinstance(value.func, ir.Attribute) and value.func.attr == "requires_grad_":
            return all(isinstance(each, ir.Constant) and bool(each.value) for each in value.positional)
        return bool(self._module.names.of(value.func) & _PARAMETERS)

    def _is_given_away(self, value: ir.Value) -> bool:
        """Whether a mention of the tensor puts it where an optimizer, or a caller, may get at it."""
        parent = value.parent
        if isinstance(parent, (ir.Sequence, ir.Mapping, ir.Starred, ir.Return, ir.Suspend, ir.Comprehension)):
            return True
        if isinstance(parent, ir.Assign) and parent.value is value:
            return True  # it has another name as well
        if isinstance(parent, ir.Call) and parent.func is not value:
            name, statement = ir.last_name(parent.func), ir.statement_of(parent)
            made = statement.targets if isinstance(statement, ir.Assign) else ()
            return (
                any(self._known.is_optimizer(each) is not None for each in made)
                or name.lstrip("_")[:1].isupper()
                or any(word in name for word in ("optim", "param", "register", "append", "extend", "clip", "setattr"))
                or self._known.is_optimizer(parent.func) is not None
            )
        return False


def _is_zero(value: ir.Value) -> bool:
    return isinstance(value, ir.Constant) and not value.value
