"""Functions that are given their scaler: AMP404 where nobody updates it; AMP402 and AMP403 whatever else is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

import amplint

STEP = """\
import torch


def train_step(model, batch, optimizer, criterion, scaler=None):
    inputs, targets = batch
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16, enabled=scaler is not None):
        loss = criterion(model(inputs), targets)
    if scaler is not None:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
    else:
        loss.backward()
        optimizer.step()
    return loss.item()
"""
CALLED = """\


def train(model, loader, optimizer, criterion, scaler):
    for batch in loader:
        train_step(model, batch, optimizer, criterion, scaler)
        scaler.update()
"""
SECOND = """\


def train_other(model, batch, optimizer, grad_scaler):
    optimizer.zero_grad()
    grad_scaler.scale(model(batch).mean()).backward()
    grad_scaler.step(optimizer)
"""
LOOP = """\
import torch


def train(model, loader, optimizer, criterion, scaler):
    for inputs, targets in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(inputs), targets)
        if not torch.isfinite(loss):
            raise ValueError("the loss is not finite")
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scaler.update()
"""
TWO = """\
import torch


def train(loader, model, critic, losses, optimizer_g, optimizer_d, scaler):
    for real in loader:
        optimizer_g.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss_g, fake = losses.of_model(model, critic, real)
        scaler.scale(loss_g).backward()
        scaler.step(optimizer_g)
        optimizer_d.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss_d = losses.of_critic(critic, real, fake)
        {backward}
        scaler.step(optimizer_d)
        scaler.update()
"""


def codes(path: Path, text: str) -> list[tuple[str, str]]:
    path.write_text(text)
    found = amplint.check(text, path, amplint.settings_for(path))
    return [(each.code, each.confidence.value) for each in found]


def test_nobody_updates_the_scaler_that_a_function_is_given(tmp_path: Path) -> None:
    assert codes(tmp_path / "steps.py", STEP) == [("AMP404", "likely")]


@pytest.mark.parametrize("more", [CALLED, SECOND], ids=["the caller updates it", "the first of two steps"])
def test_the_scaler_that_a_function_is_given_is_updated(tmp_path: Path, more: str) -> None:
    assert codes(tmp_path / "steps.py", STEP + more) == []


def test_a_file_that_imports_the_function_updates_its_scaler(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "main.py").write_text(f"from steps import train_step\n{CALLED}")
    assert codes(tmp_path / "steps.py", STEP) == []


def test_whether_the_loss_is_finite_says_nothing_of_its_gradients(tmp_path: Path) -> None:
    assert codes(tmp_path / "loop.py", LOOP) == [("AMP402", "certain")]


@pytest.mark.parametrize(
    "line",
    [
        "# if torch.isnan(norm): raise ValueError",
        "if torch.isnan(norm): print('the norm is nan')",
        "if not torch.isfinite(norm): log.warning('overflow'); print(norm)",
    ],
)
def test_what_is_only_said_of_the_norm_skips_no_step(tmp_path: Path, line: str) -> None:
    text = LOOP.replace("        optimizer.step()\n", f"        {line}\n        optimizer.step()\n")
    assert codes(tmp_path / "loop.py", text) == [("AMP402", "certain")]


def test_who_gets_the_norm_may_skip_the_step(tmp_path: Path) -> None:
    line = "if torch.isnan(norm): state.push(norm)"
    text = LOOP.replace("        optimizer.step()\n", f"        {line}\n        optimizer.step()\n")
    assert codes(tmp_path / "loop.py", text) == []


def test_whether_the_norm_is_finite_is_asked_before_the_step(tmp_path: Path) -> None:
    asks = "        if torch.isfinite(norm):\n            optimizer.step()\n"
    assert codes(tmp_path / "loop.py", LOOP.replace("        optimizer.step()\n", asks)) == []


@pytest.mark.parametrize(
    ("backward", "expected"),
    [("loss_d.backward()", [("AMP403", "certain")]), ("scaler.scale(loss_d).backward()", [])],
)
def test_a_plain_backward_after_a_clear_is_the_optimizers(
    tmp_path: Path, backward: str, expected: list[tuple[str, str]]
) -> None:
    assert codes(tmp_path / "gan.py", TWO.format(backward=backward)) == expected


GIVEN_AWAY = """\
import torch

from states import save


def train(model, loader, optimizer, criterion):
    scaler = torch.amp.GradScaler("cuda")
    for inputs, targets in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        save("last.pt", model, optimizer, scaler)
"""
SAVES = """\
import torch


def save(path, model, optimizer, scaler):
    states = [each.state_dict() for each in (model, optimizer, scaler)]
    torch.save(states, path)
    {last}
"""


@pytest.mark.parametrize(
    ("last", "expected"), [("return path", [("AMP404", "certain")]), ("scaler.update()", [])], ids=["saves", "updates"]
)
def test_a_scaler_is_given_to_code_of_another_file(tmp_path: Path, last: str, expected: list[tuple[str, str]]) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "states").mkdir()
    (tmp_path / "states" / "__init__.py").write_text("from states.files import *\n")
    (tmp_path / "states" / "files.py").write_text(SAVES.format(last=last))
    assert codes(tmp_path / "train.py", GIVEN_AWAY) == expected


@pytest.mark.parametrize(
    ("margin", "expected"), [("    ", [("AMP404", "likely")]), ("        ", [])], ids=["after the loop", "in the loop"]
)
def test_a_scaler_is_given_to_code_out_of_sight(tmp_path: Path, margin: str, expected: list[tuple[str, str]]) -> None:
    text = GIVEN_AWAY.replace("        save(", f"{margin}save(")
    assert codes(tmp_path / "train.py", text) == expected
