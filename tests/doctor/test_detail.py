"""Small programs that fail, and what the op-by-op look says of them. The line that fails is marked `# here`."""

from __future__ import annotations

import copy
import importlib.util
import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from amplint.doctor.births import Birth, Origin
from amplint.doctor.detail import CollectiveRefused, Detail, OutsideWrite

HALF = torch.float16
INF = float("inf")
# What torch itself does otherwise: it raises where a number is too large for half precision, attention in float16 is
# NaN there, and subclasses can't be made within a dispatch mode.
IS_OLD = torch.__version__.startswith("2.4.")


def names_of(model: nn.Module | None) -> dict[nn.Module, str]:
    return {module: name for name, module in model.named_modules()} if model is not None else {}


def here(program: Callable[..., Any], mark: str = "# here") -> int:
    """The marked line of a program."""
    lines, first = inspect.getsourcelines(program)
    return first + next(at for at, line in enumerate(lines) if mark in line)


def seen(call: Callable[[], Any], model: nn.Module | None = None) -> list[Birth]:
    """The births that reach what a program returns."""
    with Detail(names_of(model)) as detail:
        out = call()
    assert not detail.failed
    return detail.reaching(*(out if isinstance(out, (list, tuple)) else [out]))


def region() -> torch.autocast:
    return torch.autocast("cpu", dtype=HALF)


def filled(module: nn.Linear, value: float) -> nn.Linear:
    with torch.no_grad():
        module.weight.fill_(value)
        if module.bias is not None:
            module.bias.zero_()
    return module


# Programs of the forward pass. Each returns a loss that is not finite.


def matmul() -> Tensor:
    x = torch.full((4, 8), 300.0, dtype=HALF)
    return (x @ x.t()).float().mean()  # here


def square() -> Tensor:
    x = torch.full((4, 8), 300.0, dtype=HALF)
    return (x**2).mean()  # here


def square_method() -> Tensor:
    x = torch.full((4, 8), 300.0, dtype=HALF)
    return x.square().mean()  # here


def square_in_place() -> Tensor:
    x = torch.full((4, 8), 300.0, dtype=HALF)
    y = x.clone()
    y *= x  # here
    return y.mean()


def total() -> Tensor:
    x = torch.full((1000,), 100.0, dtype=HALF)
    return x.sum() / 1000  # here


def exponential() -> Tensor:
    scale = torch.tensor(12.0, dtype=HALF)
    return scale.exp() * 2  # here


def norm() -> Tensor:
    x = torch.full((1000,), 60000.0, dtype=HALF)
    return x.norm()  # here


def variance() -> Tensor:
    x = torch.full((4, 8), 60000.0, dtype=HALF)
    x[:, 0] = -60000.0
    return x.var(dim=1).mean()  # here


def scores() -> Tensor:
    q = torch.full((2, 4, 64), 60.0)
    with region():
        return functional.softmax(torch.einsum("bid,bjd->bij", q, q), -1).mean()  # here


def logit_scale() -> Tensor:
    logits = torch.full((4, 4), 900.0, dtype=HALF)
    return functional.cross_entropy(logits * 100, torch.arange(4))  # here


def additive_mask() -> Tensor:
    scores = torch.zeros(2, 3, 3, dtype=HALF)
    mask = torch.zeros(2, 3, 3, dtype=HALF)
    mask[1, 1] = 1
    scores = scores - mask * 1e9  # here
    return scores.softmax(-1).sum()


def dropout() -> Tensor:
    x = torch.full((64,), 50000.0, dtype=HALF)
    return functional.dropout(x, 0.5).float().mean()  # here


def cumulative() -> Tensor:
    x = torch.full((4, 1000), 100.0, dtype=HALF)
    return x.cumsum(1).float().mean()  # here


def custom_norm() -> Tensor:
    x = torch.full((2, 16), 400.0, dtype=HALF)
    return x.mul(torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)).sum() + 0 * x.pow(2).max()  # here


def renamed() -> Tensor:
    from torch.nn.functional import mse_loss as distance

    x = torch.full((5,), 1000.0, dtype=HALF)
    return distance(x, 0 * x)  # here


def mapped() -> Tensor:
    x = torch.full((3, 4), 300.0, dtype=HALF)
    return torch.func.vmap(lambda row: (row * row).sum())(x).sum()  # here


def convolved() -> Tensor:
    layer = nn.Conv2d(8, 8, 3)
    nn.init.constant_(layer.weight, 20.0)
    nn.init.zeros_(layer.bias)
    with region():
        return layer(torch.full((1, 8, 8, 8), 100.0)).float().mean()  # here


def joined() -> Tensor:
    x = torch.full((4, 8), 300.0, dtype=HALF)
    first, second = (x * torch.ones_like(x)).chunk(2)
    both = torch.cat([first, second * 300])  # here
    return both.float().mean()


def written_into() -> Tensor:
    rows = torch.empty(3, 8, dtype=HALF)
    x = torch.full((8,), 300.0, dtype=HALF)
    for at in range(3):
        rows[at] = x * (300 if at == 1 else 1)  # here
    return rows.float().mean()


OVERFLOWS = {
    matmul: ("matmul", 720000.0),
    square: ("pow", 90000.0),
    square_method: ("square", 90000.0),
    square_in_place: ("mul", 90000.0),
    total: ("sum", 100000.0),
    exponential: ("exp", 162754.8),
    norm: ("norm", 1897366.6),
    variance: ("var", None),
    scores: ("einsum", 230400.0),
    logit_scale: ("mul", 90000.0),
    additive_mask: ("mul", 1e9),
    dropout: ("dropout", 100000.0),
    cumulative: ("cumsum", 100000.0),
    custom_norm: ("pow", 160000.0),
    renamed: ("mse_loss", 1e6),
    mapped: ("mul", 90000.0),
    convolved: ("conv2d", 144000.0),
    joined: ("mul", 90000.0),
    written_into: ("mul", 90000.0),
}


@pytest.mark.parametrize("program", OVERFLOWS, ids=lambda program: program.__name__)
def test_an_overflow_has_its_line_and_true_value(program: Callable[[], Tensor]) -> None:
    torch.manual_seed(0)
    births = seen(program)
    first = births[0]
    assert first.origin is Origin.OVERFLOW
    assert first.place is not None
    assert first.place.line == here(program)
    op, value = OVERFLOWS[program]
    assert first.op == op
    assert first.value is not None
    if value is not None:
        assert first.value == pytest.approx(value, rel=1e-3)


