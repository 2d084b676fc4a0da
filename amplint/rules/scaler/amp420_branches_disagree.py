"""Of two branches, with and without the scaler, only one clips, clears gradients, or steps scheduler or optimizers.

## What it does
Compares the branches of `if use_amp: ... else: ...`. One of them trains through a scaler, the other one without, and
otherwise they are equal. Finds what only one of the branches does:

- running backward, clearing the gradients, clipping, or dividing the loss;
- stepping the scheduler, or a further optimizer;
- accumulating gradients: stepping in each k-th iteration instead of each iteration;
- setting the learning rate in the `step()` of a wrapper around the optimizer;
- updating a moving average of the weights;
- using a name that the file never defines.

Also finds, as *likely*:

- a scaler that is created only with AMP, or is None without AMP, and is used by code that also runs without AMP;
- a scaler that is None without CUDA, and is used by code that asks only for AMP;
- an AMP option that the program's `argparse` parser doesn't declare;
- a variable that only one of the branches sets, and that is read after them, also if the branches only make the
  optimizer;
- two branches, with and without autocast, that compute different losses: one has another constant factor or one more
  term, or unpacks a different number of values from
  the same call;
- in a function that evaluates, `torch.no_grad()` in only one of the branches.

A missing clip is only *likely* if only the branch with the scaler clips, as float16 may be the reason. A missing
moving average is always only *likely*.

amplint reports nothing:

- if the function, or one of its callers in the file, does the same before or after the `if`;
- if the branches differ in anything else: each may then have its own purpose. Only a missing clip may still be
  reported, as *likely*.

## Why is this bad?
Usually one of the branches is used every day, and the other one is forgotten. Training with the forgotten branch then
adds up the gradients of all iterations, does not clip, never trains a part of the model, or raises.

## Example
```python
if use_amp:
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
else:
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
```

## Use instead
```python
optimizer.zero_grad()
if use_amp:
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
else:
    loss.backward()
    optimizer.step()
```

## Fix safety
There is no fix: amplint can't tell which branch is right. A scaler with `enabled=use_amp` needs no branches at all.

## Proof
Before the fix the test programs raise, or their update has the wrong size, because a branch doesn't clear the
gradients. Most of them run both branches from the same weights, and raise if the branches have learned different
weights.

## References
- [GradScaler](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling): "enabled"
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Confidence, Finding, Severity
from amplint.model.syntax import ir
from amplint.model.syntax.scopes import UNBOUND
from amplint.registry.rule import Rule
from amplint.rules.shared.clipping_scalers import clipped_apart, clipped_before_steps
from amplint.rules.shared.forward_branches import (
    set_apart,
    set_up_apart,
    terms_apart,
    ungraded_apart,
    unpacked_apart,
    weighed_apart,
)
from amplint.rules.shared.parallel_branches import (
    AVERAGES,
    BACKWARDS,
    CLEARS,
    CLIPS,
    DIVIDES,
    SCHEDULES,
    STEPS,
    WAITS,
    Arm,
    Difference,
    differences,
    parallel_branches,
)
from amplint.rules.shared.unbound_scalers import Missing, UnboundUse, unbound_uses
from amplint.rules.shared.undeclared_options import undeclared_options
from amplint.rules.shared.wrapped_steps import passed_steps

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(),
    triggers=(
        ".scale( & backward & step(",
        ".scale( & backward & zero_grad",
        "autocast & no_grad & else",
        "autocast & optim & else",
        "scaler & optim & else",
        "apex & optim & else",
        "autocast & inference_mode & else",
        "GradScaler & .scale(",
        "add_argument & autocast",
        "Scaler( & autocast",
        "scaler( & backward & step(",
    ),
    not_shown="verify doesn't compare branches",
    about_absence=True,
    formerly=("arms-disagree",),
)

# What gives the names of a module as a dictionary, which takes others.
_NAMES_OF_MODULE = {"builtins.globals", "builtins.locals", "builtins.vars"}
_NOTEBOOK = ("display", "get_ipython", "_")


# What happens in the arm that doesn't do it.
_MISSING = {
    CLEARS: "that branch adds up the gradients of all iterations",
    CLIPS: "that branch doesn't limit large gradients",
    DIVIDES: "the gradients of that branch are larger by the divisor",
    WAITS: "that branch steps in every iteration",
    SCHEDULES: "the learning rate of that branch never changes",
    AVERAGES: "that branch never updates the average",
    BACKWARDS: "that branch steps without gradients, and the parameters never change",
    STEPS: "that branch never trains the parameters of {}",
}
_TO_DO = {
    CLEARS: "clear the gradients",
    CLIPS: "clip",
    DIVIDES: "divide the loss",
    WAITS: "accumulate",
    SCHEDULES: "step the scheduler",
    AVERAGES: "update the average",
    BACKWARDS: "run backward",
    STEPS: "step {}",
}


_ON_PURPOSE = "amplint can't tell whether the branches differ on purpose"
_INSIDE = "amplint can't move the scaler out of the `if`; move the scaler by hand"
_NONE = "other code may check whether the scaler is None, and has to change too"
_HOW_TO_CLIP = {
    True: "unscale in this branch, and clip after the `if` in both cases",
    False: "clip in both branches, with the scaler after `unscale_()`",
}


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each thing that one arm does alone, and each name that one arm reads in vain."""
    for difference in module.once(differences):
        yield _of_one_arm(module, difference)
    for branches in module.once(parallel_branches):
        yield from _unbound(module, branches.arms)
    for each in passed_steps(module):
        wrapper = module.on_one_line(each.wrapper)
        yield rule.finding(
            module.span(each.call),
            f"this branch steps the optimizer in `{wrapper}` without `{each.cls.name}.step()`, which sets the learning "
            f"rate on {module.line(each.sets)}: the learning rate never changes; set the learning rate in this "
            "branch too",
            withheld="amplint can't tell how to set the learning rate without that step",
        )
    for clipped in clipped_apart(module):
        yield rule.finding(
            module.span(clipped.bound),
            f"this branch clips the gradients, but the branch without the scaler, on {module.line(clipped.step)}, does "
            f"not: {_MISSING[CLIPS]}; {_TO_DO[CLIPS]} in both branches",
            withheld=_ON_PURPOSE,
            confidence=Confidence.LIKELY,
        )
    said = {each.node.id for each in module.once(differences)}
    for lone in clipped_before_steps(module):
        if lone.clip.id in said:
            continue
        yield rule.finding(
            module.span(lone.clip),
            f"only the branch {_scaler(lone.scaled)} clips the gradients: {_scaler(not lone.scaled)}, the step on "
            f"{module.line(lone.step)} uses gradients that are not clipped; {_HOW_TO_CLIP[lone.scaled]}",
            withheld=_ON_PURPOSE,
            confidence=Confidence.LIKELY,
        )
    yield from _of_forwards(module)
    for flag in undeclared_options(module):
        yield rule.finding(
            module.span(flag),
            f"no option `{flag.attr}` is declared, and nothing sets `{module.text(flag)}`: this line raises "
            "AttributeError; declare the option, or read the right attribute",
            withheld="amplint can't tell which option is meant",
            confidence=Confidence.LIKELY,
        )
    for unbound in unbound_uses(module):
        yield rule.finding(
            module.span(unbound.use),
            f"{_without_scaler(module, unbound)}; {_created_anyway(module, unbound)}",
            withheld=_NONE if unbound.test is None else _INSIDE,
            confidence=Confidence.LIKELY,
        )


