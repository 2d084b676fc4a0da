"""A plain GradScaler steps the optimizer of a FullyShardedDataParallel model.

## What it does
Finds `torch.amp.GradScaler(...)`, also under its older names, if the scaler steps the optimizer of a model that is
wrapped in `FullyShardedDataParallel`. If amplint can't see which parameters the optimizer has, it reports the scaler
only if one function of the file gets both the model and the scaler, calls the model and scales a loss.

Without a `sharding_strategy`, the model is sharded (FULL_SHARD). The finding is only *likely* if just some of the
possible sharding strategies shard the model.

amplint reports nothing:

- about `fully_shard` (FSDP2), with which the plain scaler is right;
- about `ShardingStrategy.NO_SHARD`, and about a `sharding_strategy` whose value amplint can't see;
- if no autocast region can be float16;
- if one flag decides both whether the model is sharded and whether the scaler is created, enabled or stepped, unless
  that is so whenever the model is sharded: the scaler may be meant for runs without sharding.

## Why is this bad?
Each rank holds the gradients of its own shard, and a plain scaler checks only those for inf and NaN. If gradients
overflow on one rank, this rank skips the step and halves its scale. The other ranks step and keep their scale. From
then on the shards of the model are from different steps, and nothing raises. `ShardedGradScaler` checks the gradients
of all ranks.

## Example
```python
model = FullyShardedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
```

## Use instead
```python
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

model = FullyShardedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters())
scaler = ShardedGradScaler("cuda")
```

## Fix safety
Unsafe: every step waits for all ranks, and a float16 loss is scaled in float16, in which it may overflow.

There is no fix:

- if arguments are positional: `ShardedGradScaler` takes the growth and backoff factors in another order;
- if the model is sharded under a condition;
- if amplint finds no place for the import.

## Proof
The test programs are not executed (shows=none): they need two processes. Run by hand on two ranks, with an overflow on
one of them: with the plain scaler one rank stays at a scale of 1,024 and the other has 512; with ShardedGradScaler both
have 512.

## References
- [FullyShardedDataParallel](https://docs.pytorch.org/docs/stable/fsdp.html)
- [Its mixed precision and ShardedGradScaler](https://docs.pytorch.org/tutorials/intermediate/FSDP_advanced_tutorial.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Edit, Finding, Fix, Severity
from amplint.fixes.imports import torch_instead
from amplint.fixes.statements import line_behind
from amplint.model.calls.external_calls import local_function
from amplint.model.inference.formulas import contradict, negated
from amplint.model.inference.value_sets import decided
from amplint.model.inference.values import values_of
from amplint.model.objects.amp_objects import Made, objects
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.ir import Imported
from amplint.model.syntax.nesting import conditions, exclusive
from amplint.model.syntax.scopes import NOTHING
from amplint.model.torch_facts.names import OLD_SCALER, SCALER
from amplint.model.usage.mentions_of import near_definition, near_kept
from amplint.registry.rule import Rule
from amplint.rules.shared.scaler_usage import (
    ScalerUsage,
    flags_in,
    float16_possible,
    linked,
    parameter_of,
    scaler_usages,
)

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.UNSAFE,),
    triggers=("GradScaler & FullyShardedDataParallel",),
    not_shown="it needs several processes",
)

_FSDP = {
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel",
}
_SHARDS = ("FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2")
_HOME, _SHARDED = "torch.distributed.fsdp.sharded_grad_scaler", "ShardedGradScaler"


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each plain scaler that steps the optimizer of a sharded model."""
    known = objects(module)
    wrapped = _wrapped(module)
    if not wrapped or not float16_possible(module):
        return
    for usage in scaler_usages(module):
        if not known.classes(usage.scaler) <= {SCALER, *OLD_SCALER}:
            continue  # one of its own class, or a sharded one on some paths
        models = {
            model for optimizer, roots in known.owns.items() if linked(module, usage, optimizer) for model in roots
        }
        models = models or {model for model in wrapped if _trains_with(module, usage, model)}
        wraps = [call for model in models for call in wrapped.get(model, ())]
        for made in known.made[usage.scaler]:
            wrap = next((each for each in wraps if not _chosen_together(module, usage, made, each)), None)
            if wrap is not None:
                offered, withheld = _fix(module, made, wrap)
                yield rule.finding(
                    module.span(made.call),
                    f"the model is sharded on {module.line(wrap)}, but a plain GradScaler sees only its own "
                    f"rank's overflows: the ranks diverge; use `{_HOME}.{_SHARDED}`",
                    fix=offered,
                    withheld=withheld,
                    confidence=_shards(module, wrap),
                )