# Something became 0.


def eps_in_half() -> Tensor:
    x = torch.zeros(4, 8, dtype=HALF)
    norm = (x * x).sum(1, keepdim=True) + 1e-8  # flush
    return (x / norm).sum()  # here


def eps_then_float() -> Tensor:
    x = torch.zeros(4, 8, dtype=HALF)
    total = x.sum(1, keepdim=True) + 1e-12  # flush
    total = total.float()
    return (x.float() / total).sum()  # here


def normalize() -> Tensor:
    x = torch.zeros(4, 8, dtype=HALF)
    return functional.normalize(x, dim=1).sum()  # here # flush


def clamped() -> Tensor:
    x = torch.zeros(4, 8, dtype=HALF)
    x = x.clamp(min=1e-9)  # flush
    return x.log().mean()  # here


def flushed_sigmoid() -> Tensor:
    x = torch.full((4,), -20.0)
    with region():
        p = torch.sigmoid(x.half())  # flush
        return -torch.log(p).mean()  # here


def one_minus() -> Tensor:
    p = torch.full((4,), 9.0, dtype=HALF).sigmoid()
    rest = 1 - p  # flush
    return -rest.float().log().mean()  # here


def flushed_deviation() -> Tensor:
    x = torch.zeros(4, 8, dtype=HALF)
    x[:, 0] = 1e-4
    variance = (x - x.mean(1, keepdim=True)).square().mean(1, keepdim=True)  # flush
    return (x * torch.rsqrt(variance)).sum()  # here


def flushed_cast() -> Tensor:
    width = torch.full((3,), 1e-9)
    half = width.half()  # flush
    return (1 / half).sum()  # here


def divided_by_constant() -> Tensor:
    x = torch.zeros(3, dtype=HALF)
    small = torch.full((3,), 1e-9, dtype=HALF)  # flush
    return (x / small).sum()  # here


def flushed_product() -> Tensor:
    p = torch.full((2, 3), 1e-3, dtype=HALF)
    joint = p * p * p  # flush
    return (joint / joint.sum(1, keepdim=True)).sum()  # here


def written_in_parts() -> Tensor:
    rows = torch.zeros(3, 4, dtype=HALF)
    x = torch.full((4,), 1e-5, dtype=HALF)
    for at in range(3):
        rows[at] = x * x  # flush
    return (1 / rows.sum(1)).sum()  # here


def parts_of_boxes() -> Tensor:
    raw = torch.full((2, 5), -20.0, dtype=HALF)
    boxes = torch.zeros(2, 5, dtype=HALF)
    boxes[..., :2] = raw[..., :2].sigmoid()  # flush
    boxes[..., 2:] = 1
    return boxes.log().sum()  # here


def written_over() -> Tensor:
    x = torch.full((4,), 1e-5, dtype=HALF)
    y = x * x  # flush
    x += 1
    return (1 / y).sum()  # here


def steps_in_place() -> Tensor:
    x = torch.full((4,), 1e-5, dtype=HALF)
    x.mul_(1e-3)
    x.add_(1e-8)  # flush
    return (1 / x.float()).sum()  # here


def softmax_then_log() -> Tensor:
    p = torch.tensor([[0.0, 30.0]], dtype=HALF).softmax(-1)  # flush
    return p.log().float().sum()  # here


def views_between() -> Tensor:
    x = torch.full((4, 6), 1e-5, dtype=HALF)
    first, second = (x * x).chunk(2, dim=1)  # flush
    return (first.t().contiguous() / second.reshape(3, 4)).sum()  # here


def temperature() -> Tensor:
    scale = torch.tensor(1e-9).half()  # flush
    return (torch.ones(2, 3, dtype=HALF) / scale).softmax(-1).sum()  # here


def normalised_targets() -> Tensor:
    target = torch.full((2, 3, 16), 0.5, dtype=HALF)
    mean = target.mean(-1, keepdim=True)
    variance = target.var(-1, keepdim=True) + 1e-8  # flush
    return ((target - mean) / variance**0.5).square().mean()  # here


def squares_that_cancel() -> Tensor:
    x = (torch.randn(64, generator=torch.Generator().manual_seed(1)) * 0.05 + 30).half()
    variance = (x * x).mean() - x.mean() ** 2
    return torch.sqrt(variance)  # here


UNDERFLOWS = {
    eps_in_half: ("add", 1e-8),
    eps_then_float: ("add", 1e-12),
    normalize: ("normalize", 1e-12),
    clamped: ("clamp", 1e-9),
    flushed_sigmoid: ("sigmoid", 2.0611537e-9),
    one_minus: ("sub", 1.234e-4),
    flushed_deviation: ("square", None),
    flushed_cast: ("half", 1e-9),
    divided_by_constant: ("full", 1e-9),
    flushed_product: ("mul", 1e-9),
    written_in_parts: ("mul", 1e-10),
    parts_of_boxes: ("sigmoid", 2.0611537e-9),
    written_over: ("mul", 1e-10),
    steps_in_place: ("add", 2e-8),
    softmax_then_log: ("softmax", 9.3576e-14),
    views_between: ("mul", 1e-10),
    temperature: ("half", 1e-9),
    normalised_targets: ("add", 1e-8),
}


@pytest.mark.parametrize("program", UNDERFLOWS, ids=lambda program: program.__name__)
def test_an_underflow_says_where_the_value_became_zero(program: Callable[[], Tensor]) -> None:
    (first,) = seen(program)
    assert first.origin is Origin.UNDERFLOW
    assert first.place is not None
    assert first.place.line == here(program)
    assert first.zero is not None
    op, value = UNDERFLOWS[program]
    assert first.zero.place is not None
    assert first.zero.place.line == here(program, "# flush")
    assert first.zero.op == op
    assert first.zero.dtype == "float16"
    assert first.zero.result == 0
    if value is not None:
        assert first.zero.value == pytest.approx(value, rel=2e-3)


def test_what_rounding_made_negative_is_said_with_what_it_became() -> None:
    (first,) = seen(squares_that_cancel)
    assert first.origin is Origin.UNDERFLOW
    assert first.zero is not None
    assert first.zero.op == "sub"
    assert first.zero.result < 0 < first.zero.value


