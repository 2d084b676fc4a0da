"""One autocast region spans several iterations with their optimizer steps.

## What it does
Finds an autocast region that is entered before a loop, if backward and the optimizer's step run in that loop: a `with`
around the loop, or a decorator on the function that contains the loop. Backward and step may be in functions that the
loop calls.

Also finds a disabled region around the loop, if the loop has regions of its own: these share the cache of the disabled
region.

The finding is only `likely`

- if the file casts another model to half precision;
- if the file compiles a model with `torch.compile`, which caches no casts.

It is only a suspicion if a profiler watches the loop and nothing is saved.

amplint reports nothing:

- if all parameters of the optimizer were cast to float16 or bfloat16: autocast caches only casts of float32 weights;
- if the loop clearly has at most five iterations, and an outer loop opens the region again: then a few steps use old
  weights, which AMP301 and AMP302 report;
- with `cache_enabled=False`, or if the loop calls `torch.clear_autocast_cache()`;
- if no region is enabled.

## Why is this bad?
Autocast keeps the half-precision copy of each weight until the outermost region ends. In one region around the loop,
each forward pass uses the copies from before the first step. The weights of linear and convolution layers seem frozen,
and the loss hardly falls: only parameters that autocast doesn't cast (of norms, for example) take effect. After the
loop, the forward pass uses the updated weights, which were trained with wrong gradients.

## Example
```python
with torch.autocast("cuda"):
    for inputs, targets in loader:
        loss = criterion(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
```

## Use instead
```python
for inputs, targets in loader:
    with torch.autocast("cuda"):
        loss = criterion(model(inputs), targets)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
```

## Fix safety
Safe: the fix passes `cache_enabled=False` to the autocast call. Weights are then cast at each use, which costs a little
time. Backward and the step stay in the region, which AMP301 and AMP302 report: one region per iteration is better, but
has to be written by hand.

There is no fix if the loop calls a function that has a region as its decorator, or enters a region that is created
elsewhere: that region would cache the old weights.

## Proof
The test programs are compared with a float32 run. In the wrong programs the loss falls less than in float32, and in
most of them not at all. In the corrected programs the loss falls as in float32.

## References
- [Autocasting](https://docs.pytorch.org/docs/stable/amp.html#autocasting)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.fixes.edits import add_last_argument
from amplint.model.calls.call_sites import callers
from amplint.model.flow.analysis import Flow, flows
from amplint.model.flow.state import Opened
from amplint.model.inference.iterations import runs_once
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import region_of, regions
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import is_within, loops_round
from amplint.model.syntax.queries import is_false
from amplint.registry.rule import Rule
from amplint.rules.shared.in_region import casts_a_model_to_half, cause, is_cast_to_half
from amplint.rules.shared.loop_rounds import is_brief
from amplint.rules.shared.rehearsal import is_profiled
from amplint.rules.shared.scaler_order import reached_events

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.SAFE,),
    triggers=("autocast & backward & step(",),
    shown_by=("learning", "autocast-state"),
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each region that a backward and a step in a loop inside it share."""
    if module.calls_of("torch.set_autocast_cache_enabled"):
        return
    found: dict[int, tuple[ir.Call, Flow, ir.For | ir.While, Opened]] = {}
    for flow in flows(module):
        for loop, opened in _steps(module, flow):
            region = module.value(opened.call)
            if isinstance(region, ir.Call) and _trains_in(flow, loop) and not _goes_without_cache(module, flow, loop):
                made = region_of(module, region)
                if made is not None and made.cache_enabled is None:
                    found.setdefault(region.id, (region, flow, loop, opened))
    for region, flow, loop, opened in found.values():
        offered, withheld = _fix(module, region, flow, loop)
        compiled = bool(module.calls_of("torch.compile"))  # what it compiles caches no casts
        made = region_of(module, region)
        yield rule.finding(
            module.span(region),
            _message(off=made is not None and is_false(made.enabled), compiled=compiled),
            fix=offered,
            withheld=withheld,
            cause=cause(opened),
            confidence=Confidence.SUSPICION
            if is_profiled(module, region)
            else Confidence.LIKELY
            if compiled or casts_a_model_to_half(module)
            else None,
        )


def _message(*, off: bool, compiled: bool) -> str:
    """What a region around iterations does, and what to do; `off`: it has `enabled=False`."""
    unless = " (unless the model is compiled)" if compiled else ""
    if off:
        return (
            "this disabled region spans several iterations, so the regions inside keep their cached weights: each "
            f"forward pass uses the weights from before the first step{unless}; remove this region, or "
            "pass `cache_enabled=False`"
        )
    return (
        "this autocast region spans several iterations: each forward pass uses the weights cached before the first "
        f"step{unless}; pass `cache_enabled=False`, or, better, use one region per iteration"
    )


