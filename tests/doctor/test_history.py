"""What the doctor remembers of optimizers and models, where objects are made at the address of one that is gone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from amplint.doctor.curve import Curve
from amplint.doctor.history import History


class _Optimizer:
    """What is asked of an optimizer, with a learning rate of its own."""

    def __init__(self, rate: float) -> None:
        self.param_groups = [{"lr": rate}]
        self.defaults = {"lr": rate}


class _Models:
    """The models that are alive."""

    def __init__(self) -> None:
        self.models: list[nn.Module] = []

    def alive(self) -> list[nn.Module]:
        return self.models


def _history(models: Any) -> History:
    return History(models)


def test_a_rate_does_not_rise_from_that_of_an_optimizer_that_is_gone() -> None:
    history = _history(_Models())
    optimizer = _Optimizer(0.001)
    history.optimizer_made(optimizer, None)
    history.stepped(optimizer, None)
    optimizer.__init__(0.1)  # type: ignore[misc]  # what a new one at its address is to the tables
    history.optimizer_made(optimizer, None)
    history.stepped(optimizer, None)
    assert history.rate() == (None, "")


def test_a_rate_that_rises_is_named() -> None:
    history = _history(_Models())
    optimizer = _Optimizer(0.001)
    history.optimizer_made(optimizer, None)
    history.stepped(optimizer, None)
    optimizer.param_groups[0]["lr"] = 0.1
    history.stepped(optimizer, None)
    assert history.rate()[1] == "the learning rate rose from 0.001 to 0.1, "


def test_weights_do_not_grow_from_those_of_a_model_that_is_gone() -> None:
    models = _Models()
    history = _history(models)
    small = nn.Linear(2, 2)
    models.models = [small]
    history.begin()
    large = nn.Linear(2, 2)
    large.weight.data.fill_(1e4)
    history._norms[id(large)] = history._norms.pop(id(small))  # its address
    models.models = [large]
    history.begin()
    assert history.growth() == ""


def test_weights_that_grow_are_named() -> None:
    models = _Models()
    history = _history(models)
    model = nn.Linear(2, 2)
    models.models = [model]
    history.begin()
    model.weight.data.fill_(1e4)
    assert "the norm of the weights from" in history.growth()


@pytest.mark.parametrize(
    ("losses", "is_beyond", "diverges"),
    [
        ((1.4, 15.4, 94.9), True, True),  # and the next one is beyond float32
        ((1.4, 15.4, 94.9), False, False),
        ((1.4, 1.2, 1.1), True, False),  # one operation overflows, while the training goes well
        ((1.4, 1.2, 5e3), False, True),
    ],
)
def test_few_losses_that_rise_and_weights_that_have_grown_are_divergence(
    losses: tuple[float, ...], is_beyond: bool, diverges: bool
) -> None:
    models = _Models()
    history = _history(models)
    models.models = [nn.Linear(4, 4)]
    history.begin()
    for value in losses:
        history.loss(value)
    with torch.no_grad():
        for each in models.models[0].parameters():
            each.mul_(10.0)
    assert bool(history.growth(is_beyond=is_beyond)) is diverges


def _curve(losses: list[float], rises: list[float]) -> Curve:
    curve = Curve()
    for loss, rise in zip(losses, rises, strict=True):
        curve.add(loss, rise)
    return curve


FALLS_AND_STAYS_WORSE = [1.0, *[0.1] * 99, *[1.5] * 200]


def test_a_loss_that_stays_worse_since_the_rate_has_risen_is_seen() -> None:
    found = _curve(FALLS_AND_STAYS_WORSE, [step / 50 for step in range(300)]).worse()
    assert found == pytest.approx((0.1, 1.5))


@pytest.mark.parametrize(
    ("losses", "rises"),
    [
        (FALLS_AND_STAYS_WORSE, [min(1.0, step / 50) for step in range(300)]),  # a warm-up that ends
        (FALLS_AND_STAYS_WORSE, [25 * (1 - step / 300) for step in range(300)]),  # a cycle that ends low
        (FALLS_AND_STAYS_WORSE, [25.0] * 300),  # the rate was as high when the loss was best
        ([1 / (1 + step) for step in range(300)], [step / 50 for step in range(300)]),  # it learns
        ([*[0.1] * 240, *[9.0] * 60], [1.05**step for step in range(300)]),  # a test of rates
        ([-loss for loss in FALLS_AND_STAYS_WORSE], [step / 50 for step in range(300)]),  # a reward
        ([0.1, *[1.5] * 8], list(range(9))),  # too few
    ],
)
def test_a_loss_that_is_worse_for_another_reason_is_left_alone(losses: list[float], rises: list[float]) -> None:
    assert _curve(losses, rises).worse() is None