def some_rows_rounded() -> Tensor:
    rows = [[6.0, 6.0, 6.125, 6.0], [7.125, 7.1875, 7.09375, 7.1875], [8.0, 9.0, 17.0, 8.0]]
    x = torch.tensor(rows, dtype=torch.bfloat16)
    variance = (x * x).mean(-1) - x.mean(-1) ** 2
    return torch.sqrt(variance)  # here


def test_a_value_that_became_0_elsewhere_is_not_the_cause() -> None:
    (first,) = seen(some_rows_rounded)
    assert first.zero is not None
    assert first.zero.op == "sub"
    assert first.zero.result < 0 < first.zero.value


# float32 fails as well.


def log_of_zero() -> Tensor:
    return torch.log(torch.zeros(3)).sum()  # here


def zero_written_over() -> Tensor:
    x = torch.ones(2, 5, dtype=HALF)
    x[0] = torch.full((5,), 1e-9)
    x[0] = 0
    return (1 / x).sum()  # here


def relu_log() -> Tensor:
    x = torch.tensor([-1.0, 2.0], dtype=HALF).relu()
    return x.log().sum()  # here


def zero_by_zero() -> Tensor:
    x = torch.zeros(3, dtype=HALF)
    return (x / x.sum()).sum()  # here


def mean_of_none() -> Tensor:
    x = torch.ones(3, dtype=HALF)
    return x[x > 2].mean()  # here


def arc() -> Tensor:
    return torch.acos(torch.tensor([1.5, 0.1])).sum()  # here


def all_ignored() -> Tensor:
    return functional.cross_entropy(torch.zeros(2, 3), torch.tensor([-100, -100]))  # here


def zero_times_infinity() -> Tensor:
    mask = torch.tensor([[0.0, 1.0], [1.0, 1.0]])
    return ((1 - mask) * -INF).sum()  # here


def entropy() -> Tensor:
    p = torch.tensor([0.0, 1.0])
    return (p * p.mul(0.5).log()).sum()  # here


def power() -> Tensor:
    return (torch.zeros(3) ** -0.5).sum()  # here


@pytest.mark.parametrize(
    "program",
    [
        log_of_zero,
        zero_written_over,
        relu_log,
        zero_by_zero,
        mean_of_none,
        arc,
        all_ignored,
        zero_times_infinity,
        entropy,
        power,
    ],
    ids=lambda program: program.__name__,
)
def test_what_float32_cannot_do_either_is_math(program: Callable[[], Tensor]) -> None:
    (first,) = seen(program)
    assert first.origin is Origin.MATH
    assert first.place is not None
    assert first.place.line == here(program)
    assert first.value is None


def exponential_of(dtype: torch.dtype) -> Callable[[], Tensor]:
    return lambda: torch.exp(torch.tensor([1.0, 100.0], dtype=dtype)).mean()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, HALF])
def test_what_is_too_large_for_float32_is_math(dtype: torch.dtype) -> None:
    (first,) = seen(exponential_of(dtype))
    assert (first.origin, first.rows, first.of_rows) == (Origin.MATH, (1,), 2)
    assert first.value == pytest.approx(math.exp(100))
    assert first.is_overflow


def test_what_float32_loses_on_the_way_is_math() -> None:
    (first,) = seen(lambda: torch.full((4, 4), 1e30).norm())
    assert (first.origin, first.value, first.is_overflow) == (Origin.MATH, None, False)


# Masks.


def mask_of(rows: int, lost: int | None) -> Tensor:
    mask = torch.ones(3, rows, rows, dtype=torch.bool).tril()
    if lost is not None:
        mask[lost] = False
    return mask


def masked_softmax(lost: int | None = 1) -> Tensor:
    scores = torch.zeros(3, 4, 4, dtype=HALF).masked_fill(~mask_of(4, lost), -INF)
    return functional.softmax(scores, dim=-1).sum()  # here


def masked_log_softmax(lost: int | None = 1) -> Tensor:
    scores = torch.where(mask_of(4, lost), torch.zeros(3, 4, 4), torch.tensor(-INF))
    return torch.log_softmax(scores, dim=-1)[..., 0].sum()  # here


def masked_by_hand(lost: int | None = 1) -> Tensor:
    scores = torch.zeros(3, 4, 4)
    scores[~mask_of(4, lost)] = -INF
    weights = (scores - scores.amax(-1, keepdim=True)).exp()  # here
    return (weights / weights.sum(-1, keepdim=True)).sum()


def masked_exponentials(lost: int | None = 1) -> Tensor:
    scores = torch.zeros(3, 4, 4).masked_fill(~mask_of(4, lost), -INF)
    weights = scores.exp()
    return (weights / weights.sum(-1, keepdim=True)).sum()  # here


def masked_by_buffer(lost: int | None = 1) -> Tensor:
    mask = torch.zeros(3, 4, 4)
    mask[~mask_of(4, lost)] = -INF
    return (torch.zeros(3, 4, 4) + mask).softmax(-1).sum()  # here


def masked_in_place(lost: int | None = 1) -> Tensor:
    scores = torch.zeros(3, 4, 4, dtype=HALF)
    scores.masked_fill_(mask_of(4, lost).logical_not(), -INF)
    return nn.Softmax(dim=-1)(scores).sum()  # here


def masked_logarithms(lost: int | None = 1) -> Tensor:
    scores = torch.zeros(3, 4, 4) + mask_of(4, lost).float().log()
    return scores.softmax(-1).sum()  # here


MASKS = [
    masked_softmax,
    masked_log_softmax,
    masked_by_hand,
    masked_exponentials,
    masked_by_buffer,
    masked_in_place,
    masked_logarithms,
]


@pytest.mark.parametrize("program", MASKS, ids=lambda program: program.__name__)
def test_a_row_that_is_masked_completely(program: Callable[[int | None], Tensor]) -> None:
    (first,) = seen(lambda: program(1))
    assert first.origin is Origin.MASK
    assert first.kind == "nan"
    assert first.rows == (1,)
    assert first.place is not None
    assert first.place.line == here(program)


@pytest.mark.parametrize(
    "program", [each for each in MASKS if each is not masked_log_softmax], ids=lambda program: program.__name__
)
def test_a_mask_that_works_is_no_fault(program: Callable[[int | None], Tensor]) -> None:
    with Detail({}) as detail:
        out = program(None)
    assert bool(out.isfinite())
    assert not detail.births
    assert not detail.failed


def assigned_literal() -> Tensor:
    scores = torch.zeros(3, 4, 4, dtype=HALF)
    scores[~mask_of(4, 1)] = -1e9  # here
    return scores.softmax(-1).sum()


