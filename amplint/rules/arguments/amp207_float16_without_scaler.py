"""float16 autocast regions are trained without a GradScaler.

## What it does
Finds `loss.backward()` and `optimizer.step()` without a scaler, if the loss comes from a float16 autocast region. The
dtype may be given, or be the default of cuda, xpu and mps. A scaler that is only created, saved and loaded is not
enough, and neither is one that only scales other losses and steps other optimizers.

Also finds:

- steps by hand, as in MAML's inner loop: `w - lr * g`, if `torch.autograd.grad` computes `g` from an unscaled loss,
  also if a scaler scales another loss. The finding is *likely* if amplint can't see that `w` is a parameter of a model;
- a float16 region next to an Accelerator without a scaler: `Accelerator()`, or `mixed_precision="no"` or "bf16";
- `apex.amp.initialize` with `loss_scale=1.0` and the level "O1" or "O2", which are float16.

A finding is an error, except in these cases:

| the code | the finding |
|---|---|
| trains nothing real, as in a benchmark (all data is random, and nothing is saved) | is a warning |
| doesn't show the region's device (`autocast(device.type)`), and amplint assumes cuda | is a `likely` warning |
| steps in a method, or inherits a class, that amplint can't see | is a `likely` warning |
| only measures a step's memory, or runs a profiler over it | is a suspicion |
| has an Accelerator without `mixed_precision`, or with "no" or "bf16" | is a suspicion |

amplint reports nothing:

- about bfloat16, and about dtypes that the code doesn't show;
- about regions that run only frozen models, and not the loss;
- about regions for cuda in runs without a GPU (`args.use_cuda` is false), where the regions do nothing;
- if the function with the backward pass, a caller, or a function that it calls may scale the loss, by a scaler or by
  hand, or uses a library that scales by itself (Lightning, DeepSpeed, apex). A loss that is only divided
  (`loss / steps`) is not scaled.

## Why is this bad?
float16 has no numbers below 6e-8, and gradients are often smaller. They become zero, and the model learns worse, or not
at all. Nothing raises or warns. In a test with a loss of about 1e-4, 3.7 % of the gradients became zero, and updates
were off by 10 %; with a loss of about 1e-5, 80 % became zero. If a value overflows, no step is skipped, and the weights
become NaN.

## Example
```python
with torch.autocast("cuda", dtype=torch.float16):
    loss = criterion(model(batch), target)
loss.backward()
optimizer.step()
```

## Use instead
```python
scaler = torch.amp.GradScaler("cuda")

with torch.autocast("cuda", dtype=torch.float16):
    loss = criterion(model(batch), target)
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
```

## Fix safety
There is no fix: several places have to change. The scaler has to be created before the loop, used in each step, and
saved with the model. With `dtype=torch.bfloat16` no scaler is needed.

## Proof
The gradients of the wrong programs differ from the float32 reference by more than float16's rounding. With a scaler
they agree with the reference. Steps by hand are not executed (shows=none), as they leave no gradients on the
parameters. Run by hand with torch 2.13 on CPU, 87 % of the gradients from `torch.autograd.grad` became zero, with a
float16 loss of about 1e-6.

## References
- [Gradient scaling](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
- [Typical mixed precision
  training](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#typical-mixed-precision-training)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.fixes.device_choice import as_device_type
from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.call_sites import callers
from amplint.model.inference.devices import device_of
from amplint.model.inference.formulas import TRUE, World, both, possible
from amplint.model.inference.value_sets import decided
from amplint.model.inference.values import parameter_read
from amplint.model.objects.autocast_objects import Region
from amplint.model.objects.event import Event
from amplint.model.objects.terms import Term
from amplint.model.regions.openers import Open
from amplint.model.regions.training_regions import Trained, runs_in, trained, trained_by
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.ir import Assigned, Binding
from amplint.model.syntax.text_scan import code_of, has
from amplint.model.torch_facts.deprecated_names import scaler_for
from amplint.model.torch_facts.op_spellings import SPELLINGS, Gives
from amplint.model.usage.accelerators import SCALES, accelerators
from amplint.registry.rule import Rule
from amplint.rules.shared.apex_scales import without_a_scale
from amplint.rules.shared.device_flags import where_a_gpu_is_used
from amplint.rules.shared.enabled_flags import (
    can_be_float16,
    is_float16_on_cuda,
    only_reaching,
    plain_steps,
    said,
    settings_of_amp,
    turning,
)
from amplint.rules.shared.finite_checks import stands_in
from amplint.rules.shared.idle_scalers import words_of_idle_scalers
from amplint.rules.shared.loss_regions import is_arithmetic, loss_regions
from amplint.rules.shared.rehearsal import is_demo, is_probe, is_profiled, is_rehearsal
from amplint.rules.shared.scaler_usage import every_scaler_usage
from amplint.rules.shared.steps_by_hand import steps_by_hand

if TYPE_CHECKING:
    from amplint.model import Module

# A region that another file makes may be entered where nothing else has to do with AMP: `with ctx:`.
rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(),
    triggers=(
        "autocast & backward & step",
        "autocast & autograd & grad(",
        "apex & initialize & loss_scale",
        "with amp & import & backward & step",
        "with AMP & import & backward & step",
        "with ctx & import & backward & step",
        "with self.ctx & import & backward & step",
    ),
    not_shown="it depends on how small your gradients are",
    about_absence=True,
)

_TO_DO = "use a GradScaler or bfloat16"
_BY_HAND = "scale the loss and unscale the gradients, or use bfloat16"
_LET_SCALE = "let the Accelerator scale the loss"
_MANY = 16  # functions that lead to a backward
# What scales a loss, or may, in small letters; and what each such text has: to look for these first is much quicker.
_SCALED_BY = (
    "scal", "accelerat", "fabric", "lightning", "deepspeed", "apex", "manual_backward", "colossal", "horovod",
    "mmcv", "mmengine", "torch_xla", "hivemind", "paddle", "mindspore",
)  # fmt: skip
_SCALES = re.compile(
    r"scaler|scale_?loss|loss_?scal|scaled_?loss|(?<!torch\.)(?<!current_)accelerat(?:e\b|or)|\bfabric|lightning|deepspeed|apex"
    r"|manual_backward|colossal|fairscale|horovod|mmcv|mmengine|torch_xla|hivemind|paddle|mindspore"
)
# What divides gradients by what a loss was multiplied with; or clips them, where it was multiplied with nothing.
_DIVIDES = re.compile(r"(?<=[\w\])])\.grad(?:\.data)?(?:\s*[/*]=|\.(?:div|mul)_\()|_foreach_(?:div|mul)_")
_DIVIDED_BY = (".grad", "_foreach_")
# What a tensor is made by that an attack or a search changes, and no model has.
_INPUTS = {"Variable", "clone", "detach", *(name for name, op in SPELLINGS.items() if op.gives is Gives.LIKE)}
_WORD = re.compile(r"\w+")
_SCALER_WORD = re.compile(r"\w*scaler\w*")
# Names of the code's own with apex in them, as an algorithm or an option for apex's layers has.
_APEX_WORD = re.compile(r"\w+apex\w*|apex\w+")
_APEX_IMPORT = re.compile(r"(?m)^[ \t]*(?:from|import)[ \t]+apex\b|import_module\([\"']apex")


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each plain backward out of a float16 region that a plain step follows."""
    yield from _of_apex(module)
    yield from _of_accelerators(module)
    yield from _of_steps_by_hand(module)
    plain = [each for each in trained(module) if each.event.kind == "backward" and not each.scaled and not each.unseen]
    of_losses = {found.region for found in loss_regions(module)} if plain else set()  # AMP310: no float16 there
    for each in plain:
        if _may_scale(module, each):
            continue
        entered = [one for one in each.entered if one.at not in of_losses and not is_arithmetic(module, one.at)]
        judged = ((one, _judge(module, each, one)) for one in entered)
        for opened, finding in [(one, finding) for one, finding in judged if finding is not None][:1]:
            function = ir.function_of(each.event.call)
            yield finding._replace(
                cause=f"unscaled {function.id if function is not None else 0} {opened.region.call.id}"
            )


