"""`scaler.unscale_` gets one optimizer object and `scaler.step` another one, or one scaler unscales and another steps.

## What it does
Finds `scaler.unscale_(a)` followed by `scaler.step(b)`, if `b` is another optimizer with the same parameters:

- a wrapper of `a` (`b = Lookahead(a)`);
- the optimizer inside `a` (`a.optimizer`);
- a second optimizer created from the same model.

Also finds `first.unscale_(optimizer)` followed by `second.step(optimizer)`, if the file creates both scalers.

amplint reports nothing:

- if the function also calls `scaler.step(a)` or `scaler.unscale_(b)`;
- if `scaler.update()` or another `backward()` runs between `unscale_` and `step`;
- if `a` and `b` may be the same object: `b = wrap(a)`, and the function `wrap` may return `a` itself.

## Why is this bad?
A scaler keeps a state for each optimizer object. In the step of `b`, it doesn't know that the gradients were already
unscaled for `a`, and divides them by the scale a second time: at a scale of 65,536, SGD's update is that many times too
small. A second scaler divides a second time too, by its own scale.

## Example
```python
lookahead = Lookahead(optimizer)
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
scaler.step(lookahead)
```

## Use instead
```python
lookahead = Lookahead(optimizer)
scaler.scale(loss).backward()
scaler.unscale_(lookahead)
scaler.step(lookahead)
```

## Fix safety
Unsafe: `unscale_` gets the optimizer that steps. If there are two scalers, both calls get the scaler that scaled the
loss; there is no fix if amplint can't tell which scaler that is.

## Proof
The test programs are compared with a float32 reference step. Before the fix, the gradients or the update are too small
by the scale, or `unscale_` raises. After the fix they agree with the reference within float16's noise.

## References
- [GradScaler.unscale_](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.unscale_)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Edit, Finding, Fix, Severity
from amplint.fixes.statements import says_the_same
from amplint.model.calls.events import events
from amplint.model.flow.analysis import Flow, flows
from amplint.model.objects.amp_objects import given, objects
from amplint.model.objects.event import Event
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.ir import node_of
from amplint.model.syntax.nesting import exclusive, independent, upwards
from amplint.registry.rule import Rule
from amplint.rules.shared.scaler_order import receiver

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.UNSAFE,),
    triggers=("unscale_( & step(",),
    shown_by=("exception", "skips", "gradient"),
)

_OPTIMIZERS = ("torch.optim.", "torch.distributed.optim.")
# A call that can't be seen is taken at its word: one that is named so may do what the step waits for.
_WORDS = ("step", "update", "unscale", "backward")


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each unscale_ whose gradients another object's step divides again."""
    for flow in flows(module):
        for unscale in _own(module, flow, "unscale_"):
            for step in _steps_behind(module, flow, unscale):
                if step.scaler == unscale.scaler and _is_about_the_same(module, unscale, step):
                    offered, withheld = _fix_argument(module, unscale, step)
                    yield rule.finding(
                        module.span(unscale.call),
                        f"`unscale_()` gets `{_text(module, unscale)}`, but `step()` on {module.line(step.call)} gets "
                        f"`{_text(module, step)}`, with the same parameters: the scaler unscales the gradients twice; "
                        "pass the same optimizer to both",
                        fix=offered,
                        withheld=withheld,
                    )
                    break
                if _is_anothers(module, unscale, step):
                    offered, withheld = _fix_scaler(module, flow, unscale, step)
                    yield rule.finding(
                        module.span(unscale.call),
                        f"`{module.text(receiver(unscale))}` unscales, but `{module.text(receiver(step))}` steps on "
                        f"{module.line(step.call)} and unscales the gradients a second time; unscale and step with the "
                        "scaler that scaled the loss",
                        fix=offered,
                        withheld=withheld,
                    )
                    break


def _steps_behind(module: Module, flow: Flow, unscale: Event) -> Iterator[Event]:
    """The steps that may use the gradients which a call unscales, where nothing else makes that right."""
    stepped, unscaled = _own(module, flow, "step"), _own(module, flow, "unscale_")
    if any(_book(each) == _book(unscale) and not exclusive(each.call, unscale.call) for each in stepped):
        return
    for step in stepped:
        if (
            unscale.call.id < step.call.id
            and not exclusive(unscale.call, step.call)
            and not independent(unscale.call, step.call)
            and _may_be_on(flow, step)
            and not any(_book(each) == _book(step) for each in unscaled)
            and not _something_between(module, flow, unscale, step)
        ):
            yield step