def assigned_name() -> Tensor:
    scores = torch.zeros(3, 4, 4, dtype=HALF)
    least = torch.finfo(torch.float32).min
    scores[1] = least  # here
    return scores.softmax(-1).sum()


def made_of_number() -> Tensor:
    least = torch.tensor(-1e9, dtype=HALF)  # here
    return torch.where(mask_of(4, 1), torch.zeros(3, 4, 4, dtype=HALF), least).softmax(-1).sum()


def filled_with_number() -> Tensor:
    least = torch.tensor(-1e9)
    scores = torch.zeros(3, 4, 4, dtype=HALF)
    scores[1] = least  # here
    return scores.softmax(-1).sum()


def chosen_number() -> Tensor:
    scores = torch.zeros(3, 4, 4, dtype=HALF)
    return torch.where(mask_of(4, 1), scores, -1e9).softmax(-1).sum()  # here


@pytest.mark.parametrize(
    "program",
    [assigned_literal, assigned_name, made_of_number, filled_with_number, chosen_number],
    ids=lambda program: program.__name__,
)
def test_a_large_number_that_half_precision_makes_infinite(program: Callable[[], Tensor]) -> None:
    if IS_OLD and program not in (made_of_number, filled_with_number):
        pytest.skip("torch raises")
    (first,) = seen(program)
    assert first.origin in (Origin.CAST, Origin.OVERFLOW)
    assert first.place is not None
    assert first.place.line == here(program)
    assert first.value is not None
    assert first.value >= 1e9


def test_a_number_that_is_infinite_in_the_program() -> None:
    def call(number: float) -> Tensor:
        scores = torch.zeros(3, 4, 4, dtype=HALF)
        scores[1] = number
        return scores.softmax(-1).sum()  # here

    (first,) = seen(lambda: call(-INF))
    assert (first.origin, first.rows) == (Origin.MASK, (1,))


def test_an_infinity_in_the_batch_that_is_subtracted() -> None:
    batch = torch.ones(4, 8)
    batch[1, 2] = -INF
    with Detail({}) as detail:
        loss = (batch - batch.mean(1, keepdim=True)).sum()
    assert not detail.reaching(loss)
    assert detail.arriving(loss)


def test_a_mask_outside() -> None:
    mask = torch.zeros(3, 4, 4)
    mask[~mask_of(4, 2)] = -INF
    (first,) = seen(lambda: (torch.zeros(3, 4, 4) + mask).softmax(-1).sum())
    assert first.origin is Origin.MASK
    assert first.rows == (2,)


def test_top_k_and_the_start_of_a_minimum_are_no_faults() -> None:
    def call() -> Tensor:
        logits = torch.arange(8.0).repeat(2, 1)
        kept = torch.topk(logits, 3).values[..., -1:]
        logits[logits < kept] = -float("Inf")
        best = torch.full((2,), INF)
        for column in logits.softmax(-1).unbind(1):
            best = torch.minimum(best, column)
        lowest = torch.tensor(INF)
        return best.sum() + torch.minimum(lowest, best.min())

    with Detail({}) as detail:
        assert bool(call().isfinite())
    assert not detail.births


def test_intended_infinities_are_births_where_they_are_asked_for() -> None:
    with Detail({}, is_intended_ok=False) as detail:
        masked_softmax(None)
    assert [(birth.origin, birth.kind, birth.op) for birth in detail.births] == [(Origin.MASK, "inf", "masked_fill")]


def test_an_infinity_that_is_meant_and_gets_into_the_loss() -> None:
    def call() -> Tensor:
        logits = torch.zeros(2, 3).masked_fill(torch.tensor([True, False, False]), -INF)
        return functional.cross_entropy(logits, torch.tensor([0, 1]))

    (first,) = seen(call)
    assert (first.origin, first.kind, first.op) == (Origin.MASK, "inf", "masked_fill")


def test_an_overflow_beside_a_mask_is_seen() -> None:
    def call() -> Tensor:
        scores = torch.full((2, 3, 3), 300.0, dtype=HALF).masked_fill(mask_of(3, None)[:2].logical_not(), -INF)
        return (scores * 300).softmax(-1).sum()  # here

    (first,) = seen(call)
    assert first.origin is Origin.OVERFLOW
    assert first.value == 90000


# Uninitialised memory.


def test_what_empty_memory_holds_is_ignored_until_it_is_written() -> None:
    torch.full((4, 8), math.nan)  # what the allocator may hand out again

    def call() -> Tensor:
        memory = torch.empty(4, 8)
        like = torch.empty_like(memory)
        parts = memory.new_empty(8)
        memory[0] = 1
        torch.add(memory, 1, out=like)
        parts.copy_(memory[0])
        return parts.sum()

    with Detail({}) as detail:
        assert call() == 8
    assert not detail.births
    assert not detail.incoming


def test_what_is_overwritten_reaches_nothing() -> None:
    def call() -> tuple[Tensor, Tensor]:
        x = torch.full((4,), 300.0, dtype=HALF)
        y = x * x
        y.copy_(x)
        return y.sum(), torch.nan_to_num(x * x).mean()

    with Detail({}) as detail:
        out = call()
    assert len(detail.births) == 2
    assert not detail.reaching(out[0])


# Modules and casts.


class Block(nn.Module):
    def __init__(self, value: float) -> None:
        super().__init__()
        self.first = filled(nn.Linear(8, 8), 0.1)
        self.second = filled(nn.Linear(8, 8), value)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x = self.act(x)
        return self.second(x)  # here

    def act(self, x: Tensor) -> Tensor:
        return x * x


def test_the_module_and_the_operation_below_autocast() -> None:
    model = nn.Sequential(Block(0.1), Block(30000.0))

    def call() -> Tensor:
        with region():
            return model(torch.full((2, 8), 3.0)).float().mean()

    first = seen(call, model)[0]
    assert first.origin is Origin.OVERFLOW
    assert (first.op, first.module, first.dtype) == ("linear", "1.second", "float16")
    assert first.place is not None
    assert first.place.line == here(Block)


def test_a_method_of_a_module_is_of_that_module() -> None:
    model = nn.Sequential(Block(0.1))

    def call() -> Tensor:
        return model(torch.full((2, 8), 3e20)).mean()

    assert seen(call, model)[0].module == "0"


