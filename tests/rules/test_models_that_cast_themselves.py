"""AMP217: a model that its own constructor casts, or a method that the constructor calls."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence
from amplint.config.settings import Settings

TEXT = """\
import torch


class Net(torch.nn.Module):
    def __init__(self, args):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)
        {cast}

    def make_half(self):
        self.half()
        for layer in self.modules():
            layer.half()

    def forward(self, x):
        return self.fc(x)


class Agent:
    def __init__(self, args):
        self.net = Net(args){after}
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3)

    def learn(self, x, y):
        loss = torch.nn.functional.mse_loss(self.net(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""
ASKED = 'if args.precision == "half":\n            self.make_half()'


@pytest.mark.parametrize(
    ("cast", "after", "begins", "confidence"),
    [
        ("self.make_half()", "", "this cast", Confidence.CERTAIN),
        ("self.half()", "", "this cast", Confidence.CERTAIN),
        (ASKED, "", 'if `args.precision == "half"`, this cast', Confidence.LIKELY),
        ("pass", "", None, None),
        ("self.make_half()", ".float()", None, None),
    ],
)
def test_who_casts(cast: str, after: str, begins: str | None, confidence: Confidence | None) -> None:
    found = check(TEXT.format(cast=cast, after=after), settings=Settings(frozenset({"AMP217"}), isolated=True))
    assert [each.confidence for each in found] == ([confidence] if confidence is not None else [])
    assert all(each.message.startswith(str(begins)) for each in found)


MAIN = """\
import torch


def train(model, loader):
    model.half()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    train(torch.nn.Linear(8, 8), [])
"""


def test_how_the_file_is_started_is_not_a_setting() -> None:
    (finding,) = check(MAIN, settings=Settings(frozenset({"AMP217"}), isolated=True))
    assert finding.message.startswith("this cast")


PARTS = """\
import torch


def train(model, loader):
    model.first = model.first.to(torch.float16)
    model.second = model.second.to(torch.float16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_parts_of_one_model_are_one_finding() -> None:
    (finding,) = check(PARTS, settings=Settings(frozenset({"AMP217"}), isolated=True))
    assert PARTS.count("\n", 0, finding.start) == 4
