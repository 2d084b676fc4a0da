"""AMP207 is a warning where nothing is trained: all that a step computes with is random, and nothing is saved."""

from __future__ import annotations

import pytest

from amplint import Severity, check
from amplint.base.findings import Confidence
from amplint.config.settings import Settings

HEAD = """\
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

"""
STEP = """\
def step(model, opt, x, y):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x.cuda()), y)
    loss.backward()
    opt.step()
    opt.zero_grad()

def make_batch(size):
    return torch.rand(size, 16).cuda(), torch.zeros(size, 4).cuda()

def main(model, loader):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    {batch}
    for {target} in {source}:
        step(model, opt, x, y)
"""
BENCH = """\
class Bench:
    def __init__(self, model, loader):
        self.model = model.cuda()
        self.opt = torch.optim.AdamW(self.model.parameters())
        self.x = {batch}

    def more(self):
        return torch.randn(8, 4)

    def load(self):
        return next(iter(self.loader))

    def step(self):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(self.model({given}).flatten(0, 1), self.x[:, 1:].flatten())
        loss.backward()
        self.opt.step()
        self.opt.zero_grad()
        {more}
"""
DATA = """\
class Data(Dataset):
    def __init__(self, path):
        self.x = torch.load(path)

    def __len__(self):
        return 1000

    def __getitem__(self, i):
        return {item}

def main(model, path):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    data = Data(path)
    for x, y in DataLoader({given}, 32):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        opt.zero_grad()
"""


def severity(text: str) -> Severity:
    (found,) = check(HEAD + text, settings=Settings(frozenset({"AMP207"}), isolated=True))
    return found.severity


@pytest.mark.parametrize(
    ("batch", "target", "source", "expected"),
    [
        ("x, y = make_batch(64)", "_", "range(100)", Severity.WARNING),
        ("x, y = torch.randn(8, 16), torch.randn(8, 4)", "_", "range(100)", Severity.WARNING),
        ("x, y = torch.randn(8, 16), read()", "_", "range(100)", Severity.ERROR),
        ("x, y = next(iter(loader))", "_", "range(100)", Severity.ERROR),
        ("pass", "x, y", "loader", Severity.ERROR),
    ],
)
def test_a_function_that_steps(batch: str, target: str, source: str, expected: Severity) -> None:
    assert severity(STEP.format(batch=batch, target=target, source=source)) is expected


@pytest.mark.parametrize(
    ("batch", "given", "more", "expected"),
    [
        ('torch.randint(0, 50, (8, 4), device="cuda")', "self.x[:, :-1]", "pass", Severity.WARNING),
        ("torch.ones(8, 4)", "self.more()", "pass", Severity.WARNING),
        ("torch.ones(8, 4)", "self.load()", "pass", Severity.ERROR),
        ("next(iter(loader))", "self.x", "pass", Severity.ERROR),
        ("torch.ones(8, 4)", "self.x", 'torch.save(self.model.state_dict(), "model.pt")', Severity.ERROR),
    ],
)
def test_a_class_that_steps(batch: str, given: str, more: str, expected: Severity) -> None:
    assert severity(BENCH.format(batch=batch, given=given, more=more)) is expected


@pytest.mark.parametrize(
    ("item", "given", "expected"),
    [
        ("torch.randn(16), torch.randn(16)", "Data(path)", Severity.WARNING),
        ("torch.randn(16), torch.randn(16)", "data", Severity.WARNING),
        ("torch.randn(16), self.x[i]", "Data(path)", Severity.ERROR),
        ("self.x[i], self.x[i]", "data", Severity.ERROR),
        ("torch.randn(16), torch.randn(16)", "Other(path)", Severity.ERROR),
    ],
)
def test_a_dataset_of_the_file(item: str, given: str, expected: Severity) -> None:
    assert severity(DATA.format(item=item, given=given)) is expected


DEMO = """\
import torch

model = torch.nn.Linear(5, 8).cuda()
x = torch.rand(15, 5, device="cuda")
optimizer = torch.optim.AdamW(model.parameters())
with torch.autocast("cuda", dtype=torch.float16):
    y = model(x)
    for name, param in model.named_parameters():
        print(name, param.dtype)
    loss = y.mean() ** 2
    print("loss", loss.dtype)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("old", "new", "confidence"),
    [
        ("", "", Confidence.SUSPICION),
        # Data, a loop, or a file that is kept: it trains.
        ("torch.rand(15, 5", "load(15, 5", Confidence.CERTAIN),
        ("with torch.autocast", "for step in range(9):\n  with torch.autocast", Confidence.CERTAIN),
        ("    optimizer.step()", "    optimizer.step()\ntorch.save(model, 'x.pt')", Confidence.CERTAIN),
    ],
)
def test_a_script_that_steps_once_on_random_data(old: str, new: str, confidence: Confidence) -> None:
    assert old in DEMO
    settings = Settings(frozenset({"AMP207", "AMP301"}), isolated=True, suspicions=True)
    told = check(DEMO.replace(old, new), "demo.py", settings)
    assert {each.code: each.confidence for each in told} == {"AMP207": confidence, "AMP301": confidence}
