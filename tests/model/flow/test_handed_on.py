"""AMP411: what a helper that is given the trainer, or its model, may clear: followed where it is in sight."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check

TOOLS = """\
def note(model, loss):
    print(type(model).__name__, loss.item())

def look(owner):
    print(owner.count, owner.model)

def clear(owner):
    owner.optimizer.zero_grad()

def clear_model(model):
    for p in model.parameters():
        p.grad = None

def through(owner):
    owner.reset()
"""
TRAINER = """\
import torch
from tools import clear, clear_model, look, note, through
from elsewhere import other

class Trainer:
    def __init__(self, model):
        self.model = model
        self.count = 0
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    def reset(self):
        {reset}

    def fit(self, loader):
        for x in loader:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = self.model(x).mean()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            {last}
"""


def found(folder: Path, last: str, reset: str) -> int:
    text = TRAINER.format(last=last.replace("\n", "\n            "), reset=reset)
    for name, code in {"pyproject.toml": "", "tools.py": TOOLS, "main.py": text}.items():
        (folder / name).write_text(code)
    return sum(each.code == "AMP411" for each in check(text, str(folder / "main.py")))


@pytest.mark.parametrize(
    ("last", "reset"),
    [
        ("pass", "pass"),
        ("note(self.model, loss)", "pass"),
        ("look(self)", "pass"),
        ("through(self)", "self.count = 0"),
        ("other(loss.item())", "pass"),
        ("self.model.train()\nprint(self.model)", "pass"),
    ],
)
def test_what_clears_nothing_hides_nothing(tmp_path: Path, last: str, reset: str) -> None:
    assert found(tmp_path, last, reset) == 1


@pytest.mark.parametrize(
    ("last", "reset"),
    [
        ("clear(self)", "pass"),
        ("me = self\nclear(me)", "pass"),
        ("clear_model(self.model)", "pass"),
        ("through(self)", "self.optimizer.zero_grad()"),
        ("me = self\nthrough(me)", "self.optimizer.zero_grad()"),
        ("other(self)", "pass"),  # out of sight: it may clear
        ("me = self\nother(me)", "pass"),
        ("other(self.model)", "pass"),
        ("net = self.model\nother(net)", "pass"),
    ],
)
def test_what_clears_or_may_clear(tmp_path: Path, last: str, reset: str) -> None:
    assert found(tmp_path, last, reset) == 0


def test_a_helper_of_the_file_that_calls_a_method_of_what_it_is_given() -> None:
    text = TRAINER.format(last="through(self)", reset="self.optimizer.zero_grad()") + "\n" + TOOLS
    text = text.replace("from tools import clear, clear_model, look, note, through\n", "")
    assert not any(each.code == "AMP411" for each in check(text))


WRAPPER = """\
import torch

class Wrapped:
    def __init__(self, model):
        self.count = 0
        self.inner = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(self):
        self.count += 1
        self.inner.step()

    def zero_grad(self):
        {clears}

def train(model, loader, k):
    wrapped = Wrapped(model)
    scaler = torch.amp.GradScaler("cuda")

    def flush():
        scaler.unscale_(wrapped)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(wrapped)
        scaler.update()
        wrapped.zero_grad()

    for i, x in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean() / k
        scaler.scale(loss).backward()
        if (i + 1) % k == 0:
            flush()
    if len(loader) % k != 0:
        flush()
"""


@pytest.mark.parametrize(
    ("clears", "is_right"),
    [
        ("self.inner.zero_grad()", True),
        ("self.inner.zero_grad(set_to_none=True)", True),
        ("self.count = 0", False),
        ("print(self.count)", False),
    ],
)
def test_what_wraps_an_optimizer_and_is_stepped_clears_what_it_holds(clears: str, is_right: bool) -> None:
    codes = {each.code for each in check(WRAPPER.format(clears=clears))}
    assert (not codes & {"AMP405", "AMP406", "AMP410", "AMP411"}) is is_right
