"""The model's forward runs in float32: the autocast region contains only the loss, or there is no region.

## What it does
Finds, with certainty:

- a region that contains only the loss (and at most arithmetic, backward and the step), if the forward pass of the
  model runs before the region;
- a region whose forward pass is computed once more outside of the region, before anything reads the first result. A
  frequent cause is `if bf16: ...` followed by `if fp16: ... else: ...`, with `if` in place of `elif`.

Finds, as *likely*:

- a region that contains only the loss, if amplint can't see the layers of the model or the criterion, or if the loss
  multiplies the outputs with each other (as a contrastive loss does);
- a model that an Accelerator has prepared for half precision, if it is trained through another method than `forward`:
  accelerate opens its region only around `forward`;
- a region that is always disabled (`enabled=False`) around the model, where the scaler is enabled, if no other region
  of the file can be enabled;
- a loss that a `GradScaler` scales, if no file of the program opens a region for code with gradients. The finding is a
  suspicion if a region is commented out in the file.

amplint reports nothing:

- if the region contains other code that amplint can't follow, or a criterion is named like one that contains a network
  (`PerceptualLoss`);
- if the model opens a region itself, or has a method that is named after AMP, such as `model.configure_amp(...)`;
- if another call of the model with gradients is in a region;
- about models that are frozen or called without gradients;
- if a model of the file is cast to half precision (the region then computes its loss in float32).

## Why is this bad?
Autocast changes only operations inside the region. Outside, the matrix products and convolutions of the forward pass
run in float32, with the memory and the time of float32. Losses are computed in float32 even inside a region. So the
model is trained without mixed precision, though the code looks as if it used AMP.

## Example
```python
logits = model(inputs)
with torch.autocast("cuda", dtype=torch.float16):
    loss = F.cross_entropy(logits, targets)
```

## Use instead
```python
with torch.autocast("cuda", dtype=torch.float16):
    logits = model(inputs)
    loss = F.cross_entropy(logits, targets)
```

## Fix safety
For a region that contains only the loss, the fix lets the region begin before the forward pass. Unsafe: the model then
runs in half precision for the first time. There is no fix if the forward pass is in another block, or if the `with` has
other contexts. For the other findings there is no fix.

## Proof
The test programs are not executed (shows=none): what float32 computes is right, only slower, and the time can't be
measured on a simulated cuda device.

## References
- [Automatic mixed
  precision](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#typical-mixed-precision-training)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.fixes.region_end import Refused, begin_region_at, enclosing_with
from amplint.model.calls.call_sites import callers
from amplint.model.half.analysis import half
from amplint.model.half.autocast_context import Autocast
from amplint.model.half.layers import is_model, plain_weights
from amplint.model.half.observations import Seen
from amplint.model.inference.constructions import constructions
from amplint.model.inference.formulas import FALSE, TRUE, contradict, negated, possible
from amplint.model.inference.value_sets import ON_CUDA, decided, is_vague
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import regions
from amplint.model.regions.openers import Open
from amplint.model.regions.training_regions import trained
from amplint.model.syntax import ir
from amplint.model.syntax.queries import is_false
from amplint.model.torch_facts.autocast_ops import Cast
from amplint.model.torch_facts.op_spellings import LOSSES, SPELLINGS
from amplint.registry.rule import Rule
from amplint.rules.shared.enabled_flags import said, turning
from amplint.rules.shared.float32_programs import trains_in_float32
from amplint.rules.shared.half_ops import met, shown
from amplint.rules.shared.loss_regions import HARMLESS, VIEWS, loss_regions, multiplies
from amplint.rules.shared.overwritten_results import overwritten_in
from amplint.rules.shared.past_forward import past_forward
from amplint.rules.shared.scaler_order import receiver

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.UNSAFE,),
    triggers=(
        "autocast & loss",
        "autocast & Loss",
        "autocast & cross_entropy",
        "GradScaler & .scale( & backward",
        "ccelerator & prepare & backward",
    ),
    not_shown="a forward pass in float32 is not wrong by itself",
    about_absence=True,
)


_COMMENTED = re.compile(r"(?m)^[ \t]*#[ \t#]*(?:async )?with [^\r\n]*\bautocast\b")


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each forward that runs outside of the region that it is meant for, or of any."""
    around = [*_behind_forwards(module), *_thrown_away(module), *_past_forward(module), *_switched_off(module)]
    yield from around or _without_regions(module)