def _of_apex(module: Module) -> Iterator[Finding]:
    """Each `amp.initialize` of apex that trains in float16 with a loss scale of 1."""
    for scale in without_a_scale(module):
        by_hand = has(code_of(module.source.text), _DIVIDES, _DIVIDED_BY)  # may undo a scale of the file's own
        yield rule.finding(
            module.span(scale),
            "with a loss scale of 1 the float16 loss is not scaled: small gradients become 0, and infinite "
            "gradients reach the weights; use a dynamic loss scale",
            fix=Fix(Applicability.DISPLAY, 'Remove `loss_scale`, as the default is "dynamic"'),
            confidence=Confidence.LIKELY if by_hand else None,
        )


def _of_accelerators(module: Module) -> Iterator[Finding]:
    """Each backward of an Accelerator without a scaler out of a float16 region that the file opens itself."""
    for each in accelerators(module).unscaled_backwards():
        found = trained_by(module, Event("backward", each.call, subject=each.call.args[0].value), each.call)
        own = [] if found.scaled else [entered for entered in found.entered if not entered.region.opaque]
        finding = next(filter(None, (_judge(module, found, entered, _LET_SCALE) for entered in own)), None)
        if finding is None:
            continue
        name = module.on_one_line(each.accelerator)
        # With "bf16" a prepared model opens a region of its own, inside of the file's.
        owner = accelerators(module)
        may_be_own = not each.is_sure or ("bf16" in owner.precisions(each.accelerator) and any(owner.prepared()))
        unless = "" if each.is_sure else f'unless accelerate is configured for "{SCALES}" or "bf16", '
        shown = finding.as_suspicion() if may_be_own else finding
        yield shown._replace(
            message=f"{unless}{finding.message}",
            fix=Fix(
                Applicability.DISPLAY,
                f'Create `{name}` with `mixed_precision="{SCALES}"`, so that `backward` scales, and open regions with '
                f"`{name}.autocast()`",
            ),
        )


