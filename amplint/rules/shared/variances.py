"""Variances that are differences of means: `conv(x * x) - conv(x)**2`, of means that a region computes in half."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.half.analysis import half, may_run
from amplint.model.half.observations import Seen
from amplint.model.inference.constructions import constructions
from amplint.model.inference.numbers import number
from amplint.model.inference.tensor_types import HALF, Kind
from amplint.model.inference.value_sets import decided
from amplint.model.names.reaching_definitions import only_assignment
from amplint.model.regions.regions_at import enabled_at
from amplint.model.syntax import ir
from amplint.model.torch_facts.op_spellings import RESHAPES, SAME_VALUES
from amplint.rules.shared.half_ops import met

if TYPE_CHECKING:
    from amplint.model import Module

# What gives means of parts of its input, which can be flat.
_MEANS = frozenset(("conv1d", "conv2d", "conv3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"))
_DIFFERENCES = ("sub", "sub_", "subtract")
_JOINS = ("cat", "concat", "stack")
_PARTS = ("split", "chunk", "unbind", "tensor_split")
_HALF = frozenset(("float16", "bfloat16"))
_FOLLOW = 8
# Libraries whose SSIM is made of convolutions.
_SSIM = re.compile(
    r"(?i)(pytorch_msssim|pytorch_ssim|piq|kornia)\.(\w+\.)*((ms|multi_scale)_?)?ssim(_?loss)?"
    r"|torchmetrics\.(\w+\.)*(multi_?scale_?)?structural_?similarity_?index_?measure"
)


class Variance(NamedTuple):
    """A variance, or a covariance, and what rounds it.

    `mean` is the mean of products, `difference` where another is subtracted from it, `dtypes` are what the
    means can be in. `likely`: they are what a model out of sight gave, or are pooled of that.
    """

    mean: ir.Call
    difference: ir.Value
    dtypes: frozenset[str]
    likely: bool


def variances(module: Module) -> list[Variance]:
    """The differences of a mean of products and a product of means, one of which is half; in the order of the text."""
    return module.once(_variances)


def _variances(module: Module) -> list[Variance]:
    found: dict[int, Variance] = {}
    reader: _Reader | None = None
    for seen in met(module, _DIFFERENCES):
        if len(seen.operands) < 2 or seen.operands[0][0] is None or seen.operands[1][0] is None:
            continue
        reader = reader or _Reader(module)
        each = reader.variance(seen)
        if each is not None:
            known = found.get(each.mean.id)
            both = each if known is None else _joined(known, each)
            found[each.mean.id] = both
    return [found[each] for each in sorted(found)]


def _joined(one: Variance, other: Variance) -> Variance:
    """What is found of one variance on two paths."""
    return Variance(one.mean, one.difference, one.dtypes | other.dtypes, one.likely and other.likely)


MEANS_BY_HAND = "the code of all these means has to change; make the change by hand"
SSIM_BY_HAND = "amplint can't tell which of the inputs are float32; make the change by hand"


def said_of(module: Module, variance: Variance, dtype: str) -> str:
    """What a message says of a variance whose means are in a half dtype: the mean is what is marked."""
    line = module.line(variance.difference)
    where = f" on {line}" if line != module.line(variance.mean) else ""
    return (
        f"this mean is rounded to {dtype}: the error can exceed the (co)variance `E[x*y] - E[x]*E[y]`{where}; compute "
        "all its means in float32: under `autocast(enabled=False)`, with `.float()` on the inputs"
    )


def said_of_ssim(dtype: str) -> str:
    """What a message says of a library's SSIM in a region of a half dtype."""
    return (
        f"SSIM subtracts means, which this region computes in {dtype}: rounding errors of means can exceed the "
        "variances; call `.float()` on the images, and compute SSIM outside the region"
    )


