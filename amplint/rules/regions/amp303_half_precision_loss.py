"""The loss is computed after the autocast region, from the region's half-precision outputs.

## What it does
Finds a loss that is computed outside of every autocast region, from a value that a region has left in half precision:

- a loss of torch (`nn.CrossEntropyLoss`, `F.mse_loss`, ...);
- a loss that is written by hand, such as `(first - second).square().mean()`, if backward starts from it, and autocast
  would compute one of its operations in float32;
- a loss that is cast to float16 (`loss.mean().half()`) and then scaled, inside a region or outside;
- log-probabilities (`log_softmax`) in a step that calls backward, as in preference training (DPO), reinforcement
  learning and distillation.

The finding is an error if the loss is float16 and scaled: its gradient is infinite at the initial scale. Otherwise the
finding is a warning.

The finding is certain if the value comes from a layer of this file or from a matrix product. If it is an output of a
model that amplint can't see (it calls `parameters()`, `train()` or `eval()`, or is a parameter with a name such as
`model` or `net`):

- the finding is only *likely*, and only losses that can't get a float32 operand are reported, such as cross entropy
  with class indices, or `mse_loss` of two outputs;
- the finding is a suspicion if that model also gets the targets: it may return float32 (as ArcFace does).

A finding is also only *likely* if amplint doesn't know the region's dtype (`dtype=args.dtype`).

amplint reports nothing:

- if the value is cast with `.float()`, or another operand is float32 (`mse_loss(half, float32)` is float32);
- if amplint can't see the criterion, or an operand of a loss that is written by hand;
- if the loss would be in half precision inside a region too (`F.relu(1 - scores).mean()`);
- about losses that a model computes itself;
- about models that accelerate, Fabric or DeepSpeed wrap, whose outputs are float32;
- under `no_grad`, in functions that evaluate, and about detached tensors;
- in a branch that trains without AMP.

## Why is this bad?
Inside a region autocast computes most losses in float32. After the region the loss has the dtype of its input: sums
over classes and batches are rounded to float16 or bfloat16.

In float16 it is worse. The backward pass starts with the scale, 65,536 at first, as the gradient of the loss. In
float16 that is infinite: the scaler skips the first step, and halves the scale.

## Example
```python
with torch.autocast("cuda", dtype=torch.float16):
    logits = model(inputs)
loss = F.cross_entropy(logits, targets)
scaler.scale(loss).backward()
```

## Use instead
```python
with torch.autocast("cuda", dtype=torch.float16):
    logits = model(inputs)
    loss = F.cross_entropy(logits, targets)
scaler.scale(loss).backward()
```

## Fix safety
The fix moves the loss, and the statements between the region and the loss, into the region. Unsafe: autocast then also
applies to these statements. There is no fix if the loss is in another block or function, or if the `with` has
further contexts, such as `torch.no_grad()`: the fix would move the loss into these too.

Losses that are compared, such as those of a policy and its reference, are moved together or not at all. If only one of
them were float32, their difference would not be 0 where model and reference are the same.

## Proof
The test programs print the dtype of the loss from which backward starts: float16 or bfloat16 in the wrong programs,
float32 in the corrected programs.

## References
- [Autocast op reference](https://docs.pytorch.org/docs/stable/amp.html#cuda-ops-that-can-autocast-to-float32)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.fixes.region_end import Refused, extend_region
from amplint.model.half.autocast_context import Autocast
from amplint.model.half.observations import Seen
from amplint.model.inference.tensor_types import HALF, SOME_HALF
from amplint.model.names.grad_mode import without_gradients
from amplint.model.names.reaching_definitions import only_assignment, reaching
from amplint.model.objects.amp_objects import objects
from amplint.model.regions.training_regions import trained
from amplint.model.syntax import ir
from amplint.model.syntax.ir import node_of
from amplint.model.torch_facts.grad_modes import ENDS_GRADIENTS
from amplint.model.torch_facts.op_spellings import LOSSES, spelled
from amplint.model.usage.module_casts import cast_to
from amplint.registry.rule import Rule
from amplint.rules.shared.compared_losses import compared_losses
from amplint.rules.shared.half_ops import dtype_of, met, shown
from amplint.rules.shared.losses_by_hand import losses_by_hand

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.UNSAFE,),
    triggers=("autocast & loss", "autocast & Loss", "autocast & cross_entropy", "autocast & kl_div"),
    shown_by=("dtype",),
)

# Losses that a model's outputs of one dtype leave in it: of two of them, or of scores and labels made like these.
_OF_OUTPUTS = ("l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits")
# What losses that are written by hand begin with: those of preferences, of reinforcement learning, of distillation.
_LOGARITHMS = ("log_softmax",)
_FOLLOW = 9  # views and variables that an output is followed through
_INFINITE = "at the initial scale its gradient is inf, and the first step is skipped"
_NUMBERS = {"builtins.float", "builtins.int"}
_EVALUATES = re.compile(r"(?i)val|eval|test|infer|predict")


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each criterion behind a region that gets the region's half outputs."""
    done: set[int] = set()
    criteria = [each for each in met(module, LOSSES) if _is_half(module, each)]
    with_criterion = dict[tuple[int, int], bool]()  # by function and region of a criterion: whether it is scaled
    left_half = [each for each in met(module, _LOGARITHMS) if _is_left_half(each)]
    logarithms = [each for each in left_half if _is_trained_with(module, each)]
    regions = {each.node.id: each.operands[0][1].region for each in (*criteria, *left_half)}
    groups = compared_losses(module, [module.value(each) for each in regions])
    yield from _cast_losses(module)
    for seen in (*criteria, *losses_by_hand(module), *logarithms):
        if seen.node.id in done or _without_gradients(module, seen) or _is_only_a_number(module, seen.node):
            continue
        if all(_is_detached(value) for value, _ in seen.tensors()):
            continue
        function = ir.function_of(seen.node)
        place = function.id if function is not None else 0, seen.operands[0][1].region
        if seen.spelling not in LOSSES and place in with_criterion:
            continue  # what is computed from the criterion's loss
        done.add(seen.node.id)
        kind = seen.operands[0][1]
        loss = _said(module, seen, f"in {dtype_of(kind)}" if kind.names == SOME_HALF else dtype_of(kind))
        region = module.line(module.value(kind.region))
        is_loss = seen.spelling not in _LOGARITHMS
        scaled = is_loss and _starts_from_infinity(module, seen)
        fix, withheld = _fix(module, seen, groups, regions)
        if fix is None and place in with_criterion and with_criterion[place] >= scaled:
            continue  # one cause, and nothing to fix here
        with_criterion[place] = with_criterion.get(place, False) or scaled
        are, them = ("it is", "the loss") if is_loss else ("they are", "them")
        yield rule.finding(
            module.span(seen.node),
            f"{loss}, as {are} outside the region on {region}: {_effect(module, seen, scaled=scaled)}; "
            f"compute {them} inside the region",
            fix=fix,
            withheld=withheld,
            severity=Severity.ERROR if scaled else Severity.WARNING,
            confidence=_confidence(module, seen),
        )