def _of_steps_by_hand(module: Module) -> Iterator[Finding]:
    """Each `torch.autograd.grad` of an unscaled loss from a float16 region, for a step without an optimizer."""
    for each in steps_by_hand(module):
        loss = argument(each.call, "torch.autograd.grad", "outputs")
        found = trained_by(module, Event("backward", each.call, subject=loss), each.call)
        if found.scaled or found.unseen or (found.multiplied and each.divided):
            continue
        entered = [one for one in found.entered if not is_arithmetic(module, one.at)]
        judged = (_judge(module, found, one, _BY_HAND, each.update) for one in entered)
        finding = next(filter(None, judged), None)
        if finding is not None:
            scaler = "call `scaler.scale` for the loss, and divide the gradients by `scaler.get_scale()`"
            shown = finding if each.sure else finding.as_likely()
            yield shown._replace(fix=Fix(Applicability.DISPLAY, f"In float16, {scaler}"))


def _may_scale(module: Module, found: Trained) -> bool:
    """Whether something in the code that runs with a backward may scale its loss.

    The scalers of sklearn scale data, and a loss that is only divided (`scaled_loss = loss / steps`) gets no scale.
    """
    running = _running_with(module, found.event.call)
    texts = (module.text(each) if each is not None else module.source.text for each in running)
    code = "\n".join(map(code_of, texts)).lower()
    divided = module.once(_divided)
    code = _WORD.sub(lambda word: "" if word[0] in divided else word[0], code) if divided else code
    if "apex" in code and not any("apex" in text and _APEX_IMPORT.search(text) for text in module.texts):
        code = _APEX_WORD.sub(_without_apex, code)
    if found.multiplied and has(code, _DIVIDES, _DIVIDED_BY):
        inputs = _inputs(module, found.event.call)
        if has(_WORD.sub(lambda word: "" if word[0] in inputs else word[0], code), _DIVIDES, _DIVIDED_BY):
            return True
    if not has(code, _SCALES, _SCALED_BY):
        return False
    idle = {name.lower() for call in module.whole.near("caler").calls for name in _of_sklearn(module, call)}
    idle |= words_of_idle_scalers(module, found.event.call, running, code)
    return has(_SCALER_WORD.sub(lambda word: "" if word[0] in idle else word[0], code), _SCALES, _SCALED_BY)


def _without_apex(word: re.Match[str]) -> str:
    """A name without what says apex: the library is in use only where it is imported."""
    return word[0].replace("apex", "")


def _divided(module: Module) -> frozenset[str]:
    """The variables, in small letters, that are called a scaled loss or its scale and are only ever a division's."""
    reads = [each for each in module.whole.near("cale").values if isinstance(each, ir.Name)]
    names = {each.name: each for each in reads if _SCALES.search(each.name.lower()) and not each.bound}
    return frozenset(
        name.lower()
        for name, read in names.items()
        if (bindings := module.names.bindings(read)) and all(map(_is_division, bindings))
    )


def _inputs(module: Module, backward: ir.Node) -> frozenset[str]:
    """The variables, in small letters, whose gradients are those of an input, as an attack asks for them: a tensor made
    like another one, which no optimizer has where the backward is.
    """
    reads = [each for each in module.whole.near(".grad").values if isinstance(each, ir.Attribute)]
    names = [each.base for each in reads if each.attr == "grad" and isinstance(each.base, ir.Name)]
    made = module.whole.within(ir.function_of(backward)).calls
    optimized = [call for call in made if any(name.startswith("torch.optim.") for name in module.names.of(call.func))]
    trained_here = {part.name for call in optimized for part in ir.walk_values(call) if isinstance(part, ir.Name)}
    others = {each.name for each in names if not all(map(_is_input, module.names.bindings(each) or (None,)))}
    return frozenset(each.name.lower() for each in names if each.name not in others | trained_here)


def _is_input(binding: Binding | None) -> bool:
    value = binding.value if isinstance(binding, Assigned) else None
    calls = [each for each in ir.walk_values(value) if isinstance(each, ir.Call)] if value is not None else []
    return any(ir.last_name(each.func) in _INPUTS for each in calls)


def _is_division(binding: Binding) -> bool:
    value = binding.value if isinstance(binding, Assigned) else None
    return isinstance(value, ir.Binary) and value.op == "Divide" and not isinstance(value.left, ir.Constant)


