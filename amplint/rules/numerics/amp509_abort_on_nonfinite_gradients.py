"""The program ends if gradients are not finite, although the scaler would skip that step.

## What it does
Finds code in a training step with a float16 autocast region and a scaler that may be enabled, which raises or exits if
gradients are not finite:

- a `raise`, `assert` or `sys.exit` that depends on NaN or infinity in the gradients or their norm. The check may be in
  a loop over the parameters that sets a flag, in another function, or in each k-th iteration (`step % 100 == 0`);
- `clip_grad_norm_(..., error_if_nonfinite=True)`;
- anomaly detection that is always on (`torch.autograd.set_detect_anomaly(True)`, `with
  torch.autograd.detect_anomaly():`), or that a Lightning `Trainer` for float16 turns on (`detect_anomaly=True`). It is
  *likely* if a function turns it on that only makes the object whose method trains.

If a setting enables the scaler, the message names it. The finding is *likely* if the scaler is off by default.

amplint reports nothing:

- if all regions are bfloat16;
- if the scaler is disabled, or amplint can see no scaler;
- if a flag or a counter is part of the decision (`if debug:`, "ten in a row");
- if the exception is caught, or is of the project's own class;
- about a loss that is not finite, which AMP505 reports.

## Why is this bad?
With a GradScaler, gradients overflow now and then: the scale starts at 65,536, and grows until the gradients overflow.
`scaler.step` skips a step that overflows, and `scaler.update` halves the scale. With a check that raises, the program
ends in its first steps, or after days, though its training is fine.

Anomaly detection lets infinite gradients pass, and raises at the first NaN. In most networks' backward pass an overflow
becomes NaN: where infinite gradients of both signs are added, or meet a softmax or a layer norm.

## Example
```python
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
if not torch.isfinite(norm):
    raise RuntimeError("gradient overflow")
scaler.step(optimizer)
scaler.update()
```

## Use instead
```python
# before the loop
bad_in_a_row = 0

# in the loop
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
bad_in_a_row = 0 if torch.isfinite(norm) else bad_in_a_row + 1
if bad_in_a_row > 20:
    raise RuntimeError("the gradients stay non-finite at every scale")
scaler.step(optimizer)
scaler.update()
```

With DistributedDataParallel all ranks have the same gradients, so they count the same and end together.

## Fix safety
There is no fix: amplint can't tell whether to remove the check, or to allow a few overflows in a row.

## Proof
The test programs train in float16 with gradients that overflow in the first steps. The wrong programs raise; the
corrected programs train to their end.

## References
- [Gradient scaling](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
- [Anomaly detection](https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.model.calls.external_calls import class_made, inherits
from amplint.model.inference.values import held
from amplint.model.objects.amp_objects import scaler_arguments
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument, arguments
from amplint.model.syntax.control import conditions_round
from amplint.model.syntax.nesting import conditions, ifs_round
from amplint.model.syntax.queries import calls_in, is_false
from amplint.registry.rule import Rule
from amplint.rules.shared.default_values import holds_by_default
from amplint.rules.shared.enabled_flags import constructions, only_if_enabled
from amplint.rules.shared.finite_checks import (
    Abort,
    aborts,
    comes_again,
    gradients_in,
    is_caught,
    is_handled,
    made_of,
    only_asks_for_presence,
    returns_norm,
)
from amplint.rules.shared.lightning import Setup, setups
from amplint.rules.shared.scaler_order import receiver
from amplint.rules.shared.skipped_steps import is_plain, places_in, scaler_calls, step_round

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.flow.analysis import Flow
    from amplint.model.objects.event import Event

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(),
    triggers=(
        "error_if_nonfinite & .scale( & backward",
        "error_if_nonfinite & scaler & step(",
        "detect_anomaly & .scale( & backward",
        "ightning & detect_anomaly & precision",
        "grad & isfinite & .scale( & backward",
        "grad & isfinite & scaler & step(",
        "grad & isnan & .scale( & backward",
        "grad & isnan & scaler & step(",
        "grad & isinf & .scale( & backward",
        "grad & isinf & scaler & step(",
    ),
    not_shown="whether gradients overflow depends on the model and its data",
)

_ANOMALY = {
    f"torch.autograd.{module}{name}"
    for module in ("", "anomaly_mode.")
    for name in ("set_detect_anomaly", "detect_anomaly")
}
_ON_DEMAND = re.compile(r"(?i)debug|anomal")
_GIVE_UP = "To stop a run that diverges, end the program after many skipped steps in a row"


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each abort, clip and anomaly detection that doesn't let the scaler leave a step out."""
    for abort in aborts(module):
        yield from _judge_abort(module, abort)
    for call in module.whole.near("error_if_nonfinite", *module.words(*_ANOMALY)).calls:
        if _raises(module, call):
            yield from _judge_clip(module, call)
        elif module.names.of(call.func) & _ANOMALY and _is_on(call):
            if (step := _step_run(module, call)) is not None:
                scale, likely = step
                yield _detects_anomalies(module, call, scale, likely=likely)
            elif module.is_own(call) and (setup := _trainer_after(module, call)) is not None:
                yield _detects_anomalies(module, call, likely=not setup.surely_scales(module))
    for setup in setups(module):
        given = setup.call.keyword("detect_anomaly")
        if isinstance(given, ir.Constant) and given.value is True and setup.surely_scales(module):
            yield _detects_anomalies(module, given)


