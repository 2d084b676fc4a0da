"""An epsilon that should keep a float16 tensor from 0 (or from 1) is itself 0 in float16.

## What it does
Finds a constant of less than 3e-8 that should keep a float16 tensor from 0: it is added to the tensor
(`x / (x.amax() + 1e-8)`), or the tensor is clamped to it (`p.clamp(min=1e-12)`). The tensor is one that an autocast
region has left in float16. The constant may be a literal, a name, an attribute or a parameter's default.

Also finds a limit that should keep a half-precision tensor from 1, but is 1 in its dtype: `p.clamp(max=1 - 1e-4)`. In
float16 that is each limit of more than 1 - 2.5e-4, in bfloat16 of more than 1 - 2e-3. It is reported if `log(1 - p)`,
`acos` or `asin` of the clamped tensor follows in the same function: with `acos` and `asin` only as `likely`.

amplint reports nothing:

- if the tensor is float32 at that place: after `.float()`, or after an operation that autocast computes in float32 (on
  cuda `norm`, `sum`, `softmax`, `exp`);
- about epsilons in bfloat16, which has float32's range;
- about larger constants;
- if a larger constant was already added to the tensor on some path.

## Why is this bad?
The smallest positive number of float16 is 6e-8, and 1e-8 rounds to 0. Where the tensor is 0, the sum or the clamped
tensor is 0, too. The division or logarithm that follows gives inf or NaN, which would not happen in float32.

The largest number of float16 below 1 is 0.9995. The derivatives of `acos` and `asin` at 1 are infinite, as is the
logarithm of 1 - 1.

## Example
```python
with torch.autocast("cuda", dtype=torch.float16):
    weight = torch.relu(head(features)).detach()
    weight = weight / (weight.mean() + 1e-8)
```

## Use instead
```python
with torch.autocast("cuda", dtype=torch.float16):
    weight = torch.relu(head(features)).detach()
    weight = weight.float() / (weight.mean().float() + 1e-8)
```

## Fix safety
The fix computes the sum or the clamp in float32:

- If the divisor has no dimensions (`x.amax()`), the fix casts the dividend, too. A float16 tensor divided by a float32
  tensor without dimensions is float16.
- For a sigmoid, the fix casts its logits: in float16 the sigmoid is 1 from a logit of 8.3 on, and no later cast brings
  back what was lost.

Unsafe: later results may become float32 too. A gradient through `1 / epsilon` may still exceed float16's range; if
there is such a gradient, a larger epsilon is better.

There is no fix for in-place operations, and none for a tensor without dimensions if amplint can't see what it divides.

## Proof
The test programs train with values of 0. The loss of the wrong programs becomes NaN; the corrected programs have the
reference's loss.

## References
- [Half-precision floating-point format](https://en.wikipedia.org/wiki/Half-precision_floating-point_format)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Finding, Fix, Severity
from amplint.model.half.observations import Given, Seen
from amplint.model.inference.numbers import number
from amplint.model.inference.tensor_types import NUMBER, Kind
from amplint.model.inference.values import values_of
from amplint.model.names.reaching_definitions import only_assignment
from amplint.model.syntax import ir
from amplint.registry.rule import Rule
from amplint.rules.shared.half_ops import ZERO_FLOAT16, divided_by, dtype_of, is_one_number, met, shown, up

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.UNSAFE,),
    triggers=("autocast",),
    not_shown="verify uses a small model and criterion of its own instead of yours",
)

_ADDS = ("add", "add_", "sub", "sub_")
_SIGMOIDS = {"torch.sigmoid", "torch.nn.functional.sigmoid", "torch.special.expit"}
_COMPUTES = {
    "sigmoid",
    "expit",
    "std",
    "var",
    "mean",
    "sqrt",
    "square",
    "abs",
    "amax",
    "max",
    "relu",
    "mul",
    "div",
    "tanh",
}
_SHORT = 40
# The largest distance from 1 at which a number rounds to 1, by dtypes.
_ROUNDS_TO_ONE = {"float16": 2.0**-12, "bfloat16": 2.0**-9}
_STEEP = ("acos", "asin")
_CLAMPS = ("clamp", "clip", "clamp_min", "clamp_", "clip_", "clamp_min_")
_LIMITS = ("clamp", "clip", "clamp_max", "clamp_", "clip_", "clamp_max_")


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each epsilon that is 0 in the dtype of its tensor."""
    done: set[int] = set()
    for seen in met(module, (*_ADDS, *_CLAMPS)):
        found = _guarded(seen)
        if found is None or seen.node.id in done:
            continue
        done.add(seen.node.id)
        tensor, epsilon = found
        if _is_lifted(module, tensor) or (seen.result.likely_half and not _is_computed(module, tensor)):
            continue
        squashed = _squashed(module, tensor)
        literal, name = f"{epsilon:g}", shown(module, tensor)
        does = (
            f"after clamping to {literal}, a 0 is still 0"
            if seen.spelling in _CLAMPS
            else f"after adding {literal}, a 0 is still 0"
        )
        todo = _todo(module, seen, tensor) if squashed is None else _in_float32(module, squashed)
        fix, withheld = _fix(module, seen, tensor)
        yield rule.finding(
            module.span(seen.node),
            f"{literal} rounds to 0 in float16, the dtype of {name}: {does}; {todo}",
            fix=fix,
            withheld=withheld,
            cause=f"sigmoid {squashed.id}" if squashed is not None else "",
            confidence=Confidence.LIKELY if seen.result.likely_half else Confidence.CERTAIN,
        )
    yield from _limits(module, done)


