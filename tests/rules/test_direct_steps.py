"""Steps past the scaler, with code around that has nothing to do with them (AMP402)."""

from __future__ import annotations

from pathlib import Path

import pytest

import amplint

TWO_ARMS = """\
import torch


class Scaled:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, optimizer, parameters, clip=None, limit=100.0):
        self.scaler.scale(loss).backward()
        if clip is not None:
            self.scaler.unscale_(optimizer)
            norm = torch.nn.utils.clip_grad_norm_(parameters, clip)
        else:
            self.scaler.unscale_(optimizer)
            norm = torch.nn.utils.get_total_norm([each.grad for each in parameters])
            if norm >= limit:
                self.scaler.update()
                return norm
        {check}
        optimizer.step()
        self.scaler.update()
        return norm
"""
METRICS = """\
import torch


class Agent:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    def losses(self, batch, metrics):
        found = {{}}
        with torch.autocast("cuda", dtype=torch.float16):
            loss = self.model(batch).mean()
        self.scaler.scale(loss).backward()
        found.update(loss=loss.detach())
        return found

    def update(self, batch):
        metrics = self.losses(batch, {{}})
        {before}
        self.scaler.unscale_(self.optimizer)
        {step}
        self.scaler.update()
        self.optimizer.zero_grad()
        metrics["scale"] = self.scaler.get_scale()
        return metrics
"""
TWO_OPTIMIZERS = """\
import torch


def train(batches, model, critic, optimizer_g, optimizer_d, scaler):
    for real in batches:
        critic.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss_d = critic(real).mean()
        {backward}
        optimizer_d.step()
        model.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss_g = critic(model(real)).mean()
        scaler.scale(loss_g).backward()
        scaler.step(optimizer_g)
        scaler.update()
"""
DIRECT, SCALED = "self.optimizer.step()", "self.scaler.step(self.optimizer)"


def codes(path: Path, text: str) -> list[tuple[str, str]]:
    path.write_text(text)
    found = amplint.check(text, path, amplint.settings_for(path))
    return [(each.code, each.confidence.value) for each in found]


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("pass", [("AMP402", "certain")]),
        ("if norm > 1e6:\n            self.scaler.update()\n            return norm", []),
    ],
)
def test_a_norm_is_asked_for_in_another_arm(tmp_path: Path, check: str, expected: list[tuple[str, str]]) -> None:
    text = TWO_ARMS.format(check=check)
    assert codes(tmp_path / "wrapper.py", text) == expected


@pytest.mark.parametrize(
    ("before", "step", "expected"),
    [
        ("pass", DIRECT, [("AMP402", "certain")]),
        ("pass", SCALED, []),
        ('metrics["before"] = self.scaler.get_scale()', DIRECT, [("AMP402", "certain")]),
    ],
)
def test_a_method_is_called_as_one_of_dictionaries(
    tmp_path: Path, before: str, step: str, expected: list[tuple[str, str]]
) -> None:
    assert codes(tmp_path / "agent.py", METRICS.format(before=before, step=step)) == expected


@pytest.mark.parametrize(
    ("backward", "expected"),
    [("scaler.scale(loss_d).backward()", [("AMP402", "likely")]), ("loss_d.backward()", [])],
)
def test_an_optimizer_whose_model_is_cleared(tmp_path: Path, backward: str, expected: list[tuple[str, str]]) -> None:
    assert codes(tmp_path / "gan.py", TWO_OPTIMIZERS.format(backward=backward)) == expected
