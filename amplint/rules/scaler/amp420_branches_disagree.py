"""Of two branches, with and without the scaler, only one clips, clears, or steps all optimizers or the scheduler.

## What it does
Compares, statement by statement, the branches of `if use_amp: ... else: ...`, of which one trains through a scaler and
one without, and which are equal except for AMP. Finds what only one of the branches does, or does in another way:

- running backward, clearing the gradients, clipping, dividing the loss;
- clipping in a call that scales and steps as well (`loss_scaler(loss, optimizer, clip_grad=1.0)`; likely);
- stepping only at every k-th iteration;
- stepping the scheduler, or a further optimizer;
- updating a moving average of the weights;
- using a name that the file never defines, or an AMP option that the program's `argparse` parser does not declare
  (likely);
- creating the scaler, if code that runs with and without AMP uses it (likely): a variable, an attribute of `self`, or a
  scaler that is None without AMP;
- multiplying the loss by another constant than the otherwise equal branch without autocast (likely);
- taking another number of values from the same call (`loss = model(x)` and `loss, logits = model(x)`; likely);
- adding a term to the loss that the other branch doesn't add (likely);
- entering `torch.no_grad()` in a function that evaluates, if the otherwise equal branch doesn't (likely);
- stepping an optimizer through the scaler, if the other branch calls `step()` of a wrapper of that optimizer, which
  also sets the learning rate.

There may be three branches (float16, bfloat16, float32), also as an `if` in an `if`. A branch may only call a function
of this file, and may be the code after an `if` that ends with `return` or `continue`.

amplint reports nothing:

- if the function, or one of its callers in the file, does the same before or after the `if`;
- if the branches differ in anything else, since each may then have its own purpose.

A clip in only one of the branches is reported even if the branches differ in something else:

- if both branches take a whole step of the same optimizers, and only the branch without the scaler clips (likely);
- if the step comes after the branches (`if use_amp: scaler.unscale_(optimizer); clip(...)`).

The finding is also likely if only the branch with the scaler clips (float16 may be the reason), or if amplint
recognizes a moving average only by its name.

## Why is this bad?
One of the branches is used every day, and the other one is forgotten. Training without AMP (or with it) then
accumulates gradients forever, is not clipped, never trains a part of the model, or raises NameError.

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
The test programs run both branches from the same weights. A branch that doesn't clear gradients steps with gradients
that were already used. The other test programs compare the weights that their two branches have learned, and raise if
they differ by more than rounding.

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
from amplint.rules.shared.forward_branches import terms_apart, ungraded_apart, unpacked_apart, weighed_apart
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
        "autocast & inference_mode & else",
        "GradScaler & .scale(",
        "add_argument & autocast",
        "Scaler( & autocast",
        "scaler( & backward & step(",
    ),
    not_shown="verify doesn't compare branches, and replaces names without a value",
    about_absence=True,
    formerly=("arms-disagree",),
)

# What gives the names of a module as a dictionary, which takes others.
_NAMES_OF_MODULE = {"builtins.globals", "builtins.locals", "builtins.vars"}
_NOTEBOOK = ("display", "get_ipython", "_")


# What happens in the arm that doesn't do it.
_MISSING = {
    CLEARS: "gradients of all iterations add up",
    CLIPS: "its large gradients are not limited",
    DIVIDES: "the gradients are larger by the divisor",
    WAITS: "the optimizer steps in every iteration",
    SCHEDULES: "the learning rate never changes",
    AVERAGES: "the average never changes",
    BACKWARDS: "the optimizer steps without gradients, and the parameters never change",
    STEPS: "the parameters of {} are never trained",
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
            f"this branch steps what `{wrapper}` wraps, the one without the scaler calls `{each.cls.name}.step()`, "
            f"which also sets the learning rate on {module.line(each.sets)}: with the scaler the learning rate never "
            "changes; set the learning rate in this branch too",
            withheld="amplint can't tell how the learning rate is set without the step",
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
            f"this program's parser declares no option `{flag.attr}`: this line raises AttributeError; declare "
            "the option",
            withheld="amplint can't tell which option is meant",
            confidence=Confidence.LIKELY,
        )
    for unbound in unbound_uses(module):
        yield rule.finding(
            module.span(unbound.use),
            f"{_without_scaler(module, unbound)}; always create the scaler, and pass the condition as `enabled`",
            withheld="amplint can't tell which flag enables the scaler",
            confidence=Confidence.LIKELY,
        )


def _without_scaler(module: Module, unbound: UnboundUse) -> str:
    name = module.on_one_line(unbound.use)
    if unbound.test is None:
        return f"{unbound.when}, `{name}` is None, and this line raises AttributeError"
    error = "NameError" if ir.function_of(unbound.use) is None else "UnboundLocalError"
    if unbound.missing is Missing.NO_ATTRIBUTE:
        error = "AttributeError"
    return (
        f"`{name}` is created only in the `if` on {module.line(unbound.test)}: "
        f"where `{module.on_one_line(unbound.test)}` is false, this line raises {error}"
    )


def _of_forwards(module: Module) -> Iterator[Finding]:
    """In what branches in a region of autocast and without one differ as they compute a loss."""
    for pair in weighed_apart(module):
        factor, other = module.text(pair.factor), module.text(pair.other)
        yield rule.finding(
            module.span(pair.factor),
            f"of two otherwise equal branches, the one with autocast multiplies by {factor}, the other "
            f"({module.line(pair.other)}) by {other}: they train with different losses; use one factor",
            withheld="amplint can't tell which factor is right",
            confidence=Confidence.LIKELY,
        )
    for each in ungraded_apart(module):
        yield rule.finding(
            module.span(each.context),
            f"this branch computes without gradients, but the otherwise equal one {_precision(not each.region)}, on "
            f"{module.line(each.other.statements[0])}, does not: that branch keeps the activations of each batch for a "
            f"backward pass that never comes; put `{module.on_one_line(each.context)}` around both branches",
            withheld="the two branches have to be indented by hand",
            confidence=Confidence.LIKELY,
        )
    for taken in unpacked_apart(module):
        one, other = _values(taken.own), _values(taken.others)
        yield rule.finding(
            module.span(taken.statement),
            f"this branch takes {one} from `{module.on_one_line(taken.call)}`, but the branch without "
            f"autocast, on {module.line(taken.other)}, takes {other}: one of the branches raises; take the "
            "same in both",
            withheld="amplint can't tell what the call returns",
            confidence=Confidence.LIKELY,
        )
    for added in terms_apart(module):
        yield rule.finding(
            module.span(added.statement),
            f"this branch adds `{module.on_one_line(added.term)}` to the loss, but the branch "
            f"{_precision(not added.region)}, on {module.line(added.other.statements[0])}, does not: they train with "
            "different losses; compute the loss once for both",
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
        what, missing, to_do = f"{what} {names}", missing.format(names), to_do.format(names)
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