def _detects_anomalies(module: Module, place: ir.Value, scale: Event | None = None, *, likely: bool = False) -> Finding:
    only, off = _only_if(module, scale) if scale is not None else ("", False)
    return rule.finding(
        module.span(place),
        f"{only}anomaly detection ends the program at the first NaN in a backward pass, whose step the scaler would "
        "skip; enable anomaly detection only to find a bug",
        fix=Fix(Applicability.DISPLAY, "Enable anomaly detection with a debug flag"),
        confidence=Confidence.LIKELY if likely or off else None,
    )


def _only_if(module: Module, event: Event, flow: Flow | None = None) -> tuple[str, bool]:
    """The setting that enables the scaler of a call, in words, and whether it is off by default."""
    made = constructions(module, receiver(event))
    if any(is_false(scaler_arguments(module, each).get("enabled")) for each in made) or (
        flow is not None and _waits_for_enabled(flow)
    ):
        return "if the scaler is enabled, ", False
    if len(made) != 1 or not (only := only_if_enabled(module, made[0])):
        return "", False
    enabled = scaler_arguments(module, made[0])["enabled"]
    return only, holds_by_default(module, held(module, enabled)) is False


def _waits_for_enabled(flow: Flow) -> bool:
    """Whether all steps are under `if scaler.is_enabled():`: there is another arm, without a scaler."""

    def asks(step: ir.Value) -> bool:
        asked = (each for test, _ in conditions_round(step) for each in ir.walk_values(test))
        return any(isinstance(each, ir.Attribute) and each.attr == "is_enabled" for each in asked)

    steps = [each.call for each in flow.events if each.kind == "step"]
    return bool(steps) and all(map(asks, steps))


def _then(module: Module, step: Event) -> str:
    """What the scaler does by itself."""
    scaler = module.text(receiver(step))
    return f"`{scaler}.step` skips the step, and `{scaler}.update` lowers the scale"


def _judge_abort(module: Module, abort: Abort) -> Iterator[Finding]:
    for value in abort.asked:
        source = gradients_in(module, value)
        if source is None:
            continue
        here = [each for each in made_of(module, value) if ir.function_of(each) is ir.function_of(abort.at)]
        around = [each.test for each in conditions(abort.decides, here[-1])] if here else []
        if not only_asks_for_presence(module, (each for each in around if not comes_again(module, each, True))):
            continue
        found = step_round(module, abort.decides)
        if found is not None and not is_plain(found[0], source):
            only, off = _only_if(module, found[1], found[0])
            to_do = "skip the check then" if only else "remove the check, as an overflow is normal"
            yield rule.finding(
                module.span(abort.at),
                f"{only}this check ends the program when gradients overflow; {to_do}: {_then(module, found[1])}",
                fix=Fix(Applicability.DISPLAY, _GIVE_UP),
                confidence=Confidence.LIKELY if off else None,
            )
            return


# --- clips ------------------------------------------------------------------------------------------------------------


def _raises(module: Module, call: ir.Call) -> bool:
    """`clip_grad_norm_(..., error_if_nonfinite=True)`."""
    given = argument(call, "torch.nn.utils.clip_grad_norm_", "error_if_nonfinite")
    return isinstance(given, ir.Constant) and given.value is True and returns_norm(module, call)


