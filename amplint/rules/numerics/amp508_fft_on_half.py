"""A half-precision tensor goes into a Fourier transform.

## What it does
Finds calls of `torch.fft` and `torch.stft` whose input an autocast region has left in half precision. The call may be
after the region, or in a region for cuda, xpu or mps, where autocast does not cast the input.

amplint reports nothing:

- in a region for the CPU, where autocast computes transforms in float32;
- after `.float()`;
- if `stft` has a float32 window (the product with it is float32);
- if the error is caught;
- if amplint can't see where the input comes from.

## Why is this bad?
On cuda, bfloat16 can't be transformed, and float16 only in sizes that are powers of two. Other sizes raise
RuntimeError, often long after training began, at the first input of another size. Where a float16 transform runs, its
results have 11 significant bits, and overflow above 65,504.

## Example
```python
with torch.autocast("cuda", dtype=torch.float16):
    spectrum = torch.fft.rfft2(conv(images))
```

## Use instead
```python
with torch.autocast("cuda", dtype=torch.float16):
    spectrum = torch.fft.rfft2(conv(images).float())
```

## Fix safety
The fix casts the input with `.float()`. Unsafe: the spectrum becomes complex64, also for later operations.

## Proof
The wrong programs raise RuntimeError. (cuda is simulated on the CPU, where half precision can't be transformed at all.)
The updates of the corrected programs agree with the reference.

## References
- [torch.fft.fft](https://docs.pytorch.org/docs/stable/generated/torch.fft.fft.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Finding, Severity
from amplint.model.half.autocast_context import Autocast
from amplint.model.half.observations import Given, Seen
from amplint.model.inference.tensor_types import HALF, Kind
from amplint.model.syntax import ir
from amplint.model.torch_facts.autocast_ops import Cast
from amplint.model.torch_facts.op_spellings import SPELLINGS
from amplint.registry.rule import Rule
from amplint.rules.shared.finite_checks import is_caught
from amplint.rules.shared.half_ops import dtype_of, met, shown, up

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.UNSAFE,),
    triggers=("autocast & fft", "autocast & stft"),
    not_shown="verify uses a small model and criterion of its own instead of yours",
)

_TRANSFORMS = [name for name in SPELLINGS if name.startswith("fft_") or name == "stft"]


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each Fourier transform of a half tensor."""
    done: set[int] = set()
    for seen in met(module, _TRANSFORMS):
        casts = seen.autocast.casts(SPELLINGS[seen.spelling].ops) if seen.autocast.state == Autocast.ON else []
        value, kind = seen.operands[0] if seen.operands else (None, None)
        if (
            value is None
            or kind is None
            or kind.what != HALF
            or seen.autocast.state == Autocast.UNKNOWN
            or seen.node.id in done
        ):
            continue
        if any(each is Cast.FLOAT32 for each in casts) or _has_window(seen) or is_caught(module, seen.node):
            continue
        done.add(seen.node.id)
        name = shown(module, value)
        yield rule.finding(
            module.span(seen.node),
            f"{name} is {dtype_of(kind)}: on cuda, {_raises(kind)}; call `.float()` on {name}",
            fix=up(module, [value], effect="the spectrum becomes complex64"),
        )


def _raises(kind: Kind) -> str:
    """On what input the transform raises, by the dtypes that it can have."""
    float16 = "an FFT of float16 raises unless each transformed size is a power of two"
    bfloat16 = "an FFT of bfloat16 raises"
    return " and ".join(said for name, said in (("float16", float16), ("bfloat16", bfloat16)) if kind.can_be(name))


def _has_window(seen: Seen) -> bool:
    """Whether `stft` multiplies its input by a window that isn't half: the product is float32."""
    window = seen.keywords.get("window") or next(iter(seen.operands[4:5]), None)
    return window is not None and window[1].what != HALF and not _is_none(window)


def _is_none(given: Given) -> bool:
    return isinstance(given[0], ir.Constant) and given[0].value is None
