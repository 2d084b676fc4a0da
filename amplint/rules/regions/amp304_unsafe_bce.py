"""Binary cross entropy of probabilities runs inside an autocast region, where it raises.

## What it does
Finds `F.binary_cross_entropy` and calls of an `nn.BCELoss` inside an autocast region for cuda, xpu or mtia. The call
may be in the region itself, or in a function or `forward` of the project that the region calls.

Also finds such calls in a step of a LightningModule, if the file creates a Trainer with mixed precision: the Trainer
opens a region around the step.

The finding is only *likely* if the loss is skipped by default: `if targets is not None:`, where `targets` is a
parameter with the default None.

amplint reports nothing:

- on cpu and mps, where the loss runs under autocast;
- under `enabled=False`;
- if the region's device is unknown (`accelerator.autocast()` is for cuda if the file creates the Accelerator for
  float16);
- if `enabled` of the region is a parameter that is False by default;
- if amplint can't see how the loss is created.

## Why is this bad?
The loss raises `RuntimeError: torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast`,
whatever the dtype of its inputs. The reason is the backward pass: the gradient of this loss with respect to the
probabilities can be too large for float16. A cast of float16 probabilities to float32 doesn't help, as backward casts
the gradient back to float16.

Also, a float16 sigmoid is exactly 1 for logits above about 8.3. For a target of 0 the loss would then be 100 instead
of the logit.

## Example
```python
with torch.autocast("cuda"):
    loss = F.binary_cross_entropy(torch.sigmoid(model(batch)), target)
```

## Use instead
```python
with torch.autocast("cuda"):
    loss = F.binary_cross_entropy_with_logits(model(batch), target)
```

## Fix safety
Unsafe, because the loss and its gradients change: they are no longer those of rounded probabilities.

- If amplint sees the sigmoid, the fix removes it, and uses the loss that takes logits: the same loss, computed in a
  stable way.
- Otherwise the fix computes the loss in a nested region with `enabled=False`, from inputs that are cast to float32. A
  sigmoid that ran in half precision has lost its small differences from 1.

## Proof
The wrong programs raise; the corrected programs train. Most of them are for cuda. They are run as if for xpu, which is
simulated on the CPU and raises the same error.

## References
- [Prefer
  binary_cross_entropy_with_logits](https://docs.pytorch.org/docs/stable/amp.html#prefer-binary-cross-entropy-with-logits-over-binary-cross-entropy)
- ATen/autocast_mode.cpp: `binary_cross_entropy` is banned on cuda, xpu and mtia
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Edit, Finding, Fix, Severity
from amplint.fixes.disabled_region import in_disabled_region
from amplint.fixes.edits import written
from amplint.fixes.inherited_arguments import module_name
from amplint.fixes.statements import says_the_same
from amplint.model.calls.call_sites import callers
from amplint.model.inference.devices import region_devices
from amplint.model.inference.values import parameter_read, values_of
from amplint.model.names.reaching_definitions import only_assignment
from amplint.model.names.version_guards import conditions_of, tests_of
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import Region
from amplint.model.regions.cpu_training import does_nothing
from amplint.model.regions.openers import Open, may_switch, openers
from amplint.model.regions.regions_at import enabled_at
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.control import parts_that_hold
from amplint.model.syntax.queries import is_false
from amplint.model.torch_facts.autocast_ops import OP_LISTS, Cast
from amplint.model.torch_facts.op_spellings import RESHAPES
from amplint.model.usage.accelerators import accelerators
from amplint.model.usage.mentions_of import keys_made_by, near_kept, words_of
from amplint.registry.rule import Rule
from amplint.rules.shared.half_ops import casting_up
from amplint.rules.shared.lightning import modules, setups

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.UNSAFE,),
    triggers=(
        "autocast & binary_cross_entropy",
        "autocast & BCELoss",
        "ightning & binary_cross_entropy",
        "ightning & BCELoss",
    ),
    not_shown="verify replaces the criterion",
)

_FUNCTION = "torch.nn.functional.binary_cross_entropy"
_CLASSES = {f"torch.nn.{home}BCELoss" for home in ("", "modules.", "modules.loss.")}
_SIGMOIDS = {"torch.sigmoid", "torch.nn.functional.sigmoid", "torch.special.expit"}
_SIGMOID_CLASSES = {f"torch.nn.{home}Sigmoid" for home in ("", "modules.", "modules.activation.")}
_BANNED = {device for device, ops in OP_LISTS.items() if ops.get("binary_cross_entropy") is Cast.BANNED}
# The precisions for which Lightning opens a region round the steps of a module.
_MIXED = (16, "16", "16-mixed", "bf16", "bf16-mixed")
_STEPS = ("training_step", "validation_step", "test_step", "predict_step")
# A test that may be about whether autocast is on.
_PRECISION = re.compile(r"(?i)autocast|amp(?![a-z])|fp16|fp32|float16|half|mixed|precision")
# Methods that change the shape, and what may stand round the loss in its statement as well.
_SHAPES = RESHAPES | {"float"}
_ASIDE = {
    "mean",
    "sum",
    "item",
    "detach",
    "size",
    "to",
    "type_as",
    "long",
    "clamp",
    "expand_as",
    "numel",
    "len",
    "cuda",
    "cpu",
    "xpu",
    "clone",
}


_FLOAT32 = "pass float32 inputs under `autocast(enabled=False)`"


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each call of the loss that some way leads to with a region open."""
    words = module.words(_FUNCTION, *_CLASSES)
    for call in module.whole.near(*words, *words_of(module, keys_made_by(module, *_CLASSES))).calls:
        if len(call.args) < 2 or not _is_loss(module, call):
            continue
        found = next((each for each in enabled_at(module, call) if _raises(module, call, each)), None)
        if found is None:
            finding = _under_a_trainer(module, call)
            if finding is not None:
                yield finding
            continue
        fix, title, withheld = _fix(module, call, found)
        device = "/".join(sorted(_forbidding(module, found)))
        where = f"region on {module.line(found.entered)}"
        if found.site is not None and module.is_own(call):  # else the message begins with that call
            where = f"{module.line(found.site)} calls {_function(call)} inside the {where}"
        yield rule.finding(
            module.span(call),
            f"{_said(module, call)} raises RuntimeError under {device} autocast ({where}); {title}",
            fix=fix,
            withheld=withheld,
            confidence=Confidence.LIKELY if _is_optional(module, call) else None,
        )