def _created_anyway(module: Module, unbound: UnboundUse) -> str:
    """What to do: a scaler that is switched off, where there is none now."""
    if unbound.test is None:
        return "create the scaler in that case too, with `enabled=False`"
    if not unbound.is_by_amp:
        return f"create the scaler before {module.line(unbound.test)}"
    test = module.on_one_line(unbound.test)
    if not unbound.holds:
        test = f"not {test}" if isinstance(unbound.test, (ir.Name, ir.Attribute)) else f"not ({test})"
    return f"create the scaler in every case, with `enabled={test}`"


def _without_scaler(module: Module, unbound: UnboundUse) -> str:
    name = module.on_one_line(unbound.use)
    if unbound.test is None:
        return f"{unbound.when}, `{name}` is None, and this line raises AttributeError"
    error = "AttributeError" if unbound.missing is Missing.NO_ATTRIBUTE else _unbound_error(unbound.use)
    return (
        f"`{name}` is created only in {'' if unbound.holds else 'the `else` of '}the `if` on "
        f"{module.line(unbound.test)}: if `{module.on_one_line(unbound.test)}` is "
        f"{'false' if unbound.holds else 'true'}, this line raises {error}"
    )


def _unbound_error(use: ir.Value) -> str:
    """What Python raises where a variable that is read is not set."""
    return "NameError" if ir.function_of(use) is None else "UnboundLocalError"