def _limits(module: Module, done: set[int]) -> Iterator[Finding]:
    """Each limit that is to keep a half tensor from 1, and is 1 in its dtype."""
    for seen in met(module, _LIMITS):
        limit, (tensor, kind) = _limit(seen), seen.operands[0] if seen.operands else (None, seen.result)
        if limit is None or tensor is None or seen.node.id in done or not _is_one(limit[1], kind):
            continue
        used = _use_near_one(module, seen)
        if used is None or (kind.likely_half and not _is_computed(module, tensor)):
            continue
        done.add(seen.node.id)
        squashed = _squashed(module, tensor)
        casts = (_logits(module, squashed) if squashed is not None else None) or tensor
        in_place = seen.spelling.endswith("_") and casts is tensor
        what = f"the gradient of `{used}` is infinite" if used in _STEEP else f"`{used}` is -inf"
        name = shown(module, tensor)
        yield rule.finding(
            module.span(seen.node),
            f"{shown(module, limit[0])} rounds to 1 in {dtype_of(kind)}, the dtype of {name}: the clamp doesn't "
            f"prevent 1, and for 1 {what}; call `.float()` on {shown(module, casts)} first",
            fix=up(module, [casts]) if not in_place else None,
            withheld="the operation changes the tensor in place; create a new tensor by hand" if in_place else None,
            confidence=Confidence.LIKELY if used in _STEEP or kind.likely_half else Confidence.CERTAIN,
        )


def _limit(seen: Seen) -> tuple[ir.Value, float] | None:
    """The largest number that a clamp leaves, as it is written and as a number."""
    at = 1 if seen.spelling.startswith("clamp_max") else 2
    value, kind = seen.keywords.get("max") or (seen.operands[at] if len(seen.operands) > at else (None, seen.result))
    if value is None or kind.what != NUMBER or kind.value is None:
        return None
    return value, kind.value


def _is_one(limit: float, kind: Kind) -> bool:
    """Whether a number below 1 is 1 in each of the half dtypes that a tensor has, surely or likely."""
    return bool(kind.names) and all(0 < 1 - limit <= _ROUNDS_TO_ONE[each] for each in kind.names)


def _use_near_one(module: Module, clamp: Seen) -> str | None:
    """What is computed of a clamped tensor in its function that is infinite at 1, or has an infinite gradient."""
    bound = clamp.node.parent
    targets = bound.targets if isinstance(bound, ir.Assign) else ()
    names = {each.name for each in targets if isinstance(each, ir.Name)}
    for seen in met(module, ("log", *_STEEP)):
        if seen.sites != clamp.sites or not seen.operands or not seen.operands[0][1].names:
            continue
        value = seen.operands[0][0]
        if seen.spelling == "log":
            if not isinstance(value, ir.Binary) or value.op != "Subtract" or not _is_literally_one(value.left):
                continue
            value = value.right
        is_read = isinstance(value, ir.Name) and value.name in names and value.id > clamp.node.id
        if value is clamp.node or is_read:
            return "log(1 - x)" if seen.spelling == "log" else seen.spelling
    return None


def _is_literally_one(value: ir.Value) -> bool:
    return isinstance(value, ir.Constant) and value.value == 1


