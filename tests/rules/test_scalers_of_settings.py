"""AMP201: a scaler that a class of settings enables, whose objects are created by device."""

from __future__ import annotations

from pathlib import Path

import pytest

import amplint
from amplint.base.findings import Confidence

TEXT = """\
from dataclasses import dataclass

import torch


@dataclass
class Precision:
    dtype: torch.dtype | None
    scaled: bool
    place: str = "cuda"


def choose(name: str, device: torch.device) -> Precision:
    if name == "full":
        return Precision(None, False, device.type)
    if name == "bfloat16":
        return Precision(torch.bfloat16, OTHER, device.type)
    GUARD
    return Precision(torch.float16, scaled=True)


def new_scaler(precision: Precision):
    return torch.amp.GradScaler(enabled=precision.scaled)


def step(model, batch, optimizer, precision: Precision, scaler):
    with torch.autocast(precision.place, dtype=precision.dtype):
        loss = model(batch).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
ONLY_CUDA = 'if device.type != "cuda":\n        raise ValueError(name)'


def found(folder: Path, guard: str, other: str = "False") -> list[amplint.Finding]:
    (folder / "pyproject.toml").touch()
    path, text = folder / "precision.py", TEXT.replace("GUARD", guard).replace("OTHER", other)
    path.write_text(text)
    settings = amplint.settings_for(path)._replace(suspicions=True)
    return [each for each in amplint.check(text, path, settings) if each.code == "AMP201"]


def test_other_devices_have_raised(tmp_path: Path) -> None:
    assert found(tmp_path, ONLY_CUDA) == []


@pytest.mark.parametrize(
    ("guard", "other"),
    [
        ("pass", "False"),
        (ONLY_CUDA, "True"),
        ('if device.type == "mps":\n        raise ValueError(name)', "False"),
        ('if device.type != "cuda":\n        print(name)', "False"),
    ],
)
def test_it_may_be_on_elsewhere(tmp_path: Path, guard: str, other: str) -> None:
    assert len(found(tmp_path, guard, other)) == 1


def test_another_file_may_create_others(tmp_path: Path) -> None:
    own = "from precision import Precision, new_scaler\n\nscaler = new_scaler(Precision(None, True))\n"
    (tmp_path / "main.py").write_text(own)
    (finding,) = found(tmp_path, ONLY_CUDA)
    assert finding.confidence is Confidence.LIKELY