class _Reader:
    """Reads the formulas of variances."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._seen: dict[int, list[Seen]] = {}
        self._functions: set[ir.Function] = set()  # those that compute means, and those that call them
        for each in half(module):
            self._seen.setdefault(each.node.id, []).append(each)
            if each.spelling in _MEANS:
                around = map(ir.function_of, (each.node, *map(module.value, each.sites)))
                self._functions.update(function for function in around if function is not None)

    def variance(self, seen: Seen) -> Variance | None:
        """The variance that a difference is."""
        (mean, mean_kind), (product, product_kind) = seen.operands[:2]
        assert mean is not None
        assert product is not None
        call = self._mean_of_products(mean)
        means = self._means_in(product) if call is not None else []
        if call is None or len(means) < 2:
            return None
        kinds = [mean_kind, *self._before_casts(mean, seen), product_kind, *self._operands(product, seen)]
        halves = [each for each in kinds if each.names]
        if not halves:
            return None
        dtypes = frozenset[str]().union(*(each.names for each in halves))
        return Variance(call, seen.node, dtypes, all(each.what != HALF for each in halves))

    # --- which of it is half ----------------------------------------------------------------------------------------

    def _before_casts(self, value: ir.Value, seen: Seen) -> Iterator[Kind]:
        """What a value was before each time that it was cast."""
        for step in self._steps(value):
            for each in self._seen.get(step.id, ()):
                if each.sites == seen.sites and ir.called_on(step, *SAME_VALUES) is not None and each.operands:
                    yield each.operands[0][1]

    def _operands(self, product: ir.Value, seen: Seen) -> Iterator[Kind]:
        """What the factors of a product are, and were before they were cast."""
        for each in self._seen.get(self._written(product).id, []):
            if each.sites == seen.sites:
                for value, kind in each.operands:
                    yield kind
                    yield from self._before_casts(value, seen) if value is not None else ()

    # --- the formula ------------------------------------------------------------------------------------------------

    def _written(self, value: ir.Value) -> ir.Value:
        """What a variable is assigned, if that is one thing, before it is cast, reshaped or divided by a number."""
        *_, last = self._steps(value)
        return last

    def _steps(self, value: ir.Value) -> Iterator[ir.Value]:
        """A value, and what it is made of by one step each, as far as no step computes anything."""
        yield value
        for _ in range(_FOLLOW):
            before = value
            value = ir.called_on(value, *SAME_VALUES, *RESHAPES) or value
            if isinstance(value, ir.Name):
                found = only_assignment(self._module.names, value)
                value = found.value if found is not None else value
            elif isinstance(value, ir.Binary) and value.op in ("Multiply", "Divide"):
                value = self._without_number(value)
            if value is before:
                return
            yield value

    def _without_number(self, value: ir.Binary) -> ir.Value:
        """What is multiplied or divided by a number."""
        if self._is_number(value.right):
            return value.left
        return value.right if value.op == "Multiply" and self._is_number(value.left) else value

    def _is_number(self, value: ir.Value) -> bool:
        return isinstance(value, ir.Constant) or number(self._module, value) is not None

    def _mean_of_products(self, value: ir.Value, depth: int = _FOLLOW) -> ir.Call | None:
        """The call that computes a value, if that is a mean of products, or a mean of such means."""
        value = self._whole(self._written(value))
        if not isinstance(value, ir.Call) or not depth or not self._is_mean(value):
            return None
        given = [self._padded(each) for each in (*value.positional, *value.keywords.values())]
        several = (part for each in given for part in self._joins(each))
        is_one = any(self._is_product(each) or self._mean_of_products(each, depth - 1) is not None for each in several)
        return value if is_one else None

    def _means_in(self, value: ir.Value) -> list[ir.Value]:
        """The means whose product a value is."""
        factors = list(self._factors(value))
        return [each for each in factors if self._is_mean(self._whole(each)) or self._is_said_to_be_mean(each)]

    def _is_said_to_be_mean(self, value: ir.Value) -> bool:
        """Whether what isn't in sight is called a mean."""
        name = isinstance(value, ir.Name) and only_assignment(self._module.names, value) is None
        return name and bool(re.match(r"(?i)mu(\d|_|[xy]|$)|mean|avg", ir.last_name(value)))

    def _factors(self, value: ir.Value, depth: int = _FOLLOW) -> Iterator[ir.Value]:
        """The factors of a product; one that is squared is two."""
        value = self._written(value)
        pair = self._pair(value) if depth else None
        if pair is None:
            yield value
        for each in pair or ():
            yield from self._factors(each, depth - 1)

    def _pair(self, value: ir.Value) -> tuple[ir.Value, ir.Value] | None:
        """The two factors of `x * y`, `torch.mul(x, y)`, `x**2`, `x.pow(2)` or `torch.square(x)`."""
        if isinstance(value, ir.Binary):
            if value.op == "Multiply":
                return value.left, value.right
            return (value.left, value.left) if value.op == "Power" and _is_two(value.right) else None
        if not isinstance(value, ir.Call) or ir.last_name(value.func) not in ("square", "pow", "mul", "multiply"):
            return None
        of_torch = any(each.startswith("torch.") for each in self._module.names.of(value.func))
        base = [value.func.base] if isinstance(value.func, ir.Attribute) and not of_torch else []
        given, name = [*base, *value.positional], ir.last_name(value.func)
        if name == "square" and len(given) == 1:
            return given[0], given[0]
        if len(given) != 2 or (name == "pow" and not _is_two(given[1])):
            return None
        return (given[0], given[0]) if name == "pow" else (given[0], given[1])

    def _is_product(self, value: ir.Value) -> bool:
        """Whether a value is a product of two tensors, neither of which is a difference: such have small means."""
        pair = self._pair(self._written(value))
        return pair is not None and not any(map(self._is_centred, pair))

    def _is_centred(self, value: ir.Value) -> bool:
        value = self._written(value)
        return isinstance(value, ir.Binary) and value.op == "Subtract"

    # --- means ------------------------------------------------------------------------------------------------------

    def _is_mean(self, value: ir.Value) -> bool:
        """Whether a value is a convolution or a pooling, or what a function gives that computes one."""
        if not isinstance(value, ir.Call):
            return False
        if any(each.spelling in _MEANS for each in self._seen.get(value.id, ())):
            return True
        return any(each in self._functions for each in may_run(self._module, value))

    def _whole(self, value: ir.Value) -> ir.Value:
        """What a value is a part of: `out` of `out.split(n)[2]`."""
        if not isinstance(value, ir.Subscript):
            return value
        base = self._written(value.base)
        if isinstance(base, ir.Call) and ir.last_name(base.func) in _PARTS:
            of_torch = any(each.startswith("torch.") for each in self._module.names.of(base.func))
            parts = base.positional[0] if of_torch and base.positional else ir.called_on(base, *_PARTS)
            return self._written(parts) if parts is not None else value
        return base

    def _joins(self, value: ir.Value) -> list[ir.Value]:
        """What is joined to one tensor; else the tensor itself."""
        value = self._written(value)
        if not isinstance(value, ir.Call) or ir.last_name(value.func) not in _JOINS or not value.positional:
            return [value]
        joined = self._written(value.positional[0])
        return list(joined.items) if isinstance(joined, ir.Sequence) else [value]

    def _padded(self, value: ir.Value) -> ir.Value:
        """What is padded; else the value itself."""
        value = self._written(value)
        pads = isinstance(value, ir.Call) and self._module.names.of(value.func) == {"torch.nn.functional.pad"}
        return value.positional[0] if pads and isinstance(value, ir.Call) and value.positional else value