def test_a_weight_beyond_half_precision_is_named() -> None:
    model = nn.Sequential(Block(1e5))

    def call() -> Tensor:
        with region():
            return model(torch.ones(2, 8)).float().mean()

    first = seen(call, model)[0]
    assert first.origin is Origin.CAST
    assert first.parameter == "0.second.weight"
    assert first.value == 1e5
    assert first.op == "linear"
    assert first.module == "0.second"


def test_a_value_beyond_half_precision_is_a_cast() -> None:
    def call() -> Tensor:
        x = torch.full((2, 8), 1e6)
        return x.half().mean()  # here

    (first,) = seen(call)
    assert (first.origin, first.op, first.value, first.parameter) == (Origin.CAST, "half", 1e6, "")


def test_whole_numbers_beyond_half_precision_are_a_cast() -> None:
    (first,) = seen(lambda: torch.arange(100000).half().float().mean())
    assert (first.origin, first.op, first.value) == (Origin.CAST, "half", 99999)
    assert first.rows == tuple(range(65520, 65528))


def test_rows_are_those_of_the_batch_though_a_layer_flattens_it() -> None:
    layer = filled(nn.Linear(8, 8), 1.0)

    def call() -> Tensor:
        x = torch.ones(4, 5, 8)
        x[2, 3] = 6e4
        with region():
            return layer(x).float().mean()

    assert seen(call)[0].rows == (2,)


def test_a_running_variance_in_half() -> None:
    model = nn.BatchNorm1d(8).half()

    def call() -> Tensor:
        x = torch.full((4, 8), 60000.0, dtype=HALF)
        x[:, ::2] = -60000.0
        x[::2] *= -1
        return model(x).mean()

    with Detail(names_of(model), allowed=list(model.buffers())) as detail:
        call()
    assert not detail.failed
    # The variance is beyond half precision, and the running one is in half.
    assert [(birth.origin, birth.op) for birth in detail.births] == [(Origin.OVERFLOW, "batch_norm")]


def test_rows_of_the_batch() -> None:
    def call() -> Tensor:
        x = torch.ones(6, 8, dtype=HALF)
        x[2] = 300
        x[5] = 300
        return (x * x).float().mean()

    assert seen(call)[0].rows == (2, 5)


# Values from outside.


def test_a_batch_that_is_not_finite_is_no_birth() -> None:
    batch = torch.ones(4, 8)
    batch[3, 2] = math.nan
    model = filled(nn.Linear(8, 8), 0.1)
    with Detail(names_of(model)) as detail:
        loss = model(batch).mean()
    assert not detail.births
    assert not detail.reaching(loss)
    (first,) = detail.arriving(loss)
    assert (first.origin, first.op, first.kind, first.rows) == (Origin.INCOMING, "linear", "nan", (3,))


def test_an_infinity_in_the_batch() -> None:
    batch = torch.ones(4, 8)
    batch[1, 2] = INF
    with Detail({}) as detail:
        loss = functional.layer_norm(batch, (8,)).mean()
    assert not detail.reaching(loss)
    assert [birth.origin for birth in detail.arriving(loss)] == [Origin.INCOMING]


def test_a_part_of_outside_memory_is_looked_at_again() -> None:
    batch = torch.ones(4, 8)
    batch[3] = math.nan
    with Detail({}) as detail:
        first = batch[:2].sum()
        second = batch[2:].sum()
    assert not detail.births
    assert bool(first.isfinite())
    assert detail.arriving(second)


def test_a_number_that_was_read_keeps_its_births() -> None:
    def call() -> Tensor:
        x = torch.full((4,), 300.0, dtype=HALF)
        largest = (x * x).max().item()  # here
        return torch.ones(3) * largest

    (first,) = seen(call)
    assert (first.origin, first.op) == (Origin.OVERFLOW, "mul")


# Backward passes.


def gradients(
    call: Callable[[], Tensor], model: nn.Module | None, *inputs: Tensor, scale: float = 65536.0
) -> list[Birth]:
    """The births that reach the gradients of a scaled loss."""
    wanted = [*(model.parameters() if model is not None else ()), *inputs]
    with Detail(names_of(model)) as detail:
        loss = call()
        grads = torch.autograd.grad(loss * scale, wanted, allow_unused=True)
    assert not detail.failed
    assert bool(loss.isfinite())
    assert not any(birth.backward is False for birth in detail.reaching(*(grad for grad in grads if grad is not None)))
    return detail.reaching(*(grad for grad in grads if grad is not None))


