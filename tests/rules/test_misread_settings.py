"""AMP218: settings that are only talked about, and settings that are looked for in the wrong place."""

from __future__ import annotations

from pathlib import Path

import pytest

import amplint

ANNOUNCED = """\
import torch


class Trainer:
    def __init__(self, model, settings):
        self.model, self.device = model, settings["device"]
        self.use_amp = settings.get("use_amp", False)
        if self.use_amp and self.device == "mps":
            print("no mixed precision on mps")
            self.use_amp = False
        elif self.use_amp:
            print("mixed precision is on")
        OTHER

    def step(self, batch, optimizer):
        INSIDE
        loss.backward()
        optimizer.step()
"""


def codes(folder: Path, text: str) -> list[str]:
    (folder / "pyproject.toml").touch()
    path = folder / "train.py"
    path.write_text(text)
    return [each.code for each in amplint.check(text, path, amplint.settings_for(path))]


def announced(folder: Path, other: str = "pass", inside: str = "loss = self.model(batch)") -> list[str]:
    return codes(folder, ANNOUNCED.replace("OTHER", other).replace("INSIDE", inside))


@pytest.mark.parametrize("other", ["pass", "print(f'amp: {self.use_amp}')", "self.precision = 5"])
def test_a_setting_that_is_only_talked_about(tmp_path: Path, other: str) -> None:
    assert announced(tmp_path, other) == ["AMP218"]


@pytest.mark.parametrize(
    ("other", "inside"),
    [
        ("self.model.prepare(self.use_amp)", "loss = self.model(batch)"),
        ("self.half = settings['use_amp']", "loss = self.model(batch)"),
        ("pass", "loss = self.model(batch, half=self.use_amp)"),
        ("pass", "with torch.autocast('cuda'):\n            loss = self.model(batch)"),
        ("if self.use_amp:\n            model.cast()", "loss = self.model(batch)"),
    ],
)
def test_a_setting_that_something_may_follow(tmp_path: Path, other: str, inside: str) -> None:
    assert "AMP218" not in announced(tmp_path, other, inside)


def test_a_class_that_extends_it_may_follow_it(tmp_path: Path) -> None:
    own = "from train import Trainer\n\n\nclass Own(Trainer):\n    def fast(self):\n        return self.use_amp\n"
    (tmp_path / "own.py").write_text(own)
    assert announced(tmp_path) == []


def test_another_file_reads_the_setting_by_its_key(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("def build(settings):\n    return settings.get('use_amp')\n")
    assert announced(tmp_path) == ["AMP218"]  # the program has nothing to do with that file
    (tmp_path / "main.py").write_text("from net import build\nfrom train import Trainer\n")
    assert announced(tmp_path) == []


BESIDE = """\
import torch

DEFAULTS = {
    "model": {"name": "unet"},
    "data": {"batch": 8},
    "training": {"epochs": 10, "use_amp": True},
    TOP
}


def train(config, model, loader, optimizer):
    use_amp = READ
    scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
    for batch in loader[: config["data"]["batch"]]:
        with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
            loss = model(batch, config["model"]["name"])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def main(model, loader, optimizer, config=None):
    config = config or DEFAULTS
    SET
    train(config, model, loader, optimizer)
"""


def beside(folder: Path, read: str, top: str = "", set_: str = "pass") -> list[str]:
    return codes(folder, BESIDE.replace("READ", read).replace("TOP", top).replace("SET", set_))


@pytest.mark.parametrize("set_", ["pass", 'config["training"]["use_amp"] = False'])
def test_looked_for_beside_its_section(tmp_path: Path, set_: str) -> None:
    assert beside(tmp_path, 'config.get("use_amp", True)', set_=set_) == ["AMP218"]


@pytest.mark.parametrize(
    ("read", "top", "set_"),
    [
        ('config["training"].get("use_amp", True)', "", "pass"),
        ('config.get("use_amp", True)', '"use_amp": False', "pass"),
        ('config.get("use_amp", True)', "", 'config["use_amp"] = False'),
        ('config.get("use_amp", config["training"]["use_amp"])', "", "pass"),
        ('config["training"]["use_amp"]', "", "pass"),
        ('config.get("use_amp", True)', "", 'return train(config["training"], model, loader, optimizer)'),
    ],
)
def test_where_it_is(tmp_path: Path, read: str, top: str, set_: str) -> None:
    assert beside(tmp_path, read, top, set_) == []


def test_what_a_program_writes_down_is_no_configuration(tmp_path: Path) -> None:
    text = BESIDE.replace("READ", 'config.get("use_amp", True)').replace("SET", "pass").replace("    TOP\n", "")
    assert codes(tmp_path, text.replace('"use_amp": True', '"use_amp": torch.cuda.is_available()')) == []
