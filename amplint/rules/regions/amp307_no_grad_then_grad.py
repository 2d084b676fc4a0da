"""In one autocast region a model runs first without gradients, and then with gradients.

## What it does
Finds a call of a model under `torch.no_grad()` or `torch.inference_mode()`, and after it, in the same autocast region,
a call of the same model with gradients. Calls may be in functions of the project that the region calls.

torch 2.11 fixed this. amplint reports only if the project declares a torch that may be older (in its requirements, or
as `target-torch`).

amplint reports only models that it sees being trained:

- the next optimizer that steps after the second call owns the model's parameters;
- if amplint can't see which parameters that optimizer has: no other model is clipped, set to `train()`, or has its
  gradients cleared by `model.zero_grad()`;
- if no optimizer steps in this function: every optimizer of the file owns the model's parameters.

amplint reports nothing:

- with `cache_enabled=False`, or with `torch.clear_autocast_cache()` between the two calls;
- if each call has its own region, or the two calls are in branches that exclude each other;
- if the model is frozen, or was called with gradients before.

## Why is this bad?
Autocast keeps the half-precision copy of each weight until the outermost region ends. Before torch 2.11, a copy that
was made without gradients was used again in a call with gradients. The gradients of these weights then stay None, or
backward raises "element 0 of tensors does not require grad and does not have a grad_fn".

## Example
```python
with torch.autocast("cuda"):
    with torch.no_grad():
        first = model(batch)
    loss = criterion(model(batch, first), target)
```

## Use instead
```python
with torch.no_grad(), torch.autocast("cuda"):
    first = model(batch)
with torch.autocast("cuda"):
    loss = criterion(model(batch, first), target)
```

## Fix safety
The fix inserts `torch.clear_autocast_cache()` after the part without gradients. Unsafe: the other weights of the region
are cast once more.

Two regions, written by hand, have the same effect only if no outer region contains them: autocast clears its cache only
when the outermost region ends.

## Proof
The test programs are not executed (shows=none): the torch that `amplint verify` runs with may already be fixed. Run by
hand with torch 2.10.0, each of them raises in backward before the fix, and trains with all its gradients after it. If
only a part of the model ran without gradients, the gradients of its weights were None with torch 2.3.1 and 2.10.0, and
right from 2.11.0 on.

## References
- [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast): `cache_enabled`
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Applicability, Finding, Fix, Severity
from amplint.base.target import nothing_declared
from amplint.fixes.inherited_arguments import module_name
from amplint.fixes.statements import line_behind, says_the_same
from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.events import events
from amplint.model.inference.formulas import TRUE, contradict
from amplint.model.inference.value_sets import decided
from amplint.model.names.grad_mode import GradMode, grad_mode
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import Region
from amplint.model.regions.openers import may_switch, openers, opens
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round
from amplint.model.syntax.nesting import exclusive, loops_round, upwards
from amplint.model.syntax.queries import is_false
from amplint.model.syntax.scopes import owner_class
from amplint.model.torch_facts.grad_modes import NO_GRAD
from amplint.model.torch_facts.signatures import CLIPS
from amplint.model.usage.frozen_models import frozen
from amplint.model.usage.mentions_of import near_regions
from amplint.registry.rule import Rule

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.UNSAFE,),
    triggers=("autocast & no_grad(", "autocast & inference_mode("),
    not_shown="verify can't see which weights a model shares between its calls",
)

_MENDED = "2.11"
_CLEAR = {"torch.clear_autocast_cache", "torch.set_autocast_cache_enabled"}
_PLAIN = {"builtins.staticmethod", "builtins.classmethod"}
_TRAINS = ("train", "zero_grad")
# Methods of a model that don't compute with its weights.
_HARMLESS = {
    "parameters", "named_parameters", "train", "eval", "to", "cuda", "zero_grad", "state_dict", "load_state_dict",
    "modules", "named_modules", "children", "buffers", "requires_grad_", "no_sync", "half", "float", "apply",
}  # fmt: skip


class _Run(NamedTuple):
    """A call of a model, or of a function that calls it.

    `without`: the statement in the region behind which the part without gradients has ended: the `with` that holds the
    call without gradients, or the call of a function that has it so; None where the call is with gradients.
    """

    call: ir.Call
    model: ir.Value
    identity: tuple[str, str]  # the model's key, the method
    without: ir.Statement | None


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each region in which the copies made without gradients are used with them."""
    if module.target == nothing_declared() or module.target.guarantees(_MENDED):
        return
    trained = module.once(_trained)
    for owner, block in _regions(module):
        runs = list(_runs(module, owner, block, trained))
        told: set[tuple[str, str]] = set()
        for first in runs:
            later = _meeting(module, owner, first, runs) if first.identity not in told else None
            if later is not None:
                told.add(first.identity)
                offered, withheld = _fix(module, first, later)
                name = module.text(first.model)
                yield rule.finding(
                    module.span(later.call),
                    f"in torch before {_MENDED}, this call gives `{name}` no gradients: autocast reuses the weights "
                    f"that it cached on {module.line(first.call)} without gradients; run this call in a region of its "
                    "own",
                    fix=offered,
                    withheld=withheld,
                )