def leaf(value: float, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.full(shape, value, dtype=dtype, requires_grad=True)


class Steep(nn.Module):
    """Gradients that are too large for half precision in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.first = filled(nn.Linear(8, 8), 0.0001)
        self.second = filled(nn.Linear(8, 8), 0.01)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x = x * 60  # here
        return self.second(x)


def test_a_gradient_that_overflows_has_the_line_of_the_forward_pass() -> None:
    model = nn.Sequential(Steep())

    def call() -> Tensor:
        with region():
            out = model(torch.ones(1, 8))
        return out.float().sum()

    first = gradients(call, model, scale=32768.0)[0]
    assert first.backward
    assert (first.origin, first.op, first.module, first.dtype) == (Origin.OVERFLOW, "mul", "0", "float16")
    assert first.place is not None
    assert first.place.line == here(Steep)
    assert first.value == pytest.approx(32768 * 8 * 0.01 * 60, rel=1e-2)
    assert first.stack[0] == first.place


def test_a_loss_in_half_overflows_in_its_own_backward() -> None:
    x = leaf(1.0, 4, dtype=HALF)

    def call() -> Tensor:
        y = x * 1
        return y.mean()  # here

    with Detail({}) as detail:
        loss = call()
        (grad,) = torch.autograd.grad(loss.float() * 2.0**20, x)
    first = detail.reaching(grad)[0]
    assert (first.origin, first.op, first.backward, first.value) == (Origin.OVERFLOW, "float", True, 2.0**20)


def test_the_square_root_at_zero() -> None:
    x = leaf(0.0, 4)

    def call() -> Tensor:
        return x.sqrt().sum()  # here

    (first,) = gradients(call, None, x)
    assert (first.origin, first.op, first.backward) == (Origin.MATH, "sqrt", True)
    assert first.place is not None
    assert first.place.line == here(call)


def test_the_square_root_of_what_became_zero() -> None:
    x = leaf(1e-5, 4)

    def call() -> Tensor:
        squares = x.half().square()  # flush
        return squares.sqrt().float().sum()  # here

    first = gradients(call, None, x, scale=1024.0)[0]
    assert (first.origin, first.op, first.backward) == (Origin.UNDERFLOW, "sqrt", True)
    assert first.place is not None
    assert first.place.line == here(call)
    assert first.zero is not None
    assert first.zero.place is not None
    assert first.zero.place.line == here(call, "# flush")
    assert first.zero.value == pytest.approx(1e-10, rel=1e-2)


def test_where_does_not_stop_a_bad_gradient() -> None:
    x = leaf(0.0, 4)

    def call() -> Tensor:
        safe = torch.where(x > 0, x.log(), 0.0)  # here
        return safe.sum()

    (first,) = gradients(call, None, x)
    assert (first.origin, first.op, first.backward) == (Origin.MATH, "log", True)


@pytest.mark.parametrize("is_reentrant", [True, False])
def test_a_gradient_below_a_checkpoint(is_reentrant: bool) -> None:
    model = nn.Sequential(Steep())

    def call() -> Tensor:
        x = torch.ones(1, 8, requires_grad=True)
        with region():
            out = checkpoint(model[0], x, use_reentrant=is_reentrant)
        return out.float().sum()

    with Detail(names_of(model)) as detail:
        loss = call()
        (loss * 32768.0).backward()
    grads = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    first = detail.reaching(*grads)[0]
    assert not detail.failed
    assert first.backward
    assert (first.origin, first.op, first.module) == (Origin.OVERFLOW, "mul", "0")
    assert first.place is not None
    assert first.place.line == here(Steep)


@pytest.mark.parametrize("is_reentrant", [True, False])
def test_an_overflow_within_a_checkpoint(is_reentrant: bool) -> None:
    model = nn.Sequential(Block(30000.0))

    def call() -> Tensor:
        x = torch.full((2, 8), 3.0, requires_grad=True)
        with region():
            out = checkpoint(model[0], x, use_reentrant=is_reentrant)
        return out.float().mean()

    first = seen(call, model)[0]
    assert (first.origin, first.op, first.module, first.backward) == (Origin.OVERFLOW, "linear", "0.second", False)


@pytest.fixture(params=["as it is", "without a frame"])
def applied(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions are applied as this torch does it, and as torch 2.14 does it: by a builtin, which has no frame."""
    if request.param == "without a frame":
        monkeypatch.setattr(torch.autograd.Function, "apply", vars(torch._C._FunctionBase)["apply"])


@pytest.mark.usefixtures("applied")
def test_custom_functions_can_be_looked_at() -> None:
    spec = importlib.util.find_spec("amplint.doctor.calls")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x / 100

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grads[0] * 1000 * x  # here


@pytest.mark.usefixtures("applied")
def test_the_backward_of_a_custom_function_has_the_line_that_applies_it() -> None:
    x = leaf(1.0, 4, dtype=HALF)

    def call() -> Tensor:
        y = x + 1
        y = Cube.apply(y)  # here
        return y.float().sum()

    (first,) = gradients(call, None, x, scale=1024.0)
    assert first.place is not None
    assert first.place.line == here(call)
    assert [place.line for place in first.stack[:2]] == [here(Cube), here(call)]
    assert (first.origin, first.op, first.backward) == (Origin.OVERFLOW, "mul", True)


LIBRARY = """
import torch

class Steep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x / 100

    @staticmethod
    def backward(ctx, grad):
        return grad * 1000
"""


@pytest.mark.usefixtures("applied")
def test_the_function_of_a_library() -> None:
    library: dict[str, Any] = {}
    exec(compile(LIBRARY, "<library>", "exec"), library)
    x = leaf(1.0, 4, dtype=HALF)

    def call() -> Tensor:
        y = x + 1
        y = library["Steep"].apply(y)  # here
        return y.float().sum()

    (first,) = gradients(call, None, x, scale=1024.0)
    assert first.place is not None
    assert first.place.line == here(call)
    assert (first.origin, first.backward, first.value) == (Origin.OVERFLOW, True, 1024000)


class Product(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx: Any, *grads: Any) -> Any:
        x, w = ctx.saved_tensors
        return grads[0] @ w.t() * 100, x.t() @ grads[0]


@pytest.mark.usefixtures("applied")
def test_a_custom_function_for_autocast() -> None:
    x, w = leaf(1.0, 2, 4), leaf(10.0, 4, 4)

    def call() -> Tensor:
        with region():
            y = Product.apply(x.half(), w.half())  # here
            y = y + 1
        return y.float().sum()

    (first,) = gradients(call, None, x, w, scale=1024.0)
    assert (first.op, first.origin, first.value) == ("mul", Origin.OVERFLOW, 4096000.0)
    assert first.place is not None
    assert first.place.line == here(call)


def test_saved_tensors_that_are_kept_elsewhere() -> None:
    x = leaf(2.0, 4, dtype=HALF)

    def call() -> Tensor:
        with torch.autograd.graph.save_on_cpu():
            y = (x * x) * x  # here
        return y.float().sum()

    first = gradients(call, None, x, scale=30000.0)[0]
    assert (first.op, first.origin, first.backward, first.value) == ("mul", Origin.OVERFLOW, True, 120000.0)


def test_a_masked_row_that_is_mended_in_the_forward_pass_alone() -> None:
    scores = leaf(0.0, 2, 3)
    mask = torch.tensor([[True] * 3, [False] * 3])
    with Detail({}) as detail:
        p = scores.masked_fill(~mask, -INF).softmax(-1)  # here
        p = torch.where(mask.any(1, keepdim=True), p, 0.0)
        (grad,) = torch.autograd.grad(p.square().sum(), scores)
    assert bool(p.isfinite().all())
    for first in detail.reaching(grad):
        assert (first.origin, first.op, first.rows) == (Origin.MASK, "softmax", (1,))


def test_the_gradient_of_a_gradient() -> None:
    x = leaf(100.0, 4, dtype=HALF)

    def call() -> Tensor:
        y = x**3 * 1e-4  # here
        (slope,) = torch.autograd.grad(y.float().sum(), x, create_graph=True)
        return slope.float().sum()

    first = gradients(call, None, x, scale=2.0**20)[0]
    assert first.backward
    assert first.place is not None
    assert here(call) <= first.place.line <= here(call) + 2
    assert first.origin is Origin.OVERFLOW


def test_a_hook_on_a_gradient() -> None:
    x = leaf(1.0, 4, dtype=HALF)

    def call() -> Tensor:
        y = x + 1
        y.register_hook(lambda grad: grad * 1000)  # here
        return y.float().sum()

    (first,) = gradients(call, None, x, scale=1024.0)
    assert first.place is not None
    assert first.place.line == here(call)


def test_a_write_into_a_view_in_the_backward_pass() -> None:
    x = leaf(1.0, 4, dtype=HALF)

    def call() -> Tensor:
        y = x + 1
        y[0] *= 200  # here
        return y.float().sum()

    (first,) = gradients(call, None, x, scale=1024.0)
    assert first.place is not None
    assert first.place.line == here(call)
    assert first.op == "mul"


def test_a_gradient_that_arrives_is_no_birth() -> None:
    x = leaf(1.0, 4)
    with Detail({}) as detail:
        y = x * 2
        (grad,) = torch.autograd.grad(y, x, torch.full((4,), math.nan).detach())
    assert [birth.origin for birth in detail.reaching(grad)] == [Origin.MATH]  # made under the mode
    gradient = torch.full((4,), math.nan)
    with Detail({}) as detail:
        (grad,) = torch.autograd.grad(x * 2, x, gradient)
    assert not detail.reaching(grad)
    assert [birth.backward for birth in detail.arriving(grad)] == [True]


def test_an_overflow_of_the_loss_reaches_the_gradients() -> None:
    x = leaf(300.0, 4, dtype=HALF)
    with Detail({}) as detail:
        loss = (x * x).float().log().sum()
        (grad,) = torch.autograd.grad(loss, x)
    assert detail.reaching(loss)[0].op == "mul"
    assert not detail.failed
    del grad


# Parts of torch.


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(kind: Any) -> None:
    model = kind(8, 8, batch_first=True)
    x = torch.full((2, 5, 8), 1e4)
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model(x)
    except RuntimeError as error:  # torch itself, on a CPU without instructions for bfloat16
        pytest.skip(str(error))
    with Detail(names_of(model)) as detail:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(x)[0]
        out.float().sum().backward()
    assert not detail.failed
    assert not detail.reaching(out)


@pytest.mark.parametrize("dtype", [torch.float32, HALF, torch.bfloat16])
@pytest.mark.parametrize("is_causal", [True, False])
def test_attention(dtype: torch.dtype, is_causal: bool) -> None:
    if IS_OLD and dtype is HALF:
        pytest.skip("torch gives NaN")
    q = torch.full((2, 2, 6, 16), 100.0, dtype=dtype, requires_grad=True)
    mask = None if is_causal else torch.ones(6, 6, dtype=torch.bool).tril()
    with Detail({}) as detail:
        out = functional.scaled_dot_product_attention(q, q, q, mask, is_causal=is_causal)
        out.float().sum().backward()
    assert not detail.failed
    assert bool(out.isfinite().all())
    assert not detail.births


def test_attention_with_a_row_masked_completely() -> None:
    q = torch.ones(2, 2, 3, 16)
    mask = torch.zeros(2, 1, 3, 3)
    mask[1, :, 1] = -INF

    def call() -> Tensor:
        weights = q @ q.transpose(-2, -1) + mask
        return (weights.softmax(-1) @ q).sum()  # here

    (first,) = seen(call)
    assert (first.origin, first.op, first.rows) == (Origin.MASK, "softmax", (1,))


def test_multihead_attention_with_a_row_masked_completely() -> None:
    model = nn.MultiheadAttention(8, 2, batch_first=True)
    padding = torch.tensor([[False, False, True], [True, True, True]])
    x = torch.randn(2, 3, 8)

    def call() -> Tensor:
        out, _ = model(x, x, x, key_padding_mask=padding)  # here
        return out.sum()

    first = seen(call, model)[0]
    assert (first.origin, first.op) == (Origin.MASK, "softmax")
    assert first.place is not None
    assert first.place.line == here(call)


def test_the_fused_layer_of_an_evaluation() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    padding = torch.tensor([[False, False, True], [True, True, True]])
    x = torch.randn(2, 3, 16)

    def call() -> Tensor:
        with torch.no_grad():
            return model(x, src_key_padding_mask=padding).sum()

    first = seen(call, model)[0]
    assert (first.origin, first.op, first.rows) == (Origin.MASK, "transformer_encoder_layer_fwd", (1,))


def test_inference_mode_is_taken_apart() -> None:
    model = nn.Sequential(Block(30000.0))

    def call() -> Tensor:
        with torch.inference_mode(), region():
            return model(torch.full((2, 8), 3.0)).float().mean()

    first = seen(call, model)[0]
    assert (first.origin, first.op, first.module) == (Origin.OVERFLOW, "linear", "0.second")


@pytest.mark.skipif(IS_OLD, reason="torch makes no subclass there")
def test_other_kinds_of_tensors_pass() -> None:
    class Named(Tensor):
        pass

    def call() -> Tensor:
        sparse = torch.eye(3).to_sparse() * 2
        compressed = torch.eye(3).to_sparse_csr()
        waves = torch.fft.fft(torch.ones(4)) * 1e30
        meta = torch.ones(3, device="meta") * INF
        quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
        named = torch.ones(3).as_subclass(Named) * 300
        whole = torch.arange(3) // 2
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged) * 2
        small = torch.ones(4).to(torch.float8_e4m3fn).float()
        empty = torch.empty(0, 3, dtype=HALF).sum()
        assert meta.shape == (3,)
        assert nested.shape[0] == 2
        return (
            sparse.to_dense().sum()
            + (compressed @ torch.ones(3, 1)).sum()
            + waves.abs().sum() * 1e-30
            + quantized.dequantize().sum()
            + named.sum()
            + whole.sum()
            + small.sum()
            + empty
        )

    with Detail({}) as detail:
        out = call()
    assert bool(out.isfinite())
    assert not detail.births
    assert not detail.failed