def _todo(module: Module, seen: Seen, tensor: ir.Value) -> str:
    """What to cast: what a tensor without dimensions divides as well, which stays float16 otherwise."""
    name = shown(module, tensor)
    if seen.spelling.endswith("_") or not isinstance(seen.node, (ir.Call, ir.Binary)):
        return f"compute the result out of place, with `.float()` on {name}"
    if not is_one_number(module, tensor):
        return f"call `.float()` on {name} first"
    divided = divided_by(seen.node)
    if divided is None:
        return f"call `.float()` on {name}, and on the tensors that are computed with the result"
    if isinstance(divided, ir.Constant) or is_one_number(module, divided):
        return f"call `.float()` on {name} first"
    dividend = module.on_one_line(divided)
    short = len(dividend) <= _SHORT
    both = f"`{dividend}` and {name}" if short else "the dividend and the divisor"
    return f"call `.float()` on {both} first, to divide in float32"


def _in_float32(module: Module, squashed: ir.Call) -> str:
    """What to do where a sigmoid has rounded: it gets its logits in float32."""
    logits = _logits(module, squashed)
    return f"call `.float()` on {shown(module, logits)} before the sigmoid" if logits is not None else ""


def _fix(module: Module, seen: Seen, tensor: ir.Value) -> tuple[Fix | None, str | None]:
    """The cast of the tensor; of what it divides as well, where it has no dimensions: float16 over that is float16."""
    squashed = _squashed(module, tensor)
    given = _logits(module, squashed) if squashed is not None else None
    if given is not None:  # what it gives is rounded, to 1 from 8.3 on
        return up(module, [given]), None
    if seen.spelling.endswith("_") or not isinstance(seen.node, (ir.Call, ir.Binary)):
        return None, "the operation changes the float16 tensor in place; create a new tensor by hand"
    if not is_one_number(module, tensor):
        return up(module, [tensor]), None
    divided = divided_by(seen.node)
    if divided is None:
        return None, f"{shown(module, tensor)} has no dimensions, and float16 with it stays float16; cast both by hand"
    if isinstance(divided, ir.Constant) or is_one_number(module, divided):
        return up(module, [tensor]), None
    return up(module, [divided, tensor]), None


def _is_lifted(module: Module, tensor: ir.Value) -> bool:
    """Whether a number that float16 has is added to a tensor before, on some path: that keeps it from 0."""
    for leaf in values_of(module, tensor).leaves:
        value = ir.before_calls(leaf.value, *_CLAMPS)
        if isinstance(value, ir.Binary) and value.op == "Add":
            added = [number(module, each) for each in (value.left, value.right)]
            if any(each is not None and each.value is not None and each.value > ZERO_FLOAT16 for each in added):
                return True
    return False


def _is_computed(module: Module, tensor: ir.Value) -> bool:
    """Whether an operation in sight gives a tensor. What a model gives may be probabilities, which are float32 after a
    softmax.
    """
    if isinstance(tensor, ir.Name):
        made = only_assignment(module.names, tensor)
        return made is not None and _is_computed(module, made.value)
    if isinstance(tensor, ir.Binary):
        return True
    name = ir.last_name(tensor.func) if isinstance(tensor, ir.Call) else ""
    return name in _COMPUTES


def _squashed(module: Module, tensor: ir.Value) -> ir.Call | None:
    """The sigmoid that a tensor is, or 1 minus it."""
    if isinstance(tensor, ir.Binary) and isinstance(tensor.left, ir.Constant):
        return _squashed(module, tensor.right)
    if isinstance(tensor, ir.Name):
        made = only_assignment(module.names, tensor)
        return _squashed(module, made.value) if made is not None else None
    return tensor if isinstance(tensor, ir.Call) and _logits(module, tensor) is not None else None


def _logits(module: Module, call: ir.Call) -> ir.Value | None:
    """What a call gives the sigmoid of."""
    if module.names.of(call.func) & _SIGMOIDS:
        return call.positional[0] if call.positional else None
    return ir.called_on(call, "sigmoid")


def _guarded(seen: Seen) -> tuple[ir.Value, float] | None:
    """The half tensor and the epsilon that is to keep it from 0."""
    given: list[Given] = list(seen.operands[:2])
    if seen.spelling in _CLAMPS and "min" in seen.keywords:
        given = [seen.operands[0], seen.keywords["min"]]
    tensors = [value for value, kind in given if _is_float16(kind) and value is not None]
    numbers = [kind.value for _, kind in given if kind.what == NUMBER and kind.value is not None]
    if len(tensors) != 1 or len(numbers) != 1 or not _is_float16(seen.result):
        return None
    return (tensors[0], numbers[0]) if 0 < numbers[0] < ZERO_FLOAT16 else None


def _is_float16(kind: Kind) -> bool:
    """Whether a value can be a float16 tensor, or likely is one, as a model out of sight gives it."""
    return kind.can_be("float16") or (kind.likely_half and "float16" in kind.names)