def _function(call: ir.Call) -> str:
    """The function around a call, as a message names it."""
    function = ir.function_of(call)
    if function is None or not function.name:
        return "this function"
    return f"`{function.cls.name}.{function.name}`" if function.cls is not None else f"`{function.name}`"


def _is_optional(module: Module, call: ir.Call) -> bool:
    """Whether the loss runs only if its function gets an argument that it can do without: `if targets is not None:`."""
    parts = (part for test, holds in conditions_of(call) for part in parts_that_hold(test, holds))
    return any(_is_against_default(module, *part) for part in parts)


def _is_against_default(module: Module, part: ir.Value, truth: bool) -> bool:
    """Whether a part of a test comes out otherwise than by the default of the parameter that it asks for."""
    if isinstance(part, ir.Compare) and part.ops in (("Is",), ("IsNot",)) and ir.is_none(part.rights[0]):
        return _is_against_default(module, part.left, not truth)
    read = parameter_read(module, part)
    default = read[1].default if read is not None else None
    return isinstance(default, ir.Constant) and bool(default.value) is not truth


def _is_loss(module: Module, call: ir.Call) -> bool:
    return module.names.only(call.func) == _FUNCTION or _is_made_by(module, call.func, _CLASSES)


def _said(module: Module, call: ir.Call) -> str:
    """The loss as the subject of a message, with its class where the name doesn't say that."""
    text = module.on_one_line(call.func)
    is_plain = module.names.only(call.func) == _FUNCTION or "BCELoss" in text
    return f"`{text}`" if is_plain else f"`{text}` (BCELoss)"


def _use_logits(module: Module, call: ir.Call) -> str:
    """What to do: the loss that takes logits, in the place of one that takes probabilities."""
    is_function = module.names.only(call.func) == _FUNCTION
    name = "`binary_cross_entropy_with_logits`" if is_function else "`BCEWithLogitsLoss`"
    return f"pass logits to {name}"