def _own(module: Module, flow: Flow, *kinds: str) -> list[Event]:
    """The events of some kinds that stand in a function itself, in the order of the text."""
    return [event for event in events(module).below(flow.container.body) if event.kind in kinds]


def _book(event: Event) -> tuple[str | None, str | None]:
    """Where a scaler writes down what it has done."""
    return event.scaler, event.optimizer


def _may_be_on(flow: Flow, event: Event) -> bool:
    """Whether some path reaches a call of a scaler that is on there."""
    reached = flow.event_states.get(event.call.id)
    return reached is not None and not all(flow.disabled(str(event.scaler), state) for state in reached.states)


def _something_between(module: Module, flow: Flow, unscale: Event, step: Event) -> bool:
    """Whether new gradients or an update may come between two calls."""
    for event in _own(module, flow, "update", "backward", "zero_grad", "opaque"):
        if unscale.call.id < event.call.id < step.call.id:
            if event.kind != "opaque" or not isinstance(event.call, ir.Call):
                return True
            name = ir.last_name(event.call.func)
            if any(word in name for word in _WORDS) or isinstance(event.call.func, ir.Name):
                return True
    return False


# --- one scaler, two optimizers -------------------------------------------------------------------------------------


def _is_about_the_same(module: Module, unscale: Event, step: Event) -> bool:
    """Whether two optimizers are surely two objects, and surely for the same gradients."""
    first, second = _optimizer(unscale), _optimizer(step)
    return any(
        _is_part(module, one, other) or _wraps(module, one, other) for one, other in ((first, second), (second, first))
    ) or _of_the_same_parameters(module, first, second)


def _optimizer(event: Event) -> ir.Value:
    assert event.subject is not None
    return event.subject


def _is_part(module: Module, whole: ir.Value, part: ir.Value) -> bool:
    """Whether a value is an attribute of another one, itself an optimizer: `opt.optimizer` of `opt`."""
    known = objects(module)
    base = part
    while isinstance(base, ir.Attribute):
        base = base.base
        if known.key(base) is not None and known.key(base) == known.key(whole):
            return _says_the_same(module, whole, base)
    return False


def _says_the_same(module: Module, first: ir.Value, second: ir.Value) -> bool:
    """Whether two values of one key are one object, or run over the same collection in two loops."""
    if says_the_same(module, first, first, second):
        return True
    collections = {_collection(module, each) for each in (first, second)}
    return len(collections) == 1 and None not in collections


def _collection(module: Module, value: ir.Value) -> str | None:
    """The key of what the loop runs over whose variable a value is; `enumerate` and `values()` aside."""
    nodes = [node_of(each) for each in module.names.bindings(value)] if isinstance(value, ir.Name) else []
    for loop in upwards(ir.statement_of(value)):
        bound = [each for each in nodes if each is not None and loop in upwards(ir.statement_of(each))]
        if isinstance(loop, ir.For) and bound:
            return _runs_over(module, loop, bound[0]) if len(bound) == 1 else None
    return None


def _runs_over(module: Module, loop: ir.For, target: ir.Node) -> str | None:
    over = loop.iter
    if isinstance(over, ir.Call) and module.names.of(over.func) == {"builtins.enumerate"} and over.positional:
        over = over.positional[0]
        if not isinstance(loop.target, ir.Sequence) or loop.target.items[-1] is not target:
            return None
    elif loop.target is not target:
        return None
    if isinstance(over, ir.Call) and isinstance(over.func, ir.Attribute) and over.func.attr == "values":
        over = over.func.base
    return objects(module).key(over)


def _wraps(module: Module, wrapper: ir.Value, wrapped: ir.Value) -> bool:
    """Whether an optimizer is only ever made by a class that is given the other one."""
    known = objects(module)
    key = known.key(wrapped)
    made = _made_by(module, wrapper)
    return (
        key is not None
        and bool(made)
        and all(
            ir.last_name(call.func).lstrip("_")[:1].isupper() and any(known.key(each) == key for each in given(call))
            for call in made
        )
    )