def _is_two(value: ir.Value) -> bool:
    return isinstance(value, ir.Constant) and value.value == 2


# --- SSIM of libraries ----------------------------------------------------------------------------------------------


class LibrarySsim(NamedTuple):
    """A call of a library that computes SSIM, and the half dtypes of the regions that it runs in."""

    call: ir.Call
    dtypes: frozenset[str]


def ssim_of_libraries(module: Module) -> Iterator[LibrarySsim]:
    """Each SSIM of a library that runs in a region of half precision."""
    for call in module.whole.near("ssim", "SSIM", "structural_similarity", "StructuralSimilarity").calls:
        if _is_ssim(module, call):
            opened = enabled_at(module, call)
            named = {dtype.name for each in opened for dtype in decided(module).region_dtypes(each.region)}
            if dtypes := frozenset(each for each in named if each in _HALF):
                yield LibrarySsim(call, dtypes)


def _is_ssim(module: Module, call: ir.Call) -> bool:
    """Whether a call computes SSIM: a library's function, or an object of its class."""
    made = constructions(module, call.func) if isinstance(call.func, (ir.Name, ir.Attribute)) else ()
    computes = {each for each in module.names.of(call.func) if not each.rpartition(".")[2][:1].isupper()}
    return any(map(_SSIM.fullmatch, computes.union(*(module.names.of(each.func) for each in made))))