def _cast_losses(module: Module) -> Iterator[Finding]:
    """Each cast to float16 of a loss that a scaler then scales, or of a part of its sum."""
    done = set[int]()
    for each in trained(module):
        scaler = ir.called_on(each.event.call, "scale") if each.event.kind == "scale" else None
        key = objects(module).is_scaler(scaler) if scaler is not None else None
        for value in map(module.value, sorted(each.parts - done)) if key is not None else ():
            if not isinstance(value, ir.Call) or not _is_cast_loss(module, value) or not module.is_own(value):
                continue
            done.add(value.id)
            chosen = any(made.call.keyword("init_scale") for made in objects(module).made_by(str(key)))
            weighed = any(map(_weighs, map(module.value, each.parts)))
            yield rule.finding(
                module.span(value),
                "this cast makes the loss float16: "
                + ("the loss and its gradient are rounded to float16" if chosen or weighed else _INFINITE)
                + "; remove the cast",
                withheld="amplint can't tell what else expects float16",
                severity=Severity.WARNING if chosen or weighed else Severity.ERROR,
            )


def _is_cast_loss(module: Module, value: ir.Call) -> bool:
    """Whether a call casts a loss, a mean or a sum over all elements to float16."""
    base = value.func.base if isinstance(value.func, ir.Attribute) else None
    if not isinstance(base, ir.Call) or cast_to(module, value) != "float16":
        return False
    name = ir.last_name(base.func)
    if (spelled(module.names.only(base.func) or "") or name) in LOSSES:
        return True
    given = len(base.positional) - (0 if isinstance(base.func, ir.Attribute) and not _is_torchs(module, base) else 1)
    return name in ("mean", "sum") and given <= 0 and base.keyword("dim") is None


def _is_torchs(module: Module, call: ir.Call) -> bool:
    return any(name.startswith("torch.") for name in module.names.of(call.func))


