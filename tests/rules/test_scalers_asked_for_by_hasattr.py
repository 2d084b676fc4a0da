"""AMP423: a state that is empty if the object has no scaler is one only where something decides about that."""

from __future__ import annotations

from amplint import check

TEXT = """\
import torch


class Trainer:
    def __init__(self, model, optimizer, fp16):
        self.model, self.optimizer = model, optimizer
        MADE

    def save(self, path):
        scaler = self.scaler.state_dict() if hasattr(self, "scaler") else {}
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "scaler": scaler}, path)

    def load(self, path):
        kept = torch.load(path)
        self.model.load_state_dict(kept["model"])
        self.optimizer.load_state_dict(kept["optimizer"])
        self.scaler.load_state_dict(kept["scaler"])

    def train(self, loader):
        for x in loader:
            self.optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = self.model(x).mean()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
"""


def found(made: str) -> bool:
    return "AMP423" in {each.code for each in check(TEXT.replace("MADE", made))}


def test_a_scaler_that_is_always_there_is_saved() -> None:
    assert not found('self.scaler = torch.amp.GradScaler("cuda")')


def test_what_another_method_creates_is_there_where_it_trains() -> None:
    text = TEXT.replace("MADE", "self.prepare()").replace(
        "    def save(", '    def prepare(self):\n        self.scaler = torch.amp.GradScaler("cuda")\n\n    def save('
    )
    assert "AMP423" not in {each.code for each in check(text)}