def _behind_forwards(module: Module) -> Iterator[Finding]:
    """The regions that begin behind the forward."""
    done: set[int] = set()
    for seen in met(module, LOSSES):
        region = _region(module, seen)
        if region is None or region.id in done or not _holds_nothing_else(module, region, seen.autocast.region):
            continue
        forward = _forward(module, region, seen)
        if forward is None:
            continue
        if not plain_weights(module):
            return  # a model of half weights runs in half precision, and the region is there for a loss in float32
        done.add(region.id)
        yield _finding(module, region, forward)
    for found in loss_regions(module):
        if found.region.id not in done:
            yield _finding(module, found.region, found.forward, sure=found.sure)


def _thrown_away(module: Module) -> Iterator[Finding]:
    """The regions whose forward is computed again outside of them, before anything reads it."""
    for region in regions(module):
        block = ir.statement_of(region.call)
        found = overwritten_in(module, block) if isinstance(block, ir.With) and module.is_own(block) else None
        call = found[0].value if found is not None else None
        if found is None or is_false(region.enabled) or not isinstance(call, ir.Call):
            continue
        if not is_model(module, call.func) and not multiplies(module, call):
            continue
        again = found[1]
        chain = again.block.owner if again.block.role == "orelse" else None
        if isinstance(chain, ir.If):
            advice = f"make the `if` on {module.line(chain)} an `elif`"
            why = f"with `elif`, {module.line(again)} no longer runs after the region; check that, and make the change"
        else:
            advice = "remove one of the calls"
            why = "amplint can't tell which call is intended; remove the other one"
        yield rule.finding(
            module.span(region.call),
            f"the result of this region is lost: {module.line(again)} calls `{module.on_one_line(call.func)}` again, "
            f"outside the region and in float32; {advice}",
            withheld=f"{why} by hand",
        )


def _past_forward(module: Module) -> Iterator[Finding]:
    """The training through another method than `forward` of a model that an Accelerator has prepared."""
    for call in past_forward(module):
        yield rule.finding(
            module.span(call),
            f"accelerate opens an autocast region only around `forward`: `{module.on_one_line(call.func)}` runs in "
            "float32; call that method inside `accelerator.autocast()`, or from `forward`",
            withheld="amplint can't tell which change is intended",
            confidence=Confidence.LIKELY,
        )


def _switched_off(module: Module) -> Iterator[Finding]:
    """The regions with `enabled=False` in just the arms in which the scaler of their losses is on."""
    if not all(is_false(each.enabled) for each in regions(module)):
        return
    done: set[int] = set()
    for each in trained(module):
        on = decided(module).scaler_on(receiver(each.event)) if each.event.kind == "scale" else TRUE
        if each.unseen or is_vague(on) or on in (TRUE, FALSE):
            continue
        for entered in each.entered:
            call, arm = entered.region.call, entered.when or TRUE
            if not is_false(entered.region.enabled):  # made by a partial of the class
                continue
            world = possible(on, arm)
            if call.id in done or world is None or not contradict(on, negated(arm)) or not _runs_model(module, entered):
                continue
            done.add(call.id)
            where = said(module, world, on, turning(world, on) - ON_CUDA.facts())
            yield rule.finding(
                module.span(call),
                f"{where}{', ' if where else ''}the scaler is enabled, but this region is not: everything in the "
                "region runs in float32; remove `enabled=False`, and pass the dtype",
                withheld="amplint can't tell which dtype is intended",
                confidence=Confidence.LIKELY,
            )


def _without_regions(module: Module) -> Iterator[Finding]:
    """The first loss that each scaler scales, where nothing in the programs of the file opens a region."""
    done: set[ir.Call] = set()
    for each in trained(module):
        made = constructions(module, receiver(each.event)) if each.event.kind == "scale" and not each.unseen else []
        if not made or done.issuperset(made) or _is_given(module, each.event.subject) or not trains_in_float32(module):
            continue
        if decided(module).scaler_on(receiver(each.event)) == FALSE or not plain_weights(module):
            continue
        done.update(made)
        yield rule.finding(
            module.span(each.event.call),
            f"the loss is scaled, but the program opens {_no_region(module)}: training runs in float32; run the "
            "forward pass and the loss inside `torch.autocast`",
            withheld="amplint can't tell which code the region should contain",
            # Who has commented the region out wants float32, and has left the scaler.
            confidence=Confidence.SUSPICION if _COMMENTED.search(module.source.text) else Confidence.LIKELY,
        )