def _of_forwards(module: Module) -> Iterator[Finding]:
    """In what branches in a region of autocast and without one differ as they compute a loss."""
    for pair in weighed_apart(module):
        factor, other = module.text(pair.factor), module.text(pair.other)
        yield rule.finding(
            module.span(pair.factor),
            f"the branch with autocast multiplies the loss by {factor}, the otherwise equal branch on "
            f"{module.line(pair.other)} by {other}: the branches train with different losses; use the same factor",
            withheld="amplint can't tell which factor is right",
            confidence=Confidence.LIKELY,
        )
    for each in ungraded_apart(module):
        yield rule.finding(
            module.span(each.context),
            f"this branch computes without gradients, but the branch {_precision(not each.region)}, on "
            f"{module.line(each.other.statements[0])}, does not: that branch keeps activations for a backward pass "
            f"that never comes; put `{module.on_one_line(each.context)}` around both branches",
            withheld="amplint can't indent the branches; do that by hand",
            confidence=Confidence.LIKELY,
        )
    for taken in unpacked_apart(module):
        one, other = _values(taken.own), _values(taken.others)
        what = "one of the branches raises"
        if taken.like is not None:
            other, what = f"{other}, like {module.line(taken.like)}", "this branch raises"
        yield rule.finding(
            module.span(taken.statement),
            f"this branch takes {one} from `{module.on_one_line(taken.call)}`, but the branch "
            f"{_precision(not taken.region)}, on {module.line(taken.other)}, takes {other}: {what}; take the same "
            "number of values in both",
            withheld="amplint can't tell what the call returns",
            confidence=Confidence.LIKELY,
        )
    for lone in set_apart(module):
        name, error = lone.use.name, _unbound_error(lone.use)
        yield rule.finding(
            module.span(lone.use),
            f"only the branch {_precision(lone.region)} sets `{name}`, on {module.line(lone.binding)}: after the other "
            f"branch this line raises {error}; set `{name}` in both branches",
            withheld=f"amplint can't tell what `{name}` should be in the other branch",
            confidence=Confidence.LIKELY,
        )
    for read in set_up_apart(module):
        name, error = read.use.name, _unbound_error(read.use)
        asked = f"`{module.on_one_line(read.statement.test)}` is {'false' if read.holds else 'true'}"
        yield rule.finding(
            module.span(read.use),
            f"only one branch of the `if` on {module.line(read.statement)} sets `{name}`, on "
            f"{module.line(read.binding)}: if {asked}, this line raises {error}; set `{name}` in both branches",
            withheld=f"amplint can't tell what `{name}` should be in the other branch",
            confidence=Confidence.LIKELY,
        )
    for added in terms_apart(module):
        yield rule.finding(
            module.span(added.statement),
            f"this branch adds `{module.on_one_line(added.term)}` to the loss, but the branch "
            f"{_precision(not added.region)}, on {module.line(added.other.statements[0])}, does not: the branches "
            "train with different losses; compute the loss once for both branches",
            withheld="amplint can't tell which loss is right",
            confidence=Confidence.LIKELY,
        )


def _values(count: int) -> str:
    return f"{count} values" if count > 1 else "a loss"


def _scaler(scaled: bool) -> str:
    return "with the scaler" if scaled else "without the scaler"


def _precision(region: bool) -> str:
    return "with autocast" if region else "without autocast"


def _of_one_arm(module: Module, found: Difference) -> Finding:
    what, missing, to_do = found.what, _MISSING[found.what], _TO_DO[found.what]
    if found.steps:
        names = " and ".join(f"`{module.on_one_line(_optimizer(each, found.arm.scaled))}`" for each in found.steps)
        of = "the optimizers" if len(found.steps) > 1 else "the optimizer"
        what, missing, to_do = f"{what} {of} {names}", missing.format(names), to_do.format(names)
    unscaled = found.what == CLIPS and not found.arm.scaled
    where = " (after `unscale_()`)" if unscaled else ""
    return rule.finding(
        module.span(found.node),
        f"this branch {what}, but the branch {_scaler(not found.arm.scaled)}, on "
        f"{module.line(found.other.block.statements[0])}, does not: {missing}; {to_do} in both branches{where}",
        withheld=_ON_PURPOSE,
        confidence=Confidence.LIKELY if _may_be_meant(found) else Confidence.CERTAIN,
    )


def _may_be_meant(found: Difference) -> bool:
    """Whether something out of sight may be why only one arm does it."""
    return found.what == AVERAGES or (found.what == CLIPS and (found.arm.scaled or not found.alike))


def _optimizer(step: ir.Call, scaled: bool) -> ir.Value:
    """The optimizer that a call steps: `scaler.step(optimizer)` or `optimizer.step()`."""
    assert isinstance(step.func, ir.Attribute)
    return step.args[0].value if scaled else step.func.base


def _unbound(module: Module, arms: list[Arm]) -> Iterator[Finding]:
    """The names in one arm alone that the file binds nowhere, and Python neither."""
    missing = [
        {
            value.name: value
            for value in reversed(list(ir.values_below(arm.block)))
            if isinstance(value, ir.Name) and not value.bound and module.names.of(value) == {UNBOUND + value.name}
        }
        for arm in arms
    ]
    for own in missing:
        for name, value in own.items():
            if name in _NOTEBOOK or name.startswith("__") or sum(name in each for each in missing) > 1:
                continue
            if _may_bind(module):
                return
            yield rule.finding(
                module.span(value),
                f"`{name}` is not defined in this file: this branch raises NameError; define the name, or "
                "write what the other branches do",
                withheld=f"amplint can't tell what replaced `{name}`",
            )


def _may_bind(module: Module) -> bool:
    """Whether the file puts names where no binding shows them: `exec(text)`, `globals()[name] = value`."""
    calls = [call for call in module.calls_of(*_NAMES_OF_MODULE) if not call.args]
    read = [call for call in calls if isinstance(call.parent, (ir.Compare, ir.Subscript)) and not _is_stored_in(call)]
    return bool(module.calls_of("builtins.exec")) or len(read) < len(calls)


def _is_stored_in(names: ir.Call) -> bool:
    """Whether an entry of a dictionary is assigned to."""
    item, statement = names.parent, ir.statement_of(names)
    return isinstance(statement, ir.Assign) and item in statement.targets
