"""What code that verify can't follow may do to gradients and models, and what its name says that it does."""

from __future__ import annotations

import pytest

from amplint.verify.steps.judge import RIGHT, UNKNOWN, WRONG
from tests.interpreting import Ran, interpret

STEP = """
import torch
import helpers
from helpers import clip_grads, agc_clip, average_gradients, ema

def train(model, loader, optimizer, clip_gradient):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        BODY
        scaler.step(optimizer)
        scaler.update()
"""
KEPT = """
import torch
from build import instantiate

class Solver:
    def __init__(self, config, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.scaler = torch.amp.GradScaler("cuda")
        self.clip_grad_norm = instantiate(config) if config else None

    def step(self, batch):
        self.optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = self.model(batch)
        self.scaler.scale(loss).backward()
        UNSCALE
        if self.clip_grad_norm is not None:
            self.clip_grad_norm(self.model.parameters())
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""
UNSCALE = "scaler.unscale_(optimizer)"


def ran(body: str) -> Ran:
    (found,) = interpret(STEP.replace("BODY", body.replace("\n", "\n        ")))
    return found


@pytest.mark.parametrize(
    "clip",
    [
        "clip_grads(model.parameters(), 1.0)",
        "helpers.clip_gradients(model.parameters(), max_norm=1.0)",
        "clip_gradient(list(model.parameters()), 1.0)",
        "model.clip_grad_norm_(1.0)",
        "helpers.clip_grad_norm(parameters=model.parameters())",
    ],
)
def test_what_goes_by_the_name_of_a_clip_is_one(clip: str) -> None:
    bad = ran(clip)
    assert bad.judged.state == WRONG
    assert "clip saw 512 x the true norm" in bad.judged.faults[0].text
    assert ran(f"{UNSCALE}\n{clip}").judged.state == RIGHT


@pytest.mark.parametrize(("unscale", "state"), [("pass", WRONG), (f"self.{UNSCALE}".replace("(o", "(self.o"), RIGHT)])
def test_a_clip_that_is_kept_is_one_by_its_name(unscale: str, state: str) -> None:
    (found,) = interpret(KEPT.replace("UNSCALE", unscale))
    assert found.judged.state == state


@pytest.mark.parametrize(
    "changes",
    [
        "agc_clip(model)",
        "helpers.normalize_gradients(model.parameters())",
        "helpers.grad_clip_(model)",
        "helpers.clip_and_log(optimizer)",
        "helpers.prepare(scaler, optimizer)",
        "helpers.init_step(scaler)",
    ],
)
def test_what_may_change_gradients_out_of_sight_is_not_checkable(changes: str) -> None:
    found = ran(changes).judged
    assert found.state == UNKNOWN
    assert f"amplint can't see what {changes} does" in found.reason


@pytest.mark.parametrize(
    "leaves",
    [
        "ema.update(model.parameters())",
        "average_gradients(model)",
        "helpers.clip_weights(model.parameters(), 0.1)",
        "helpers.save_or_init(scaler, optimizer)",
        "scaler.step(optimizer)\nscaler.update()\nhelpers.make_plot(scaler)\ncontinue",
    ],
)
def test_what_leaves_gradients_or_averages_them_is_no_clip(leaves: str) -> None:
    assert ran(leaves).judged.state == RIGHT