def _no_region(module: Module) -> str:
    """What a program opens that trains in float32, as messages say it."""
    return "an autocast region only without gradients" if regions(module) else "no autocast region"


def _is_given(module: Module, loss: ir.Value | None) -> bool:
    """Whether a loss is a parameter of a function that no call in sight gives it."""
    key = objects(module).key(loss) if isinstance(loss, ir.Name) else None
    parameter = objects(module).parameter_of(key) if key is not None else None
    return parameter is not None and not callers(module, parameter[0])


def _runs_model(module: Module, entered: Open) -> bool:
    """Whether a `with` for a region calls a model."""
    at = entered.at
    return isinstance(at, ir.With) and any(
        isinstance(each, ir.Call) and (is_model(module, each.func) or multiplies(module, each))
        for each in ir.values_below(at.body)
    )


def _finding(module: Module, region: ir.With, forward: ir.Call, *, sure: bool = True) -> Finding:
    fix, withheld = _fix(module, region, forward)
    text = shown(module, forward)
    call = text if text.startswith("`") else f"`{module.on_one_line(forward.func)}(...)`"
    return rule.finding(
        module.layout.span(region.items[-1]),
        f"the autocast region contains only the loss: {call} runs before the region, in "
        "float32; begin the region before the forward pass",
        fix=fix,
        withheld=withheld,
        confidence=Confidence.CERTAIN if sure else Confidence.LIKELY,
    )


def _region(module: Module, seen: Seen) -> ir.With | None:
    """The `with` of the region in which a loss is computed, in the same function."""
    if seen.autocast.state != Autocast.ON:
        return None
    found = enclosing_with(seen.node, lambda item: item.context.id == seen.autocast.region)
    return found[0] if found is not None else None


def _holds_nothing_else(module: Module, region: ir.With, made: int) -> bool:
    """Whether all that the region computes is in sight, and none of it in half precision."""
    computed = {}
    for seen in half(module):
        if seen.autocast.region == made:
            ops = SPELLINGS[seen.spelling].ops if seen.spelling in SPELLINGS else ()
            if Cast.LOW in seen.autocast.casts(ops):
                return False
            computed[seen.node.id] = seen
    return all(
        value.id in computed or _is_harmless(module, value)
        for value in ir.values_below(region.body)
        if isinstance(value, (ir.Call, ir.Binary))
    )


def _is_harmless(module: Module, value: ir.Value) -> bool:
    if isinstance(value, ir.Binary):
        return value.op != "MatrixMultiply"
    if not isinstance(value, ir.Call):
        return False
    names = module.names.of(value.func)
    known = bool(names) and all(name.startswith("builtins.") for name in names)
    return known or ir.last_name(value.func) in HARMLESS


def _forward(module: Module, region: ir.With, seen: Seen) -> ir.Call | None:
    """The call of a model right before the region that the loss is computed from."""
    value = seen.operands[0][0] if seen.operands else None
    while isinstance(value, (ir.Attribute, ir.Subscript)) or (isinstance(value, ir.Call) and _is_view(value)):
        value = value.func if isinstance(value, ir.Call) else value.base
    if not isinstance(value, ir.Name):
        return None
    suite = region.block.statements
    for each in reversed(suite[: suite.index(region)]):
        targets = each.targets if isinstance(each, ir.Assign) else ()
        if any(isinstance(target, ir.Name) and target.name == value.name for target in targets):
            made = each.value if isinstance(each, ir.Assign) else None
            return made if isinstance(made, ir.Call) and multiplies(module, made) else None
    return None


def _is_view(call: ir.Call) -> bool:
    return isinstance(call.func, ir.Attribute) and call.func.attr in VIEWS


def _fix(module: Module, region: ir.With, forward: ir.Call) -> tuple[Fix | None, str | None]:
    if ir.statement_of(forward).block is not region.block:
        where = "functions" if ir.function_of(forward) is not ir.function_of(region) else "blocks"
        return None, f"the forward pass and the region are in different {where}; move the region by hand"
    found = begin_region_at(module, region, ir.statement_of(forward))
    return (None, found.reason) if isinstance(found, Refused) else (found, None)