def _is_made_by(module: Module, func: ir.Value, classes: set[str]) -> bool:
    """Whether what is called is an object of one of some classes of torch's."""
    if isinstance(func, ir.Call):
        return module.names.only(func.func) in classes
    made = objects(module).classes_of(objects(module).key(func))
    sources = objects(module).sources(func) if isinstance(func, (ir.Name, ir.Attribute)) else ()
    return bool(made) and made <= classes and all(isinstance(each, ir.Call) for each in sources)


# --- where it runs --------------------------------------------------------------------------------------------------


def _raises(module: Module, call: ir.Call, found: Open) -> bool:
    """Whether a way leads to the loss on a device that forbids it."""
    if not _forbidding(module, found) or _is_off_by_default(module, found.region.enabled):
        return False
    outside = {each.id for each in tests_of(found.entered)} if found.site is None else set()
    if any(_asks_for_precision(each) for each in tests_of(call) if each.id not in outside):
        return False
    return not any(_comes_from_cpu(module, value) for arg in call.args for value in ir.walk_values(arg.value))


def _is_off_by_default(module: Module, enabled: ir.Value | None) -> bool:
    """Whether a region is on only where the caller asks for that: `def forward(..., enable_autocast=False)`.

    What an assignment switches off under a condition, as on a machine without CUDA, is no default.
    """
    leaves = values_of(module, enabled).leaves if enabled is not None else ()
    is_open = any(each.is_open for each in leaves)
    shown = [each for each in leaves if not each.is_open and not (is_open and _is_assigned_in_an_arm(each.value))]
    return bool(shown) and all(is_false(each.value) for each in shown)


def _is_assigned_in_an_arm(value: ir.Value) -> bool:
    statement = value.parent
    return isinstance(statement, ir.Assign) and isinstance(statement.block.owner, ir.If)


def _forbidding(module: Module, found: Open) -> set[str]:
    if does_nothing(module, found.region):
        return set()
    if _is_accelerators(module, found.region):
        return {"cuda"}
    return {
        each.type for each in region_devices(module, found.region) if each.type in _BANNED and each.type is not None
    }


def _is_accelerators(module: Module, region: Region) -> bool:
    """Whether an Accelerator opens a region, and the file makes it for float16, which accelerate has for GPUs alone."""
    owner = ir.called_on(region.call, "autocast") if region.opaque else None
    if owner is None or not accelerators(module).owns(owner) or accelerators(module).has_no_scaler(owner):
        return False
    how = accelerators(module).scaling(owner)
    return how is not None and how.is_asked_for


def _asks_for_precision(test: ir.Value) -> bool:
    return any(_PRECISION.search(ir.last_name(each)) for each in ir.walk_values(test))


def _comes_from_cpu(module: Module, value: ir.Value) -> bool:
    """Whether a value is a tensor on the CPU, itself or by what its variable holds."""
    made = values_of(module, value).leaves if isinstance(value, ir.Name) else ()
    every = (value, *(each.value for each in made))
    return any(_is_on_cpu(inner) for each in every for inner in ir.walk_values(each))


def _is_on_cpu(value: ir.Value) -> bool:
    """`x.cpu()` and `x.to("cpu")`: the CPU's tensors are none of the region's."""
    if not isinstance(value, ir.Call) or not isinstance(value.func, ir.Attribute):
        return False
    moved = any(isinstance(arg.value, ir.Constant) and arg.value.value == "cpu" for arg in value.args)
    return value.func.attr == "cpu" or (value.func.attr == "to" and moved)


def _under_a_trainer(module: Module, call: ir.Call) -> Finding | None:
    """The finding of a loss in a step of a LightningModule, round which the file's Trainer opens a region."""
    trainers = [each for each in setups(module) if each.what == "Trainer"]
    mixed = [each for each in trainers if each.precisions(module) <= {*_MIXED}]
    if not mixed or not _is_in_step(module, call) or any(_asks_for_precision(each) for each in tests_of(call)):
        return None
    inner, unseen, _ = openers(module).deciding(call)
    if inner or any(map(may_switch, unseen)):
        return None
    if any(_comes_from_cpu(module, value) for arg in call.args for value in ir.walk_values(arg.value)):
        return None
    devices = [_trains_on_cuda(each.call) for each in mixed]
    if False in devices:
        return None
    edits = _with_logits(module, call)
    what = f"{_use_logits(module, call)}, or {_FLOAT32}"
    fix = (
        Fix(Applicability.UNSAFE, "Pass the logits, and remove the sigmoid", tuple(sorted(edits)))
        if edits is not None
        else None
    )
    return rule.finding(
        module.span(call),
        f"{_said(module, call)} raises RuntimeError under autocast for cuda, which the Trainer "
        f"on {module.line(mixed[0].call)} opens around this step; {what}",
        fix=fix,
        withheld=None if fix is not None else "amplint can't see the sigmoid; make the change by hand",
        confidence=Confidence.LIKELY if None in devices or len(mixed) < len(trainers) else None,
    )