def _meeting(module: Module, owner: ir.With | ir.Function, first: _Run, runs: list[_Run]) -> _Run | None:
    """The first call with gradients behind one without, where it meets its copies, and none comes before them."""
    if first.without is not None:
        same = [each for each in runs if each.identity == first.identity and not _apart(module, owner, first, each)]
        trained = [each for each in same if each.without is None]
        later = next((each for each in trained if each.call.id > first.call.id), None)
        before = any(each.call.id < first.call.id for each in trained)
        if later is not None and not before and _is_met(module, first, later):
            return later
    return None


def _apart(module: Module, owner: ir.With | ir.Function, one: _Run, other: _Run) -> bool:
    """Whether no run of a region makes both calls, by the tests inside of it."""
    tests = [test for each in (one, other) for test, _ in conditions_round(each.call, owner)]
    loops = [each for each in loops_round(one.call) if isinstance(owner, ir.Function) or owner in upwards(each)]
    known = objects(module)
    asked = {key for test in tests for key in known.names_in(test)}
    if any(not asked.isdisjoint(known.assigned_in(loop)) for loop in loops):
        return False  # another round may be the other's
    if exclusive(one.call, other.call):
        return True
    shared = set.intersection(*(_asked_by(module, each, owner) for each in (one, other)))
    if any(not shared.isdisjoint(known.assigned_in(each)) for each in _between(owner, one, other)):
        return False  # the tests ask for two things of one name
    decisions = decided(module)
    return contradict(*(decisions.inside(each.call, owner) for each in (one, other)))


def _between(owner: ir.With | ir.Function, one: _Run, other: _Run) -> Iterator[ir.Statement]:
    """The simple statements of a region between two calls, those left out that don't run with the one."""
    first, second = sorted((one.call.id, other.call.id))
    for each in ir.walk_statements(owner.body, into=False):
        if first < each.id < second and not any(True for _ in each.blocks()) and not exclusive(one.call, each):
            yield each


def _asked_by(module: Module, run: _Run, owner: ir.Statement) -> set[str]:
    """What the tests round a call in a region ask for."""
    known = objects(module)
    return {key for test, _ in conditions_round(run.call, owner) for key in known.names_in(test)}


def _is_met(module: Module, first: _Run, second: _Run) -> bool:
    """Whether the second call meets the copies of the first, and is to have gradients."""
    here = (each for each in (first, second) if ir.function_of(each.model) is ir.function_of(each.call))
    model = next((each.model for each in here), None)
    if model is not None and not says_the_same(module, model, first.call, second.call):
        return False
    function = ir.function_of(second.call)
    body = function.body if function is not None else module.program.body
    return _is_stepped(module, body, second) and not _clears(module, body, second.call.id)


def _is_stepped(module: Module, body: ir.Block, run: _Run) -> bool:
    """Whether the step that follows is one of the model: a critic that only judges needs no gradients itself."""
    known, key = objects(module), run.identity[0]
    kinds = ("step", "optimizer_step")
    steps = [each for each in events(module).below(body) if each.kind in kinds and each.call.id > run.call.id]
    if not steps:
        return bool(known.owns) and all(key in roots for roots in known.owns.values())
    roots = known.owns.get(str(steps[0].optimizer))
    if roots is not None:
        return key in roots
    return {each for each in module.once(_trained) if _home(each) == _home(key)} == {key}


def _home(key: str) -> str:
    """The scope or object that a key belongs to."""
    return key.partition(":")[0] if ":" in key else key.partition(".")[0]


