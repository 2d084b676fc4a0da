"""What the doctor keeps, and under what settings it repeats a step."""

from __future__ import annotations

import gc
import weakref

import pytest

torch = pytest.importorskip("torch")

from amplint.doctor import observe  # noqa: E402
from amplint.doctor.capture import Capture  # noqa: E402
from amplint.doctor.casts import Casts  # noqa: E402
from amplint.doctor.gradients import Models  # noqa: E402
from amplint.doctor.guard import unheard  # noqa: E402
from amplint.doctor.replay import Replays  # noqa: E402


def test_gradients_of_earlier_steps_are_let_go() -> None:
    """They are as large as the model."""
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    gradients = []
    with observe(quiet=True):
        for _ in range(10):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = model(torch.randn(4, 8)).float().square().mean()
            scaler.scale(loss).backward()
            assert model.weight.grad is not None
            gradients.append(weakref.ref(model.weight.grad))
            scaler.step(optimizer)
            scaler.update()
        optimizer.zero_grad()
        gc.collect()
        assert [each for each in gradients if each() is not None] == []


def test_a_step_is_repeated_on_the_default_device() -> None:
    replays = Replays(Capture(Models(), lambda call: None), Casts(), is_on=True)
    with unheard(), replays.quiet([]):
        assert torch.zeros(1).device.type == "cpu"
    torch.set_default_device("meta")
    try:
        with unheard(), replays.quiet([]):
            assert torch.zeros(1).device.type == "meta"
        assert torch.zeros(1).device.type == "meta"
    finally:
        torch.set_default_device(None)