def _trains_with(module: Module, usage: ScalerUsage, model: str) -> bool:
    """Whether a function in sight that is given both runs the model and scales with the scaler: what the optimizer owns
    is not known then, `Adam(model.groups())`.
    """
    known = objects(module)
    for call in near_kept(module, usage.keys).calls:
        function = local_function(module, call.func)
        given = {known.key(arg.value): arg.value for arg in call.args}
        own = next((given[key] for key in sorted(usage.keys) if key in given), None)
        if function is None or own is None or model not in given:
            continue
        scaler, net = parameter_of(module, function, call, own), parameter_of(module, function, call, given[model])
        called = [each.func for each in module.whole.within(function).calls]
        scales = any(
            isinstance(each, ir.Attribute) and each.attr == "scale" and ir.last_name(each.base) == scaler
            for each in called
        )
        if scales and any(isinstance(each, ir.Name) and each.name == net for each in called):
            return True
    return False


def _wrapped(module: Module) -> dict[str, list[ir.Call]]:
    """The calls that shard a model, by the keys of what holds it."""
    found: dict[str, list[ir.Call]] = {}
    for call in module.whole.near(*module.words(*_FSDP)).calls:
        names = module.names.of(call.func) - {NOTHING}
        if not names or not names <= _FSDP or _shards(module, call) is None:
            continue
        for key in _kept(module, call):
            found.setdefault(key, []).append(call)
    return found


def _kept(module: Module, call: ir.Call, depth: int = 3) -> Iterator[str]:
    """The keys of what holds the result of a call, through a function of this file that returns it."""
    at: ir.Value = call
    # `FSDP(model).to(device)`, `FSDP(model) if sharded else model`
    while isinstance(at.parent, (ir.Attribute, ir.Call, ir.Conditional)):
        up = at.parent
        if isinstance(up, ir.Call) and up.func is not at:
            break
        at = up
    statement = at.parent
    if isinstance(statement, ir.Assign) and statement.value is at:
        known = objects(module)
        keys = set(filter(None, map(known.key, statement.targets)))
        yield from keys
        for each in near_kept(module, keys).statements if depth else ():
            if isinstance(each, ir.Return) and isinstance(each.value, ir.Name) and known.key(each.value) in keys:
                yield from _called(module, each, depth - 1)
    elif isinstance(statement, ir.Return) and depth:
        yield from _called(module, statement, depth - 1)


def _called(module: Module, returned: ir.Return, depth: int) -> Iterator[str]:
    """The keys of what holds the results of a function that returns in one place only."""
    function = ir.function_of(returned)
    if (
        function is None
        or sum(isinstance(each, ir.Return) for each in ir.walk_statements(function.body, into=False)) > 1
    ):
        return
    for call in near_definition(module, function).calls:
        if local_function(module, call.func) is function:
            yield from _kept(module, call, depth)


def _shards(module: Module, call: ir.Call) -> Confidence | None:
    """How surely a call shards the model; None where no strategy that shards is in sight."""
    if call.unpacks():
        return None
    given = argument(call, "torch.distributed.fsdp.FullyShardedDataParallel", "sharding_strategy")
    if given is None:
        return Confidence.CERTAIN
    strategies = values_of(module, given)
    sharding = [_is_sharding(module, each.value) for each in strategies.leaves]
    if all(sharding) and strategies.is_closed:
        return Confidence.CERTAIN
    return Confidence.LIKELY if any(sharding) else None