def test_a_complex_overflow() -> None:
    def call() -> Tensor:
        x = torch.full((3,), 1e38 + 1e38j, dtype=torch.complex64)
        return (x * 10).abs().sum()  # here

    first = seen(call)[0]
    assert first.origin is Origin.MATH
    assert first.dtype == "complex64"


def test_zeros_without_memory() -> None:
    x = torch.ones(3, dtype=torch.complex64, requires_grad=True)
    with Detail({}) as detail:
        (grad,) = torch.autograd.grad(x.sgn().imag.sum(), x)
        zeros = torch._efficientzerotensor((3,), dtype=HALF)  # type: ignore[attr-defined]
        bad = zeros + torch.full((3,), 300.0, dtype=HALF).square()
    assert not detail.failed
    assert bool(grad.abs().isfinite().all())
    assert detail.reaching(bad)[0].op == "square"


def test_sparse_gradients() -> None:
    model = nn.Embedding(5, 4, sparse=True)
    with Detail(names_of(model)) as detail:
        model(torch.tensor([1, 1, 3])).sum().backward()
    assert not detail.failed
    assert not detail.births


# What is refused, and what stays as it was.


def test_a_collective_does_not_run() -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        x = torch.ones(3)
        with pytest.raises(CollectiveRefused), Detail({}):
            dist.all_reduce(x * 1)
    finally:
        dist.destroy_process_group()