def _fix(module: Module, first: _Run, second: _Run) -> tuple[Fix | None, str | None]:
    assert first.without is not None
    if not isinstance(first.without, (ir.With, ir.Expr, ir.Assign)) or first.without is ir.statement_of(second.call):
        return None, "the call without gradients is part of a larger statement; write the two regions by hand"
    torch = module_name(module, "torch")
    if torch is None:
        return None, "the fix needs `import torch`, which this file lacks; add that import, and run amplint again"
    edit = line_behind(module, first.without, f"{torch}.clear_autocast_cache()")
    if edit is None:
        return None, "the code without gradients is on one line with other code; write the two regions by hand"
    title = f"Insert `{torch}.clear_autocast_cache()` after the code without gradients (all weights are cast again)"
    return Fix(Applicability.UNSAFE, title, (edit,)), None


# --- regions --------------------------------------------------------------------------------------------------------


def _regions(module: Module) -> Iterator[tuple[ir.With | ir.Function, ir.Block]]:
    """The outermost regions of each function that have a cache, gradients on: a `with`, or a decorated function."""
    for statement in near_regions(module).statements:
        if isinstance(statement, ir.Function):
            if _is_region(module, statement) and not _is_without(module, statement):
                yield statement, statement.body
        elif isinstance(statement, ir.With) and _opens(module, statement) and not _grad_mode(module, statement):
            if not _is_within_one(module, statement):
                yield statement, statement.body


def _is_within_one(module: Module, statement: ir.With) -> bool:
    """Whether a `with` stands in another region of its function, or in what says something of gradients."""
    function = ir.function_of(statement)
    if function is not None and (_is_without(module, function) or _is_region(module, function)):
        return True
    around = [each for each in upwards(statement) if each is not statement and isinstance(each, ir.With)]
    return any(_opens(module, each) or _grad_mode(module, each) for each in around)


def _opens(module: Module, statement: ir.With) -> bool:
    """Whether a `with` opens a region that can be on, and has a cache."""
    return any(_has_cache(each.region) for item in statement.items for each in opens(module, item.context).regions)


def _has_cache(region: Region) -> bool:
    cache = region.cache_enabled
    cached = cache is None or (isinstance(cache, ir.Constant) and cache.value is True)
    return cached and not region.opaque and not is_false(region.enabled)


def _is_region(module: Module, function: ir.Function) -> bool:
    """Whether a function runs in a region that decorates it, one with a cache."""
    return any(_has_cache(region) for each in openers(module).decorating(function) for region, _ in each.opens.regions)


def _is_without(module: Module, function: ir.Function) -> bool:
    """Whether a function is decorated with `torch.no_grad()` or the like."""
    return any(grad_mode(module, each) is not None for each in function.decorators)


def _grad_mode(module: Module, statement: ir.With) -> str:
    """What a `with` says of gradients: "without", "either" or nothing."""
    modes = {grad_mode(module, item.context) for item in statement.items} - {None}
    return "" if not modes else "without" if modes == {GradMode.OFF} else "either"


# --- models ---------------------------------------------------------------------------------------------------------


def _runs(module: Module, owner: ir.With | ir.Function, block: ir.Block, trained: set[str]) -> Iterator[_Run]:
    """The calls of trained models in a region, those left out for which the cache or gradients can't be told."""
    known = objects(module)
    for call in ir.values_below(block):
        if not isinstance(call, ir.Call) or not isinstance(call.func, (ir.Name, ir.Attribute)):
            continue
        model: ir.Value = call.func
        method = "forward"
        key = known.key(model)
        if key not in trained and isinstance(call.func, ir.Attribute):
            model, method = call.func.base, call.func.attr
            key = known.key(model)
        if key is None or key not in trained:
            yield from _runs_below(module, owner, call, trained)
            continue
        if method in _HARMLESS:
            continue
        modes = _modes(module, call, owner)
        if modes is not None:
            yield _Run(call, model, (key, method), modes.get("without"))


def _modes(module: Module, call: ir.Call, owner: ir.Statement) -> dict[str, ir.With] | None:
    """What the `with`s round a call say of gradients, those outside of a region or function aside; the outermost.

    None where that, or what they say of autocast, can't be told.
    """
    inner = []
    for each in upwards(ir.statement_of(call)):
        if each is owner:
            break
        if isinstance(each, ir.With):
            inner.append(each)
    modes = {_grad_mode(module, each): each for each in reversed(inner)}
    return None if "either" in modes or any(_hides(module, each) for each in inner) else modes