def _effect(module: Module, seen: Seen, *, scaled: bool) -> str:
    """What comes of a loss in half precision."""
    if scaled:
        return _INFINITE
    if seen.operands[0][1].names == SOME_HALF and _starts_from_scale(module, seen):
        return "in float16 its gradient is inf at the initial scale, and the first step is skipped"
    what = "the loss" if seen.spelling not in _LOGARITHMS else "each"
    kind = seen.operands[0][1]
    to = f" to {dtype_of(kind)}" if kind.names != SOME_HALF else ""
    rounded = f"{what} is rounded" if _has_no_gradients(module, seen) else f"{what} and its gradient are rounded"
    return f"{rounded}{to}"


def _has_no_gradients(module: Module, seen: Seen) -> bool:
    """Whether a loss has no gradients, as the model ran without any, or its output is detached: a reference's."""
    value, kind = seen.operands[0]
    if without_gradients(module, module.value(kind.region)):
        return True
    for _ in range(_FOLLOW):
        if value is None or _is_detached(value):
            break
        if isinstance(value, ir.Name):
            made = only_assignment(module.names, value)
            value = made.value if made is not None else None
        elif isinstance(value, ir.Call):
            value = value.func.base if isinstance(value.func, ir.Attribute) else None
        else:
            value = value.base if isinstance(value, (ir.Attribute, ir.Subscript)) else None
    return value is not None and _is_detached(value)


def _confidence(module: Module, seen: Seen) -> Confidence:
    """How sure it is that a loss is half: a suspicion where the model gets the targets, too. Heads with a margin, as
    ArcFace's, mix their scores with a one-hot tensor, which is float32, and so is what they give.
    """
    if not seen.operands[0][1].likely_half:
        return Confidence.CERTAIN
    known = objects(module)
    output, *targets = [value for value, _ in seen.operands]
    bindings = reaching(module.names, output) if isinstance(output, ir.Name) else ()
    statements = [ir.statement_of(node) for each in bindings if (node := node_of(each)) is not None]
    calls = (each.value for each in statements if isinstance(each, ir.Assign) and isinstance(each.value, ir.Call))
    given = {known.render(arg.value) for call in calls for arg in call.args} - {None}
    gets_targets = any(each is not None and known.render(each) in given for each in targets)
    return Confidence.SUSPICION if gets_targets else Confidence.LIKELY


def _said(module: Module, seen: Seen, dtype: str) -> str:
    """That a loss is half: as what a criterion is given, or by itself."""
    by_criterion = seen.spelling in LOSSES
    if seen.spelling in _LOGARITHMS:
        return f"these log-probabilities are {dtype}"
    value = seen.operands[0][0] if by_criterion else seen.node
    given = shown(module, value) if value is not None else ""
    if not given.startswith("`"):
        return f"this loss is {dtype}"
    return f"this loss is {dtype}, like {given}" if by_criterion else f"the loss {given} is {dtype}"


def _is_half(module: Module, seen: Seen) -> bool:
    """Whether a loss outside of every region is half, and its input comes from one."""
    if seen.autocast.state != Autocast.OUTSIDE or not seen.operands:
        return False
    given = seen.operands[0][1]
    if not (given.what == HALF or given.likely_half) or not given.region:
        return False
    if seen.result.what == HALF or seen.spelling == "cross_entropy":
        return seen.result.what == HALF or seen.result.likely_half
    # To the other losses by index a model gives log_softmax, which is float32.
    return given.likely_half and seen.result.likely_half and seen.spelling in _OF_OUTPUTS


def _is_left_half(seen: Seen) -> bool:
    """Whether an operation outside of every region keeps what one has left in half precision, surely or likely."""
    if seen.autocast.state != Autocast.OUTSIDE or not seen.operands or not seen.operands[0][1].region:
        return False
    return bool(seen.operands[0][1].names) and bool(seen.result.names)


def _is_trained_with(module: Module, seen: Seen) -> bool:
    """Whether one of the functions that lead to an operation calls backward."""
    functions = {ir.function_of(each) for each in (seen.node, *map(module.value, seen.sites))}
    return any(
        isinstance(call.func, ir.Attribute) and call.func.attr == "backward"
        for each in functions
        for call in module.whole.within(each).calls
    )


def _without_gradients(module: Module, seen: Seen) -> bool:
    """Whether no gradients are made there, or one of the functions that lead there evaluates, going by its name."""
    return any(_evaluates(module, each) for each in (seen.node, *map(module.value, seen.sites)))


