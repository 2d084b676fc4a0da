"""Misuses that are planted in a right training file: each is one, and amplint finds it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.field import planted

RIGHT = """\
import torch
from torch.amp import GradScaler, autocast


def train(model, loader, criterion, path):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = GradScaler("cuda")
    if path is not None:
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scaler.load_state_dict(state["scaler"])
    for inputs, targets in loader:
        optimizer.zero_grad()
        with autocast("cuda"):
            loss = criterion(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    states = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scaler": scaler.state_dict(),
    }
    torch.save(states, "last.pt")
"""
KINDS = {
    "no unscale_",
    "clip before unscale_",
    "unscale_ twice",
    "no update",
    "step past the scaler",
    "backward of the unscaled loss",
    "no zero_grad",
    "no region",
    "backward in the region",
    "bfloat16 with a scaler",
    "scaler not in the checkpoint",
    "scaler not loaded",
    "clip after the step",
    "cleared before the step",
    "scaled loss thrown away",
    "scaler made in the loop",
}
ACCUMULATED = """\
import torch


def train(model, loader, optimizer, scaler, count):
    for i, (inputs, targets) in enumerate(loader):
        with torch.autocast("cuda"):
            loss = torch.nn.functional.cross_entropy(model(inputs), targets) / count
        scaler.scale(loss).backward()
        if (i + 1) % count == 0:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""
OF_MICRO_STEPS = ("unscale_ on micro steps", "update on micro steps")


def test_each_kind_is_planted_and_parses() -> None:
    texts = {each.kind: each.text for each in planted.planted(RIGHT)}
    assert texts.keys() == KINDS
    for text in texts.values():
        assert text != RIGHT
        ast.parse(text)


def test_what_is_planted_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text(RIGHT)
    (tmp_path / "other.py").write_text("import torch\n")
    missed = [each.kind for each in planted.outcomes(tmp_path / "train.py") if not each.found]
    assert missed == []
    assert planted.main([str(tmp_path), "--missed"]) == 0
    assert capsys.readouterr().out.endswith(f"| all | {len(KINDS)} | {len(KINDS)} |\n")


@pytest.mark.parametrize("kind", OF_MICRO_STEPS)
def test_what_is_planted_in_an_accumulation_is_found(tmp_path: Path, kind: str) -> None:
    (tmp_path / "train.py").write_text(ACCUMULATED)
    (outcome,) = planted.outcomes(tmp_path / "train.py", {kind})
    assert outcome.found


@pytest.mark.parametrize("text", ["def broken(:", "import torch\n", RIGHT.replace("scaler", "thing.attribute")[:300]])
def test_nothing_is_planted_without_a_scaler(text: str) -> None:
    assert list(planted.planted(text)) == []
