"""AMP413 where a scaler is given to an object, which keeps it under a name of its own and saves."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check

TRAINER = """\
import torch
from somewhere import Base


class Trainer:
    def __init__(self, model, optimizer, grad_scaler=None, path=None):
        self.model = model
        self.optimizer = optimizer
        self.amp = grad_scaler

    def train(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = torch.nn.functional.mse_loss(self.model(x), y)
            self.amp.scale(loss).backward()
            self.amp.step(self.optimizer)
            self.amp.update()

    def save(self, path):
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, path)

    def load(self, path):
        ckpt = torch.load(path)
        self.model.load_state_dict(ckpt["model"])
        self.optimizer.load_state_dict(ckpt["optimizer"])


"""
MAIN = """\
def main(model, loader):
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    trainer = Trainer(model, optimizer, scaler)
    for epoch in range(10):
        trainer.train(loader)
        trainer.save("last.pt")
"""
PROGRAM = TRAINER + MAIN
MADE = "Trainer(model, optimizer, scaler)"


def found(text: str, filename: str = "<string>") -> list[str]:
    return [
        each.message for each in check(text, filename) if each.code == "AMP413" and "but not the scaler" in each.message
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (MADE, MADE),
        (MADE, "Trainer(model, optimizer, grad_scaler=scaler)"),
        (MADE, 'Trainer(model, optimizer, path="x", grad_scaler=scaler)'),
        ("scaler)\n", 'scaler)\n    print("scale", scaler.get_scale())\n'),
        ("class Trainer:", "class Loop:\n    pass\n\n\nclass Trainer(Loop):"),
        ("    trainer = Trainer(model, optimizer, scaler)", "    trainer: Trainer = Trainer(model, optimizer, scaler)"),
    ],
)
def test_an_object_saves_without_the_scaler_that_it_is_given(old: str, new: str) -> None:
    assert old in PROGRAM
    assert len(found(PROGRAM.replace(old, new))) == 1


def test_its_class_is_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "trainer.py").write_text(TRAINER)
    text = "import torch\nfrom trainer import Trainer\n\n\n" + MAIN
    (tmp_path / "main.py").write_text(text)
    (message,) = found(text, str(tmp_path / "main.py"))
    assert message.startswith("the checkpoint saved on line 21 of trainer.py has")
    assert not found(TRAINER, str(tmp_path / "trainer.py"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("state_dict()}, path)", 'state_dict(), "amp": self.amp.state_dict()}, path)'),
        ('trainer.save("last.pt")', 'trainer.save("last.pt")\n        torch.save(scaler.state_dict(), "scaler.pt")'),
        ('trainer.save("last.pt")', 'trainer.save("last.pt")\n        torch.save(trainer.amp.state_dict(), "s.pt")'),
        ('trainer.save("last.pt")', "trainer.save('last.pt')\n        torch.save(trainer, 'whole.pt')"),
        ("    def save(self, path):", "    def save(self, path):\n        torch.save(vars(self), path)"),
        ("class Trainer:", "class Trainer(Base):"),  # that may save more
        ("self.amp = grad_scaler", "self.amp = grad_scaler\n        self.parts = [grad_scaler]"),
        ("self.amp = grad_scaler", "self.amp = wrap(grad_scaler)"),
        (MADE, "Trainer(*parts(model, optimizer, scaler))"),
        ("    trainer = ", "    keep(scaler)\n    trainer = "),
        ('GradScaler("cuda")', 'GradScaler("cuda", enabled=False)'),
    ],
)
def test_a_scaler_whose_state_may_be_saved(old: str, new: str) -> None:
    assert old in PROGRAM
    assert not found(PROGRAM.replace(old, new))
