"""AMP413: a scaler's state is loaded, and a new scaler then takes its place."""

from __future__ import annotations

import pytest

import amplint
from amplint.base.findings import Confidence

TRAINER = """\
import torch


class Trainer:
    def __init__(self, model, path):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.scaler = torch.amp.GradScaler("cuda")
        RESTORE

    def restore(self, path, model, optimizer, scaler):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scaler.load_state_dict(saved["scaler"])
        return model, optimizer, scaler

    def train(self, loader):
        for epoch in range(10):
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = torch.nn.functional.cross_entropy(self.model(x), y)
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad()
            states = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
            torch.save({**states, "scaler": self.scaler.state_dict()}, "last.pt")
"""
NEW = 'self.scaler = torch.amp.GradScaler("cuda")'
GIVEN = (
    "if path:\n    self.model, self.optimizer, self.scaler = self.restore(\n"
    "        path, self.model, self.optimizer, self.scaler\n    )\n    "
)
LOADED = 'saved = torch.load(path)\nself.optimizer.load_state_dict(saved["optimizer"])\n'
OWN = f'{LOADED}self.scaler.load_state_dict(saved["scaler"])\n'


def found(restore: str) -> list[tuple[Confidence, int]]:
    text = TRAINER.replace("RESTORE", restore.replace("\n", "\n        "))
    findings = [each for each in amplint.check(text, "train.py") if each.message.startswith("this line replaces")]
    assert all(each.code == "AMP413" for each in findings)
    return [(each.confidence, each.location.row) for each in findings]


@pytest.mark.parametrize(
    ("restore", "expected"),
    [
        (f"{GIVEN}{NEW}", [(Confidence.LIKELY, 13)]),
        (f"{OWN}{NEW}", [(Confidence.CERTAIN, 12)]),
        (f"{OWN}if path:\n    {NEW}", [(Confidence.CERTAIN, 13)]),
        # Created before, loaded again, used in between, or another one's state.
        (f"{NEW}\n{OWN}pass", []),
        (f'{OWN}{NEW}\nself.scaler.load_state_dict(saved["scaler"])', []),
        (f"{OWN}print(self.scaler.get_scale())\n{NEW}", []),
        (f'{LOADED}other.load_state_dict(saved["scaler"])\n{NEW}', []),
        (f"if path:\n    {OWN}".replace("\n", "\n    ").rstrip() + f"\nelse:\n    {NEW}", []),
    ],
)
def test_a_new_scaler_after_a_load(restore: str, expected: list[tuple[Confidence, int]]) -> None:
    assert found(restore) == expected