def _is_only_a_number(module: Module, node: ir.Value) -> bool:
    """Whether nothing but a number is taken from a loss, as a metric is: `total += float(loss(output, target))`."""
    up = node.parent
    while isinstance(up, ir.Value):
        if isinstance(up, ir.Call) and module.names.of(up.func) <= _NUMBERS and any(a.value is node for a in up.args):
            return True
        if isinstance(up, ir.Attribute) and up.attr in ENDS_GRADIENTS:
            return True
        node, up = up, up.parent
    return False


def _is_detached(value: ir.Value) -> bool:
    """Whether a value has no gradients: `z.detach()`, `z.data`."""
    ends = isinstance(value, ir.Attribute) and value.attr in ENDS_GRADIENTS
    return ends or ir.called_on(value, *ENDS_GRADIENTS) is not None


def _evaluates(module: Module, node: ir.Value) -> bool:
    function = ir.function_of(node)
    if function is not None and _EVALUATES.search(function.name):
        values = ir.values_below(function.body)
        if not any(isinstance(each, ir.Attribute) and each.attr == "backward" for each in values):
            return True
    return without_gradients(module, node)


def _is_weighed(module: Module, seen: Seen) -> bool:
    """Whether a loss is multiplied or divided before it is scaled, so that its gradient isn't the scale itself."""
    return any(
        _weighs(value) or _weighs(value.parent)
        for each in trained(module)
        if seen.node.id in each.parts
        for value in map(module.value, each.parts)
    )


def _weighs(node: ir.Node | None) -> bool:
    return isinstance(node, (ir.Binary, ir.AugAssign)) and node.op in ("Multiply", "Divide")


def _starts_from_infinity(module: Module, seen: Seen) -> bool:
    """Whether a loss is float16, and its gradient a scale that float16 can't hold."""
    return "float16" in seen.operands[0][1].names and _starts_from_scale(module, seen)


def _starts_from_scale(module: Module, seen: Seen) -> bool:
    """Whether the gradient of a loss is the scale itself."""
    is_first = _is_scaled(module, seen) and not _is_weighed(module, seen)
    return is_first and not _has_no_gradients(module, seen)


def _is_scaled(module: Module, seen: Seen) -> bool:
    """Whether a scaler that starts at its usual scale multiplies losses in the function."""
    known, function = objects(module), ir.function_of(seen.node)
    for call in module.whole.within(function).calls:
        if isinstance(call.func, ir.Attribute) and call.func.attr == "scale" and ir.function_of(call) is function:
            key = known.is_scaler(call.func.base)
            if key is not None and not any(each.call.keyword("init_scale") for each in known.made_by(key)):
                return True
    return False


def _fix_of_all(module: Module, losses: list[ir.Value], regions: Mapping[int, int]) -> tuple[Fix | None, str | None]:
    """Take losses that are compared into one region, where all stand in one block behind it: one alone would differ
    from the others by their rounding.
    """
    first, *_ = statements = [ir.statement_of(each) for each in losses]
    last = max(statements, key=lambda each: each.id)
    *some, end = dict.fromkeys(map(module.line, losses))
    rows = f"{', '.join(some)} and {end}" if some else end
    entered = {regions[each.id] for each in losses}
    for each in first.block.statements:
        if isinstance(each, ir.With) and any(item.context.id in entered for item in each.items):
            if all(one.block is each.block and one.id > each.id for one in statements):
                found = extend_region(module, each, last)
                if isinstance(found, Fix):
                    return found._replace(
                        message=f"Move the losses on {rows}, and the code between, into the region"
                    ), None
    return None, (
        f"the losses on {rows} are compared, so all of them have to be in a region, or none; move them by hand, each "
        "into its own"
    )


def _fix(
    module: Module, seen: Seen, groups: list[list[ir.Value]], regions: Mapping[int, int]
) -> tuple[Fix | None, str | None]:
    """Take the criterion into the region, where both stand in one block; with those that it is compared with."""
    together = next((each for each in groups if seen.node in each), None)
    if together is not None:
        return _fix_of_all(module, together, regions)
    region = seen.operands[0][1].region
    last = ir.statement_of(seen.node)
    for each in last.block.statements:
        if isinstance(each, ir.With) and any(item.context.id == region for item in each.items):
            found = extend_region(module, each, last)
            return (None, found.reason) if isinstance(found, Refused) else (found, None)
    return None, "the region and the loss are in different blocks; move the loss into the region by hand"