def test_a_write_outside_does_not_run() -> None:
    counter = torch.zeros(3)
    with pytest.raises(OutsideWrite) as raised, Detail({}):
        counter[0] += 1  # here
    assert raised.value.place is not None
    assert raised.value.place.line == here(test_a_write_outside_does_not_run)
    assert raised.value.op == "add"
    assert not counter.any()


def test_an_optimizer_step_does_not_run() -> None:
    model = filled(nn.Linear(3, 3), 0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model(torch.ones(3)).sum().backward()
    with pytest.raises(OutsideWrite), Detail(names_of(model)):
        optimizer.step()
    assert bool((model.weight == 0.5).all())


def test_buffers_that_are_allowed_are_written() -> None:
    model = nn.BatchNorm1d(4)
    with pytest.raises(OutsideWrite), Detail(names_of(model)):
        model(torch.randn(8, 4))
    with Detail(names_of(model), allowed=model.buffers()) as detail:
        model(torch.randn(8, 4) * 3)
    assert not detail.failed
    assert model.num_batches_tracked == 1


def test_writes_to_what_was_made_within_are_none_outside() -> None:
    def call() -> Tensor:
        x = torch.zeros(4, 4)
        x[1:3].fill_(2)
        x.view(-1)[3:].add_(1)
        torch.add(x, x, out=x)
        y = torch.tensor([1.0, 2.0])
        y.mul_(2)
        return x.sum() + y.sum()

    with Detail({}) as detail:
        call()
    assert not detail.failed


def test_random_numbers_and_results_are_the_same() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), Block(30000.0), nn.Dropout(0.2))

    def call() -> Tensor:
        torch.manual_seed(3)
        with region():
            out = model(torch.rand(4, 8) * 100)
        return torch.cat([out.float().flatten(), torch.rand(3)])

    plain = call()
    with Detail(names_of(model)) as detail:
        watched = call()
    assert detail.births
    assert torch.equal(plain.nan_to_num(-1, -2, -3), watched.nan_to_num(-1, -2, -3))


def test_a_failure_of_the_look_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ValueError

    monkeypatch.setattr("amplint.doctor.detail.is_finite", fail)
    with Detail({}) as detail:
        assert (torch.ones(3) + 1).sum() == 6
    assert detail.failed


def test_gradients_are_not_added_to_those_outside() -> None:
    weight = leaf(1.0, 3)
    weight.grad = torch.zeros(3)
    with pytest.raises(OutsideWrite), Detail({}):
        (weight * 2).sum().backward()
    assert not weight.grad.any()
    with Detail({}, allowed=[weight.grad]):
        (weight * 2).sum().backward()
    assert bool((weight.grad == 2).all())


class Language(nn.Module):
    """A healthy model with infinities in all places where they belong."""

    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.norm = nn.LayerNorm(32)
        self.heads = nn.Linear(32, 96)
        self.dropout = nn.Dropout(0.1)
        self.out = nn.Linear(32, 50)
        self.register_buffer("mask", torch.full((16, 16), -INF).triu(1))

    def forward(self, x: Tensor) -> Tensor:
        z = self.norm(self.embedding(x))
        q, k, v = self.heads(z).chunk(3, -1)
        scores = q @ k.transpose(-2, -1) / 32**0.5 + self.mask[: x.shape[1], : x.shape[1]]
        scores = scores.masked_fill(torch.ones(16, 16, dtype=torch.bool).triu(3), -INF)
        logits = self.out(z + self.dropout(scores.softmax(-1)) @ v).clone()
        logits[..., 0] = -INF
        return logits


class Picture(nn.Sequential):
    """A healthy convolutional model."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout2d(0.3),
            nn.Conv2d(8, 8, 3), nn.GroupNorm(2, 8), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10),
        )  # fmt: skip


@pytest.mark.parametrize("kind", [Language, Picture])
@pytest.mark.parametrize("dtype", [HALF, torch.bfloat16])
def test_a_healthy_step_has_no_births_and_the_same_numbers(kind: type[nn.Module], dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    model = kind()
    other = copy.deepcopy(model)
    x = torch.randint(1, 50, (2, 16)) if kind is Language else torch.randn(4, 3, 16, 16)
    y = torch.randint(1, 10, (32 if kind is Language else 4,))

    def step(model: nn.Module) -> list[Tensor]:
        torch.manual_seed(0)
        with torch.autocast("cpu", dtype=dtype):
            logits = model(x).flatten(0, -2)
        loss = functional.cross_entropy(logits.float(), y)
        grads = torch.autograd.grad(loss * 128, list(model.parameters()))
        return [loss.detach(), *grads, *model.buffers(), torch.get_rng_state()]

    with Detail(names_of(model), allowed=model.buffers()) as detail:
        watched = step(model)
    assert not detail.births
    assert not detail.failed
    assert all(torch.equal(a, b) for a, b in zip(watched, step(other), strict=True))


def test_the_place_without_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.10 doesn't say which part of a line is running."""
    monkeypatch.setattr("amplint.doctor.calls._expression", lambda *_: None)
    first = seen(matmul)[0]
    assert first.op == "matmul"
    first = seen(normalize)[0]
    assert first.op == "div"


def test_little_memory_for_explanations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amplint.doctor.lineage.MOST_BYTES", 0)
    (first,) = seen(eps_in_half)
    assert first.origin is Origin.MATH


def mean_of_nothing() -> Tensor:
    losses = torch.tensor([0.5, 0.7])
    return losses[losses > 1].mean()  # here


def test_a_mean_of_nothing_says_so() -> None:
    (first,) = seen(mean_of_nothing)
    assert first.origin is Origin.MATH
    assert first.is_empty
    assert first.inputs == ()