def _judge_clip(module: Module, call: ir.Call) -> Iterator[Finding]:
    found = step_round(module, call) if not is_caught(module, call) else None
    if found is not None and not is_plain(found[0], call):
        only, off = _only_if(module, found[1], found[0])
        normal = "" if only else ", as an overflow is normal"
        yield rule.finding(
            module.span(call),
            f"{only}`error_if_nonfinite=True` ends the program when gradients overflow; remove the argument{normal}: "
            f"{_then(module, found[1])}",
            fix=Fix(Applicability.DISPLAY, _GIVE_UP),
            confidence=Confidence.LIKELY if off else None,
        )


# --- anomaly detection ------------------------------------------------------------------------------------------------


def _is_on(call: ir.Call) -> bool:
    """Whether a call switches the search for NaN on, whatever the program is asked for."""
    as_context = ir.last_name(call.func) == "detect_anomaly"
    given = arguments(call, f"torch.autograd.{'' if as_context else 'set_'}detect_anomaly")
    if is_false(given.get("check_nan")):
        return False
    mode = given.get("mode")
    return isinstance(call.parent, ir.With) if as_context else isinstance(mode, ir.Constant) and mode.value is True


def _step_run(module: Module, call: ir.Call) -> tuple[Event, bool] | None:
    """The scaled backward that runs with the detection on, in a function that doesn't catch what that raises, and
    whether that is only likely: an object makes the step whose class stands in sight, and out of sight who calls it.
    """
    function = ir.function_of(call)
    scaled = [
        (flow, reached.event)
        for flow, reached in scaler_calls(module, "scale")
        if not is_handled(module, reached.event.call, RuntimeError)
    ]
    if _is_on_demand(module, call):
        return None
    if isinstance(call.parent, ir.With):
        body = call.parent.body
        return next(((each, False) for flow, each in scaled if places_in(flow, each.call, body)), None)
    if _is_switched_off(module, call):
        return None
    for flow, each in scaled:
        if function is None or flow.container is function or _are_of_one_class(function, each.call):
            return each, False
    made = {cls for each in calls_in(function) if (cls := class_made(module, each)) is not None} if function else ()
    return next(((each, True) for _, each in scaled if any(_has_method(module, cls, each.call) for cls in made)), None)


def _has_method(module: Module, cls: ir.Class, node: ir.Node) -> bool:
    """Whether a node stands in a method of a class, or of one that it inherits."""
    home = _class_of(node)
    return home is not None and (cls is home or inherits(module, cls, home))


def _class_of(node: ir.Node) -> ir.Class | None:
    """The class in whose method a node stands."""
    function = ir.function_of(node)
    return function.cls if function is not None else None


def _are_of_one_class(function: ir.Function, call: ir.Value) -> bool:
    """Whether a call stands in a method of the class whose method a function is."""
    return function.cls is not None and _class_of(call) is function.cls


def _is_on_demand(module: Module, call: ir.Call) -> bool:
    """Whether a condition or the function's name says that a call is for a search, or what it raises is caught."""
    function = ir.function_of(call)
    named = function is not None and bool(_ON_DEMAND.search(function.name))
    return named or _is_conditional(module, call) or is_caught(module, call)


def _is_conditional(module: Module, call: ir.Call) -> bool:
    """Whether a condition decides about a call, but for that of a script."""
    return any("__name__" not in module.text(each.test) for each in ifs_round(call))


def _is_switched_off(module: Module, call: ir.Call) -> bool:
    """Whether the file switches the detection off again."""
    others = (each for each in module.calls_of(*_ANOMALY) if each is not call and not isinstance(each.parent, ir.With))
    return not all(map(_is_on, others))


def _trainer_after(module: Module, call: ir.Call) -> Setup | None:
    """The Trainer of Lightning that scales losses, in the function in which a call switches the detection on for all
    that follows.
    """
    function = ir.function_of(call)
    if isinstance(call.parent, ir.With) or _is_on_demand(module, call) or _is_switched_off(module, call):
        return None
    found = (each for each in setups(module) if each.what == "Trainer" and each.scales(module))
    return next((each for each in found if function is None or ir.function_of(each.call) is function), None)