def _is_kept_for_others(module: Module, backward: ir.Node) -> bool:
    """Whether the class of a backward keeps a scaler that a base class out of sight may use."""
    function = ir.function_of(backward)
    cls = function.cls if function is not None else None
    return cls is not None and any(each.inherits and each.keeper is cls for each in every_scaler_usage(module))


def _running_with(module: Module, backward: ir.Node) -> list[ir.Function | ir.Class | None]:
    """The function that a backward stands in, those that lead to it, and those that it calls, of methods their class;
    None, the file, for a backward outside of functions.
    """
    function = ir.function_of(backward)
    if function is None:
        return [None]
    leading = [function]
    for each in leading:  # grows
        if len(leading) < _MANY:
            homes = dict.fromkeys(ir.function_of(call) for call in callers(module, each))
            leading += [home for home in homes if home is not None and home not in leading]
    numbers = module.once(CallGraph).reached(function.body)
    called = [found for number in numbers if (found := module.function(number)) is not None and found not in leading]
    return [*(each.cls or each for each in leading), *called]


def _of_sklearn(module: Module, call: ir.Call) -> Iterator[str]:
    """The names that a call of sklearn's goes by: its class, and what it is assigned to."""
    if any(name.startswith("sklearn.") for name in module.names.of(call.func)):
        yield ir.last_name(call.func)
        made = ir.statement_of(call)
        for target in made.targets if isinstance(made, ir.Assign) and made.value is call else ():
            yield ir.last_name(target)


def _judge(
    module: Module, found: Trained, entered: Open, to_do: str = _TO_DO, update: ir.Node | None = None
) -> Finding | None:
    """The finding about a region, if steps follow: those of optimizers, or an update by hand."""
    unseen = not can_be_float16(module, entered.region)
    if unseen and not (is_float16_on_cuda(module, entered.region) and not _is_of_inputs(module, found, entered)):
        return None
    known, backward = decided(module), found.event.call
    runs = where_a_gpu_is_used(
        module, entered.region, both(runs_in(module, entered, "float16"), known.around(backward))
    )
    steps = list(plain_steps(module, backward)) if update is None else []
    steps = [each for each in steps if possible(runs, known.inside(each.call)) is not None]
    follows = bool(steps) if update is None else possible(runs, known.inside(update)) is not None
    world = possible(runs)
    if not follows or world is None:
        return None
    deciding = settings_of_amp(module, _deciding(module, world, entered))
    under = said(module, world, runs, deciding, device_of(module, entered.region))
    return rule.finding(
        module.span(backward),
        f"{under}{', ' if under else ''}the loss from the float16 region on {module.line(entered.region.call)} is not "
        f"scaled: small gradients become 0, and infinite gradients reach the weights; {to_do}",
        fix=Fix(Applicability.DISPLAY, _by_hand(module, entered.region)),
        severity=Severity.WARNING if update is None and is_rehearsal(module, backward) else None,
        confidence=Confidence.SUSPICION
        if any(each(module, backward) for each in (is_probe, is_demo, is_profiled))
        else Confidence.LIKELY
        if unseen or (steps and all(each.how == "unseen" for each in steps)) or _is_kept_for_others(module, backward)
        else None,
    )


def _is_of_inputs(module: Module, found: Trained, entered: Open) -> bool:
    """Whether a region is open in a caller of the function with the backward only before the call: for what that call
    gives. A model may have been run there without gradients, unless it gives the loss.
    """
    backward, home = found.event.call, ir.function_of(entered.at)
    function = ir.function_of(backward)
    if home is function or (found.event.subject is not None and parameter_read(module, found.event.subject)):
        return False
    calls = [each for each in callers(module, function) if ir.function_of(each) is home]
    return bool(calls) and not any(
        stands_in(each, block) for each in calls for block in ir.statement_of(entered.at).blocks()
    )


def _by_hand(module: Module, region: Region) -> str:
    """What to do, with the scaler for the region's device."""
    device = device_of(module, region)
    written = region.device_type and as_device_type(module, region.device_type, region.call)
    text = f'"{device}"' if device else written or f'"{module.device or "cuda"}"'
    scaler = scaler_for(module.target, text)
    if scaler is None:
        return f"Use bfloat16, or require torch>=2.3 and scale the loss: older releases have no GradScaler for {text}"
    return f"Create a `{scaler}` once, and call its `scale`, `step` and `update` in each iteration"


def _deciding(module: Module, world: World, entered: Open) -> set[Term]:
    """The facts that decide about a region: not that its code is reached, by loops that go on and checks that pass.

    Nor which of several functions computes the loss in it.
    """
    float16 = both(entered.when or TRUE, decided(module).region_runs_in(entered.region, "float16"))
    return turning(world, float16) - only_reaching(module, entered)