def _of_the_same_parameters(module: Module, first: ir.Value, second: ir.Value) -> bool:
    """Whether both are optimizers of torch's, each over all parameters of one model."""
    made = [_made_by(module, each) for each in (first, second)]
    models = [_model(module, call) for calls in made for call in calls]
    keys = {objects(module).key(each) if each and _is_bound_once(module, each) else None for each in models}
    return all(made) and len(keys) == 1 and None not in keys


def _is_bound_once(module: Module, value: ir.Value) -> bool:
    """Whether nothing but one assignment, or the caller, says what a variable or attribute is."""
    if isinstance(value, ir.Name):
        return len(module.names.bindings(value)) == 1
    return isinstance(value, ir.Attribute) and len(objects(module).sources(value)) < 2


def _model(module: Module, call: ir.Call) -> ir.Value | None:
    """The model that an optimizer is made for: `SGD(model.parameters())`."""
    if not any(name.startswith(_OPTIMIZERS) for name in module.names.of(call.func)):
        return None
    params = argument(call, "torch.optim.Optimizer", "params")
    if isinstance(params, ir.Call) and isinstance(params.func, ir.Attribute) and not params.args:
        if params.func.attr == "parameters":
            return params.func.base
    return None


def _made_by(module: Module, value: ir.Value) -> list[ir.Call]:
    """The calls that make what a variable or attribute holds; none where something else may be in it."""
    if not isinstance(value, (ir.Name, ir.Attribute)):
        return []
    known = objects(module)
    sources = known.sources(value)
    calls = [each for each in sources if isinstance(each, ir.Call)]
    whole = len(known.bindings(value)) == len(sources) if isinstance(value, ir.Name) else True
    rest = [each for each in sources if not isinstance(each, ir.Call)]
    absent = all(isinstance(each, ir.Constant) and each.value is None for each in rest)
    return calls if whole and absent else []


def _fix_argument(module: Module, unscale: Event, step: Event) -> tuple[Fix | None, str | None]:
    old, new = _optimizer(unscale), _optimizer(step)
    root, first = ir.root(new), ir.root(old)
    same = isinstance(root, ir.Name) and isinstance(first, ir.Name) and root.name == first.name
    if not same and not says_the_same(module, new, unscale.call, step.call):
        return None, f"`{module.text(new)}` may be created after this line; move its creation up by hand"
    text = module.text(new)
    edits = (Edit(*module.span(old), text),)
    return Fix(Applicability.UNSAFE, f"Replace the optimizer with `{text}`, which `step()` gets", edits), None


# --- two scalers ----------------------------------------------------------------------------------------------------


def _is_anothers(module: Module, unscale: Event, step: Event) -> bool:
    """Whether one optimizer is unscaled by one scaler and stepped by another, which the file makes too."""
    if unscale.scaler == step.scaler or unscale.optimizer is None or unscale.optimizer != step.optimizer:
        return False
    made = [{each.id for each in _scalers_made(module, event)} for event in (unscale, step)]
    same = says_the_same(module, _optimizer(unscale), unscale.call, step.call)
    return same and all(made) and not made[0] & made[1]


def _scalers_made(module: Module, event: Event) -> list[ir.Call]:
    made = {each.call.id for each in objects(module).made.get(str(event.scaler), [])}
    calls = _made_by(module, receiver(event))
    return calls if all(each.id in made for each in calls) else []


def _fix_scaler(module: Module, flow: Flow, unscale: Event, step: Event) -> tuple[Fix | None, str | None]:
    scales = [event for event in _own(module, flow, "scale") if event.call.id < unscale.call.id]
    scaling = scales[-1].scaler if scales else None
    if scaling not in (unscale.scaler, step.scaler):
        return None, "amplint can't tell which scaler scaled the loss"
    right, wrong = (step, unscale) if scaling == step.scaler else (unscale, step)
    text = module.text(receiver(right))
    edits = (Edit(*module.span(receiver(wrong)), text),)
    where = "" if wrong is unscale else " in the step"
    return Fix(Applicability.UNSAFE, f"Replace the scaler{where} with `{text}`, which scaled the loss", edits), None


def _text(module: Module, event: Event) -> str:
    return module.text(_optimizer(event))