def _is_sharding(module: Module, strategy: ir.Value) -> bool:
    """Whether a strategy shards; None is FULL_SHARD."""
    names = module.names.of(strategy)
    return ir.is_none(strategy) or (bool(names) and all(name.rpartition(".")[2] in _SHARDS for name in names))


def _chosen_together(module: Module, usage: ScalerUsage, made: Made, wrap: ir.Call) -> bool:
    """Whether what decides that the model is sharded also decides on the scaler: that it is made, on, or used; but not
    where it is so whenever the model is sharded.
    """
    if exclusive(made.call, wrap):
        return True
    known, decisions = objects(module), decided(module)
    sharded = decisions.around(wrap)
    deciding = {name for test in _tests(wrap, made.call) for name in flags_in(module, test)}
    others = [(decisions.around(made.call), _tests(made.call, wrap))]
    others += [(decisions.of(made.enabled), [made.enabled])] if made.enabled is not None else []
    for call in module.whole.near("step").calls:
        if isinstance(call.func, ir.Attribute) and call.func.attr == "step" and known.key(call.func.base) in usage.keys:
            others.append((decisions.around(call), _tests(call, wrap)))
    return any(
        deciding & flags_in(module, test) and not contradict(sharded, negated(when))
        for when, tests in others
        for test in tests
    )


def _tests(node: ir.Value, without: ir.Value) -> list[ir.Value]:
    """The conditions under which a call runs and another one may not."""
    found = [each.test for each in conditions(node, without)]
    up = node.parent
    while isinstance(up, ir.Value):
        if isinstance(up, ir.Conditional):
            found.append(up.test)
        up = up.parent
    return found


def _fix(module: Module, made: Made, wrap: ir.Call) -> tuple[Fix | None, str | None]:
    """Another class in the same call, imported where the wrapper is."""
    call = made.call
    if _tests(wrap, call):
        return (
            None,
            f"the model is sharded only under a condition; create a {_SHARDED} under the same condition, by hand",
        )
    old = bool(module.names.of(call.func) & set(OLD_SCALER))
    if len(call.positional) > (0 if old else 1) or call.unpacks():
        return None, f"{_SHARDED} takes its arguments in another order; first pass them by keyword"
    edits = [Edit(*module.span(call.func), _SHARDED)]
    bound = module.program.scope.bindings.get(_SHARDED, [])
    if not any(isinstance(each, Imported) and each.name == f"{_HOME}.{_SHARDED}" for each in bound):
        root = ir.root(wrap.func)
        origin = module.names.bindings(root) if isinstance(root, ir.Name) else []
        first = origin[0] if len(origin) == 1 else None
        if bound or not isinstance(first, Imported) or first.statement.block is not module.program.body:
            return None, f"amplint finds no place for the import; import `{_SHARDED}` from `{_HOME}` by hand"
        line = line_behind(module, first.statement, f"from {_HOME} import {_SHARDED}")
        if line is None:
            return None, f"amplint finds no place for the import; import `{_SHARDED}` from `{_HOME}` by hand"
        edits.append(line)
        edits += _without_import(module, call.func)
    return Fix(
        Applicability.UNSAFE, f"Replace with `{_SHARDED}` (each step then waits for all ranks)", tuple(sorted(edits))
    ), None


def _without_import(module: Module, func: ir.Value) -> list[Edit]:
    """Take out the import of a name that nothing else reads."""
    if (
        not isinstance(func, ir.Name)
        or f'"{func.name}"' in module.source.text
        or f"'{func.name}'" in module.source.text
    ):
        return []
    values = module.whole.near(func.name).values
    reads = [each for each in values if ir.is_variable(each, func.name)]
    bindings = module.names.bindings(func)
    if len(reads) > 1 or len(bindings) != 1 or not isinstance(bindings[0], Imported):
        return []
    return torch_instead(module, bindings[0].statement, bindings[0].alias, needed=False)