def _trains_on_cuda(trainer: ir.Call) -> bool | None:
    """Whether a Trainer is told to take CUDA; None where it takes what there is."""
    given = trainer.keyword("accelerator")
    if isinstance(given, ir.Constant) and given.value not in ("auto", None):
        return given.value in ("gpu", "cuda")
    return True if trainer.keyword("gpus") is not None else None


def _is_in_step(module: Module, call: ir.Call) -> bool:
    """Whether a call stands in a step of a LightningModule, or in a method of it that a step calls."""
    function = ir.function_of(call)
    if function is None or function.cls not in list(modules(module)):
        return False
    steps = [function, *(ir.function_of(each) for each in callers(module, function))]
    return any(each is not None and each.cls is function.cls and each.name in _STEPS for each in steps)


# --- the logits -----------------------------------------------------------------------------------------------------


def _fix(module: Module, call: ir.Call, found: Open) -> tuple[Fix | None, str, str | None]:
    """The fix, what to do in words, and why there is none."""
    edits = _with_logits(module, call)
    if edits is not None:
        what = _use_logits(module, call)
        return Fix(Applicability.UNSAFE, "Pass the logits, and remove the sigmoid", tuple(sorted(edits))), what, None
    what = f"{_use_logits(module, call)}, or {_FLOAT32}"
    edits = _in_disabled_region(module, call, found)
    if edits is not None:
        title = "Compute this loss in float32 under `autocast(enabled=False)`"
        return Fix(Applicability.UNSAFE, title, tuple(sorted(edits))), what, None
    other = _other_call(module, call)
    if other is not None:
        return (
            None,
            what,
            f"`{module.on_one_line(other.func)}` in the same statement would also run without autocast; "
            "give the loss a statement of its own",
        )
    return None, what, "amplint can't write `autocast(enabled=False)` around this statement; do that by hand"


def _with_logits(module: Module, call: ir.Call) -> list[Edit] | None:
    """The loss that takes logits, where the sigmoid of each of its inputs is in sight."""
    if module.names.only(call.func) == _FUNCTION:
        name = _renamed(module, call.func, "binary_cross_entropy_with_logits", "nn.functional.")
        return _joined(name, _without_sigmoid(module, call))
    made: Sequence[ir.Value] = [call.func] if isinstance(call.func, ir.Call) else []
    calls: list[ir.Call] | None = [call]
    if isinstance(call.func, (ir.Name, ir.Attribute)):
        made, calls = objects(module).sources(call.func), _calls_of_same(module, call)
    names = [_renamed(module, each.func, "BCEWithLogitsLoss", "nn.") for each in made if isinstance(each, ir.Call)]
    if not names or calls is None:
        return None
    return _joined(*names, *(_without_sigmoid(module, each) for each in calls))


def _calls_of_same(module: Module, call: ir.Call) -> list[ir.Call] | None:
    """The calls of the loss that one calls, that one first; None where it is handed on."""
    key = objects(module).key(call.func)
    calls = [call]
    for value in (near_kept(module, {key}) if key is not None else module.whole).values:
        read = isinstance(value, (ir.Name, ir.Attribute)) and not ir.is_target(value)
        if read and objects(module).key(value) == key and value is not call.func:
            if not isinstance(value.parent, ir.Call) or value.parent.func is not value:
                return None
            calls.append(value.parent)
    return calls


def _joined(*parts: list[Edit] | None) -> list[Edit] | None:
    """All edits, where there are some for each part."""
    found: list[Edit] = []
    for part in parts:
        if part is None:
            return None
        found += part
    return found


