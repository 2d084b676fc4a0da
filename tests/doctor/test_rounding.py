"""Weights that a step makes bad: an eps of 0 that it divides by, and what else is known."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from amplint.doctor import observe  # noqa: E402
from amplint.doctor.rounding import zero_divisor  # noqa: E402

OPTIMIZERS = {
    "Adam": lambda weights: torch.optim.Adam([weights], lr=1e-3),
    "amsgrad": lambda weights: torch.optim.AdamW([weights], lr=1e-3, amsgrad=True),
    "RMSprop": lambda weights: torch.optim.RMSprop([weights], lr=1e-3),
    "Adagrad": lambda weights: torch.optim.Adagrad([weights], lr=1e-3),
}


def stepped(made: Any, gradient: float, dtype: Any = torch.float16) -> Any:
    """The optimizer of some weights that has stepped once with a gradient, and the weights."""
    weights = torch.nn.Parameter(torch.ones(4, dtype=dtype))
    weights.grad = torch.full_like(weights, gradient)
    optimizer = made(weights)
    optimizer.step()
    return optimizer, weights


@pytest.mark.parametrize("made", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_an_eps_that_is_0_in_the_dtype(made: Any) -> None:
    optimizer, weights = stepped(made, 1e-5)
    assert not weights.isfinite().any()
    found = zero_divisor([optimizer])
    assert found is not None
    assert (found.optimizer, found.dtype, found.weights) == (optimizer, "float16", 4)


@pytest.mark.parametrize(
    ("made", "gradient", "dtype"),
    [
        (OPTIMIZERS["Adam"], 1.0, torch.float16),
        (OPTIMIZERS["Adam"], 1e-5, torch.bfloat16),
        (OPTIMIZERS["Adam"], 1e-5, torch.float32),
        (lambda weights: torch.optim.Adam([weights], lr=1e-3, eps=1e-4), 1e-5, torch.float16),
    ],
    ids=["large gradients", "bfloat16", "float32", "eps that it holds"],
)
def test_weights_that_are_finite_were_not_divided_by_0(made: Any, gradient: float, dtype: Any) -> None:
    optimizer, weights = stepped(made, gradient, dtype)
    assert weights.isfinite().all()
    assert zero_divisor([optimizer]) is None


def test_weights_that_are_bad_for_another_reason() -> None:
    optimizer, weights = stepped(OPTIMIZERS["Adam"], 1.0)
    with torch.no_grad():
        weights[1] = float("nan")
    assert zero_divisor([optimizer]) is None
    optimizer, weights = stepped(lambda weights: torch.optim.SGD([weights], lr=6e4), 4.0)
    assert not weights.isfinite().any()
    assert zero_divisor([optimizer]) is None


def test_weights_that_were_finite_before_the_first_step() -> None:
    torch.manual_seed(0)
    with observe(quiet=True) as seen:
        model = torch.nn.Linear(4, 1).half()
        optimizer = torch.optim.SGD(model.parameters(), lr=6e4)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(8, 4).half()).float().mean().mul(4).backward()
            optimizer.step()
    assert seen.report is not None
    (finding,) = seen.report.findings
    assert finding.cause is not None
    assert finding.cause.value == "weights"
    assert any("were finite before the first step" in each for each in finding.details)
