"""Updates that the step which lacks one never gets to: they are no reason for silence (AMP404)."""

from __future__ import annotations

from pathlib import Path

import pytest

import amplint

WRAPPER = """\
import torch


class Scaled:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, optimizer, parameters, limit=None, update_grad=True):
        self.scaler.scale(loss).backward()
        if not update_grad:
            return None
        self.scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        if limit is not None and norm > limit:
            {early}
            return norm
        self.scaler.step(optimizer)
        {late}
        return norm
"""
MODES = """\
import torch


class Scaled:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def run(self, optimizer, mode):
        if mode == "update":
            self.scaler.update()
            return
        self.scaler.step(optimizer)
"""
QUEUE = """\
import torch
from queue import Empty


def worker(model, optimizer, batches, notices, stop):
    scaler = torch.amp.GradScaler("cuda")
    seen = 0
    while not stop.is_set():
        try:
            while True:
                seen += len(notices.get_nowait())
        except Empty:
            pass
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(batches.get()).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        {update}
"""
BASE = """\
import torch


class Agent:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    def learn(self, batch):
        self.optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = self.model(batch).mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        {update}
"""
EXTENDED = """\
import torch
from base import Agent


class Careful(Agent):
    def {name}(self, batch):
        {first}
        self.optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = self.model(batch).square().mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        {update}
"""
UPDATE = "self.scaler.update()"


def codes(path: Path, text: str) -> list[tuple[str, str]]:
    path.write_text(text)
    found = amplint.check(text, path, amplint.settings_for(path))
    return [(each.code, each.confidence.value) for each in found]


@pytest.mark.parametrize(
    ("early", "late", "expected"),
    [
        (UPDATE, "pass", [("AMP404", "certain")]),
        ("pass", UPDATE, [("AMP404", "likely")]),
        (UPDATE, UPDATE, []),
    ],
)
def test_an_update_before_an_early_return(
    tmp_path: Path, early: str, late: str, expected: list[tuple[str, str]]
) -> None:
    assert codes(tmp_path / "wrapper.py", WRAPPER.format(early=early, late=late)) == expected


def test_an_exception_ends_the_training(tmp_path: Path) -> None:
    text = WRAPPER.format(early="raise RuntimeError", late=UPDATE)
    assert codes(tmp_path / "wrapper.py", text) == []


def test_an_update_that_a_call_of_its_own_runs(tmp_path: Path) -> None:
    assert codes(tmp_path / "modes.py", MODES) == []


@pytest.mark.parametrize(("update", "expected"), [("pass", [("AMP404", "certain")]), ("scaler.update()", [])])
def test_a_queue_is_emptied_between_two_steps(tmp_path: Path, update: str, expected: list[tuple[str, str]]) -> None:
    assert codes(tmp_path / "worker.py", QUEUE.format(update=update)) == expected


@pytest.mark.parametrize(
    ("name", "first", "expected"),
    [
        ("learn", "pass", [("AMP404", "certain")]),
        ("learn", "super().learn(batch)", []),
        ("learn_more", "self.learn(batch)", []),
    ],
)
def test_the_file_of_a_subclass_updates(tmp_path: Path, name: str, first: str, expected: list[tuple[str, str]]) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "careful.py").write_text(EXTENDED.format(name=name, first=first, update=UPDATE))
    assert codes(tmp_path / "base.py", BASE.format(update="pass")) == expected


@pytest.mark.parametrize(
    ("name", "first", "update", "expected"),
    [
        ("learn", "pass", "pass", [("AMP404", "likely")]),
        ("learn", "pass", UPDATE, []),
        ("learn", "super().learn(batch)", "pass", []),
        ("learn_more", "pass", "pass", []),
    ],
)
def test_the_scaler_of_the_base_class_steps(
    tmp_path: Path, name: str, first: str, update: str, expected: list[tuple[str, str]]
) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "base.py").write_text(BASE.format(update=UPDATE))
    assert codes(tmp_path / "careful.py", EXTENDED.format(name=name, first=first, update=update)) == expected


@pytest.mark.parametrize(
    ("main", "expected"),
    [
        ("scaler.update()", [("AMP404", "likely")]),
        ("perturbed.scaler.update()", []),
    ],
)
def test_the_class_is_given_the_class_of_its_scaler(tmp_path: Path, main: str, expected: list[tuple[str, str]]) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "main.py").write_text(
        "import torch\nfrom base import Agent\n\n\ndef train(model, batches, scaler):\n"
        "    perturbed = Agent(model, torch.cuda.amp.GradScaler)\n"
        f"    for batch in batches:\n        perturbed.learn(batch)\n        {main}\n"
    )
    base = BASE.format(update="pass").replace("self, model)", "self, model, GradScaler)")
    base = base.replace('torch.amp.GradScaler("cuda")', "GradScaler()")
    assert codes(tmp_path / "base.py", base) == expected