def _renamed(module: Module, func: ir.Value, name: str, home: str) -> list[Edit] | None:
    """Another name in the place of a function's or class's."""
    if isinstance(func, ir.Attribute):
        return [Edit(*module.layout.attr(func), name)]
    torch = module_name(module, "torch")
    return [Edit(*module.span(func), f"{torch}.{home}{name}")] if torch is not None else None


def _without_sigmoid(module: Module, call: ir.Call) -> list[Edit] | None:
    """A loss's input as it was before the sigmoid."""
    value = argument(call, _FUNCTION, "input")
    while isinstance(value, ir.Call) and isinstance(value.func, ir.Attribute) and value.func.attr in _SHAPES:
        value = value.func.base
    if value is None:
        return None
    logits = _logits(module, value)
    if logits is None and isinstance(value, ir.Name):
        made = only_assignment(module.names, value)
        if made is None or ir.function_of(made.value) is not ir.function_of(value):
            return None
        logits = _logits(module, made.value)
        if logits is None or not _reads_the_same(module, logits, made.value, value):
            return None
    if logits is None:
        return None
    text = written(module, logits)
    atom = isinstance(logits, (ir.Name, ir.Attribute, ir.Call, ir.Subscript)) or text.startswith("(")
    bare = atom or not isinstance(value.parent, ir.Attribute)
    return [Edit(*module.layout.outer(value), text if bare else f"({text})")]


def _logits(module: Module, value: ir.Value) -> ir.Value | None:
    """What a sigmoid is taken of."""
    if not isinstance(value, ir.Call):
        return None
    alone = len(value.args) == len(value.positional) == 1
    if alone and (module.names.only(value.func) in _SIGMOIDS or _is_made_by(module, value.func, _SIGMOID_CLASSES)):
        return value.positional[0]
    method = isinstance(value.func, ir.Attribute) and value.func.attr == "sigmoid" and not value.args
    return value.func.base if method and isinstance(value.func, ir.Attribute) else None


def _reads_the_same(module: Module, logits: ir.Value, made: ir.Value, value: ir.Value) -> bool:
    """Whether what a sigmoid was taken of can be read where its result is."""
    return isinstance(logits, (ir.Name, ir.Attribute)) and says_the_same(module, logits, made, value)


# --- the nested region that is off -----------------------------------------------------------------------------------


def _in_disabled_region(module: Module, call: ir.Call, found: Open) -> list[Edit] | None:
    """The statement of the loss in a nested region that is off, its inputs in float32."""
    statement = ir.statement_of(call)
    if not isinstance(statement, (ir.Assign, ir.AugAssign, ir.Expr, ir.Return)):
        return None
    values = [value for root in statement.values() for value in ir.walk_values(root)]
    if any(isinstance(each, (ir.Lambda, ir.Comprehension, ir.Suspend)) for each in values):
        return None
    if _other_call(module, call) is not None:
        return None
    edits = in_disabled_region(module, statement, found.region)
    if edits is None:
        return None
    for each in values:
        if isinstance(each, ir.Call) and _is_loss(module, each):
            for operand in _operands(each):
                edits += _as_float32(module, operand)
    return edits


def _other_call(module: Module, call: ir.Call) -> ir.Call | None:
    """A call in the statement of the loss that autocast changes."""
    values = (value for root in ir.statement_of(call).values() for value in ir.walk_values(root))
    return next((each for each in values if isinstance(each, ir.Call) and not _may_be_inside(module, each)), None)


def _may_be_inside(module: Module, call: ir.Call) -> bool:
    """Whether a call does not mind if autocast is off: the loss itself, methods of tensors that compute little."""
    name = ir.last_name(call.func)
    known = isinstance(call.func, ir.Attribute) and name in _SHAPES | _ASIDE
    return known or _is_loss(module, call) or _logits(module, call) is not None


def _operands(call: ir.Call) -> list[ir.Value]:
    given = (argument(call, _FUNCTION, name) for name in ("input", "target"))
    return [each for each in given if each is not None]


def _as_float32(module: Module, value: ir.Value) -> list[Edit]:
    if isinstance(value, ir.Call) and isinstance(value.func, ir.Attribute) and value.func.attr == "float":
        return []
    return casting_up(module, value)