def _fix(module: Module, region: ir.Call, flow: Flow, loop: ir.For | ir.While) -> tuple[Fix | None, str | None]:
    if region.unpacks("**"):
        return None, "the arguments come from a dict; add `cache_enabled=False` to that dict"
    for statement in module.whole.near("with").statements:
        if isinstance(statement, ir.With) and _is_run_by(flow, statement, loop):
            if any(isinstance(item.context, (ir.Name, ir.Attribute)) for item in statement.items):
                return (
                    None,
                    "the loop enters a region that is created elsewhere, which may cache too; end this region by hand",
                )
    others = (each.call for each in regions(module) if each.call is not region)
    inner = next((each for each in others if _decorates_in(module, flow, each, loop)), None)
    if inner is not None:
        return (
            None,
            f"in the loop, the region on {module.line(inner)} would cache the weights; end this region by hand",
        )
    edit = add_last_argument(module, region, "cache_enabled=False")
    made = region_of(module, region)
    is_off = made is not None and is_false(made.enabled)
    remain = (
        "the region stays disabled" if is_off else "AMP301 and AMP302 remain: backward and the step stay in the region"
    )
    return Fix(
        Applicability.SAFE,
        f"Pass `cache_enabled=False` ({remain})",
        (edit,),
    ), None


def _decorates_in(module: Module, flow: Flow, region: ir.Call, loop: ir.For | ir.While) -> bool:
    """Whether a region decorates a function that a loop calls: it doesn't take over `cache_enabled` of that loop's."""
    function = region.parent
    calls = callers(module, function) if isinstance(function, ir.Function) else []
    return any(_is_run_by(flow, each, loop) for each in calls)


def _steps(module: Module, flow: Flow) -> Iterator[tuple[ir.For | ir.While, Opened]]:
    """The loops of steps that run in a region entered outside, with that region."""
    for reached in reached_events(flow, "step", "optimizer_step"):
        loops = [each for each in _loops(flow, reached.event.call) if not runs_once(module, each)]
        optimizer, known = str(reached.event.optimizer), objects(module)
        if known.classes(optimizer) and not known.owns.get(optimizer):
            continue  # over tensors that are no model's weights, as far as can be seen
        owned = known.owns.get(optimizer)
        if owned and all(is_cast_to_half(module, each) for each in owned):
            continue  # the cache keeps casts of float32 weights only
        for state in reached.states:
            if not state.regions:
                continue
            # The cache lives until the outermost region ends, be it on or off.
            region = module.value(state.regions[0].at)
            spanned = [each for each in loops if _spans(flow, region, each, reached.event.call)]
            if not spanned or (is_brief(module, spanned) and _is_opened_anew(module, region)):
                continue
            if flow.regions.innermost(state, flow.conditions) is not None or _opens_regions(module, flow, spanned[0]):
                yield spanned[0], state.regions[0]


def _is_opened_anew(module: Module, region: ir.Value) -> bool:
    """Whether a loop round a region, or round the calls that lead to it, enters it again and again."""
    holder = ir.statement_of(region)
    for flow in flows(module):
        places = flow.call_sites(holder.body.statements[0]) if isinstance(holder, ir.Function) else [region]
        if any(not runs_once(module, loop) for place in places for loop in _loops(flow, place)):
            return True
    return False


def _spans(flow: Flow, region: ir.Value, loop: ir.For | ir.While, step: ir.Node) -> bool:
    """Whether a region that is open at a step, which a loop makes, is open round the loop."""
    if _is_run_by(flow, region, loop):
        return False
    if ir.function_of(loop) is ir.function_of(step):
        return True
    # The function of the step may be called elsewhere, too: in the region, but in no loop.
    holder = ir.statement_of(region)
    by_hand = not isinstance(holder, (ir.With, ir.Function)) and len(flow.call_sites(step)) == 1
    return by_hand or _is_held(flow, loop, holder)


def _is_held(flow: Flow, node: ir.Node, holder: ir.Statement, depth: int = 4) -> bool:
    """Whether a node stands in a statement, or only in functions that are called there."""
    sites = flow.call_sites(node) if depth and not flow.contains(node) else []
    return is_within(node, holder) or (bool(sites) and all(_is_held(flow, each, holder, depth - 1) for each in sites))


def _loops(flow: Flow, node: ir.Node, depth: int = 4) -> Iterator[ir.For | ir.While]:
    """The loops round a node, and those round the calls that lead to it, from the innermost on."""
    yield from loops_round(node)
    if not flow.contains(node) and depth:
        for site in flow.call_sites(node):
            yield from _loops(flow, site, depth - 1)


def _is_run_by(flow: Flow, node: ir.Node, loop: ir.For | ir.While) -> bool:
    """Whether a node stands in a loop, or in a function that is called there."""
    return any(each is loop for each in _loops(flow, node))


def _opens_regions(module: Module, flow: Flow, loop: ir.For | ir.While) -> bool:
    """Whether a loop has a `with` of its own for a region that can be on."""
    return any(
        isinstance(ir.statement_of(each.call), ir.With)
        and not is_false(each.enabled)
        and _is_run_by(flow, each.call, loop)
        for each in regions(module)
    )


def _trains_in(flow: Flow, loop: ir.For | ir.While) -> bool:
    return any(_is_run_by(flow, reached.event.call, loop) for reached in reached_events(flow, "backward"))


def _goes_without_cache(module: Module, flow: Flow, loop: ir.For | ir.While) -> bool:
    """Whether the loop clears the cache, or has regions that say themselves whether they use it."""
    told = [each.call for each in regions(module) if each.cache_enabled is not None]
    return any(_is_run_by(flow, each, loop) for each in (*module.calls_of("torch.clear_autocast_cache"), *told))
