"""A variance is the difference of two means that an autocast region computes in bfloat16.

## What it does
Finds a variance or covariance that is a mean of products minus a product of means, `conv2d(x * x, w) - mean**2`, if one
of the means is in bfloat16. SSIM and local cross-correlation are computed in this way. The mean is

- a convolution, which autocast computes in half precision whatever its input is;
- or a pooling of a half-precision tensor.

A function or a layer of the project may compute the means.

The finding is only `likely`

- for SSIM of a library (`pytorch_msssim`, `piq`, `kornia`, `torchmetrics`) in a bfloat16 region;
- if the region can be float16 as well;
- if the pooled tensor comes from a model that amplint can't see.

amplint reports nothing:

- if the means are float32: poolings of float32 tensors, or means computed under `enabled=False` from float32 tensors;
- if the region is disabled, or float16 (AMP510, off by default);
- if the squared tensor is itself a difference, such as `x - x.mean()`: its means are small;
- about means over all elements, `(x * x).mean() - x.mean()**2`.

## Why is this bad?
bfloat16 keeps 8 bits of a number, so both means are off by up to 0.2%. Where an image is flat, its variance is smaller
than the error of the squared mean. The difference is then noise, 0 or negative, and SSIM divides by it.

Measured with torch 2.13 for SSIM (window of 11, sigma of 1.5) of smooth images around 0.6 with noise of 0.03: the
median error of a variance is 22 to 100%, and 2 to 11% of them are negative. The cosine between the gradient and the
float32 gradient is 0.07 to 0.23, and the norm of the gradient is up to 6 times as large as in float32. With `relu`
around the variances, SSIM of the smoothest images is 0.18 instead of 0.60.

float16 keeps 11 bits, and is better, but not right: for the same images the median error is 3 to 14%, and the cosine
0.95 or more. With noise of 0.01 the cosine is 0.69 to 0.97.

## Example
```python
with torch.autocast("cuda", dtype=torch.bfloat16):
    mean = F.conv2d(image, window, groups=3)
    variance = F.conv2d(image * image, window, groups=3) - mean**2
```

## Use instead
```python
with torch.autocast("cuda", enabled=False):
    image = image.float()
    mean = F.conv2d(image, window, groups=3)
    variance = F.conv2d(image * image, window, groups=3) - mean**2
```

## Fix safety
There is no fix: cast the tensors with `.float()`, and compute the means from them under `autocast(enabled=False)`.
For a pooling, `.float()` is enough. For a convolution it changes nothing by itself, as autocast casts the inputs back.
Under `enabled=False` the convolution's window has to be float32, too.

## Proof
The test programs train with smooth images. The updates of the wrong programs differ from float32 by more than rounding,
and the updates of the corrected programs don't.

## References
- [Autocast op reference](https://docs.pytorch.org/docs/stable/amp.html#cuda-ops-that-can-autocast-to-float16)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Confidence, Finding, Severity
from amplint.model.syntax import ir
from amplint.registry.rule import Rule
from amplint.rules.shared.variances import (
    MEANS_BY_HAND,
    SSIM_BY_HAND,
    said_of,
    said_of_ssim,
    ssim_of_libraries,
    variances,
)

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(),
    triggers=("autocast",),
    not_shown="verify uses a small model and criterion of its own instead of yours",
)


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each variance whose means can be in bfloat16."""
    for each in variances(module):
        if "bfloat16" in each.dtypes:
            function = ir.function_of(each.mean)
            sure = not each.likely and each.dtypes == {"bfloat16"}
            yield rule.finding(
                module.span(each.mean),
                said_of(module, each, "bfloat16"),
                withheld=MEANS_BY_HAND,
                cause=f"variance {function.id if function is not None else 0}",
                confidence=Confidence.CERTAIN if sure else Confidence.LIKELY,
            )
    for found in ssim_of_libraries(module):
        if "bfloat16" in found.dtypes:
            yield rule.finding(
                module.span(found.call),
                said_of_ssim("bfloat16"),
                withheld=SSIM_BY_HAND,
                confidence=Confidence.LIKELY,
            )
