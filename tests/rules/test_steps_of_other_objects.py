"""AMP402 where the scaler and the optimizer that steps are attributes of different objects."""

from __future__ import annotations

from amplint import check
from amplint.base.findings import Finding
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP402"}), isolated=True, target_torch="2.4")
PROGRAM = """
import torch


class Noise(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.field = torch.nn.Parameter(torch.zeros(4))
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)

    def forward(self, x):
        return x + self.field

    def advance(self):
        self.optimizer.step()
        self.optimizer.zero_grad()


class Attack(BASE):
    def __init__(self):
        super().__init__()
        self.noise = Noise()
        self.scaler = torch.amp.GradScaler("cuda")

    def run(self, model, x):
        with torch.autocast("cuda"):
            loss = -model(NOISE(x)).mean()
        self.scaler.scale(loss).backward()
        NOISE.advance()
"""


def found(base: str, noise: str) -> Finding:
    (finding,) = check(PROGRAM.replace("BASE", base).replace("NOISE", noise), "a.py", SETTINGS)
    return finding


def test_the_scaler_of_another_object() -> None:
    finding = found("torch.nn.Module", "self.noise")
    assert "pass the scaler on line 28 to this object" in finding.message
    assert "self.scaler.step(self.optimizer)" not in finding.message


def test_one_object_has_both() -> None:
    assert "call `self.scaler.step(self.optimizer)`" in found("Noise", "self").message