def _runs_below(module: Module, owner: ir.With | ir.Function, call: ir.Call, trained: set[str]) -> Iterator[_Run]:
    """The calls of trained models that a function always makes which is called in a region."""
    calls = module.once(CallGraph)
    callee, modes = calls.find(call), _modes(module, call, owner)
    given = calls.arguments(call, callee) if callee is not None and callee.made is None else None
    if callee is None or given is None or modes is None or not _runs_as_it_is(module, callee.function):
        return
    for inner, off in _made_always(module, callee.function):
        within = ir.statement_of(call) if off else None
        for value, method in _called_as(inner):
            model = _outside(value, call, callee.function, given)
            key = objects(module).key(model) if model is not None else None
            if model is not None and key in trained and method not in _HARMLESS:
                yield _Run(call, model, (str(key), method), modes.get("without") or within)


def _made_always(module: Module, function: ir.Function) -> Iterator[tuple[ir.Call, bool]]:
    """The calls that a function always makes, and whether without gradients; those left out where it can't be told."""
    off = _is_without(module, function)
    for call in ir.calls_below(function.body):
        always = ir.function_of(call) is function and not conditions_round(call)
        modes = _modes(module, call, function) if always else None
        if modes is not None:
            yield call, off or "without" in modes


def _called_as(call: ir.Call) -> Iterator[tuple[ir.Value, str]]:
    """What a call may call: an object, or a method of one."""
    yield call.func, "forward"
    if isinstance(call.func, ir.Attribute):
        yield call.func.base, call.func.attr


def _runs_as_it_is(module: Module, function: ir.Function) -> bool:
    """Whether a call of a function runs its body, nothing else, and leaves autocast's cache alone."""
    plain = all(
        module.names.of(each.func if isinstance(each, ir.Call) else each) <= _PLAIN | NO_GRAD
        for each in function.decorators
    )
    return plain and not (function.is_generator or function.is_async or _clears(module, function.body))


def _clears(module: Module, body: ir.Block, before: float = inf) -> bool:
    """Whether a suite says something of the cache itself, in front of a place."""
    return any(
        module.names.of(value.func) & _CLEAR and value.id < before
        for value in ir.values_below(body)
        if isinstance(value, ir.Call)
    )


def _outside(
    value: ir.Value, call: ir.Call, function: ir.Function, given: dict[str, ir.Value | None]
) -> ir.Value | None:
    """What an object of a function is where the function is called, if it has a name there."""
    if isinstance(value, ir.Name) and function.param(value.name) is not None:
        return given.get(value.name) if len(function.scope.bindings[value.name]) == 1 else None
    if isinstance(value, ir.Attribute):
        cls = owner_class(value)
        own = isinstance(call.func, ir.Attribute) and owner_class(call.func) is cls
        return value if cls is not None and own else None
    return value if isinstance(value, ir.Name) else None


def _hides(module: Module, statement: ir.With) -> bool:
    """Whether a `with` in the region has something of its own to say of autocast."""
    for item in statement.items:
        found = opens(module, item.context)
        if any(map(may_switch, found.unseen)):
            return True
        for each, when in found.regions:
            if when != TRUE or each.enabled is not None or each.cache_enabled is not None or each.opaque:
                return True
    return False


def _trains(module: Module, call: ir.Call) -> bool:
    """`model.train()`, `model.zero_grad()`."""
    if not isinstance(call.func, ir.Attribute) or call.func.attr not in _TRAINS:
        return False
    return not any(map(is_false, call.positional)) and objects(module).is_optimizer(call.func.base) is None


def _trained(module: Module) -> set[str]:
    """The keys of the models that the file trains, none of whose weights it freezes."""
    known = objects(module)
    found = {root for roots in known.owns.values() for root in roots}
    for call in module.whole.near("clip", "clamp", *_TRAINS, *module.words(*CLIPS)).calls:
        event = events(module).of(call)
        if event is not None and event.kind == "clip" and event.subject is not None:
            found |= known.parameters_roots(event.subject)
        if _trains(module, call) and isinstance(call.func, ir.Attribute):
            found |= {key for key in (known.key(call.func.base),) if key is not None}
    still = frozen(module)
    return {each for each in found if not any(f"{key}.".startswith(f"{each}.") for key in still)}
