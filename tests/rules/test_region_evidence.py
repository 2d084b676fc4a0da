"""How sure AMP301, AMP302 and AMP309 are: what the model of the region is seen to hold, and who uses its gradients."""

from __future__ import annotations

import pytest

from amplint import Severity, check
from amplint.base.findings import Confidence
from amplint.config.settings import Settings

FUNCTION = """\
import torch
from torch import nn


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def overlap(a, b):
    return Scale.apply(a) - b


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return {forward}


def evaluate(net, x, y):
    return overlap(net(x), y)


def train(loader):
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = {loss}
            loss.backward()
        opt.step()
        opt.zero_grad()
"""


@pytest.mark.parametrize(
    ("forward", "loss", "expected"),
    [
        ("self.layer(x)", "(net(x) - y).mean()", Severity.WARNING),
        ("self.layer(x)", "overlap(net(x), y).mean()", Severity.ERROR),
        ("self.layer(x)", "(overlap(net(x), y) if y is not None else net(x)).mean()", Severity.WARNING),
        ("self.layer(x)", "Scale.apply(net(x)).mean()", Severity.ERROR),
        ("Scale.apply(self.layer(x))", "(net(x) - y).mean()", Severity.ERROR),
        ("overlap(self.layer(x), 1)", "(net(x) - y).mean()", Severity.ERROR),
    ],
)
def test_a_function_counts_where_the_region_reaches_it(forward: str, loss: str, expected: Severity) -> None:
    text = FUNCTION.format(forward=forward, loss=loss)
    (found,) = check(text, settings=Settings(frozenset({"AMP301"}), isolated=True))
    assert found.severity is expected
    assert ("custom Functions and" in found.message) is (expected is Severity.WARNING)


TAIL = """\
import torch


def train(net, opt, x, y, steps):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        {before}
        loss = (net(x) - y).mean()
        loss.backward()
        opt.step()
        {tail}
"""


@pytest.mark.parametrize("tail", ["net.reset_state(x)", "net.module.log(x)", "net.set_epoch(steps)"])
def test_a_method_of_a_model_is_not_a_forward(tail: str) -> None:
    text = TAIL.format(before=tail, tail=tail)
    (found,) = check(text, settings=Settings(frozenset({"AMP301", "AMP302"}), isolated=True))
    assert "still uses the weights from before the step" not in found.message
    assert found.fix is None or "new region" not in found.fix.message


@pytest.mark.parametrize(
    ("tail", "opened"),
    [("out = net(x)", True), ("out = x @ y", True), ("net.reset_state()", False), ("steps = steps // 2", False)],
)
def test_a_region_is_opened_again_only_round_a_forward(tail: str, opened: bool) -> None:
    (found,) = check(
        TAIL.format(before="pass", tail=tail), settings=Settings(frozenset({"AMP301", "AMP302"}), isolated=True)
    )
    assert (found.fix is not None) is opened
    assert opened or "amplint sees no forward pass in the rest" in (found.withheld or "")


CAST = """\
import torch
from torch import nn

def train(loader):
    net, other = nn.Linear(4, 4), nn.Linear(4, 4)
    {cast}
    opt = torch.optim.Adam(net.parameters())
    other.eval()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        for x in loader:
            loss = net(x).mean()
            loss.backward()
            opt.step()
            opt.zero_grad()
"""


@pytest.mark.parametrize(
    ("cast", "expected"),
    [
        ("pass", Confidence.CERTAIN),
        ("net.to(dtype=torch.bfloat16)", None),
        ("net.bfloat16()", None),
        ("net = net.half()", None),
        ('net.to("cuda", torch.bfloat16)', None),
        ("net.bfloat16(); net.float()", Confidence.CERTAIN),
        ("other.bfloat16()", Confidence.LIKELY),
        ("x = torch.ones(4); x = x.to(torch.bfloat16)", Confidence.CERTAIN),
    ],
)
def test_309_is_silent_over_half_weights(cast: str, expected: Confidence | None) -> None:
    found = check(CAST.format(cast=cast), settings=Settings(frozenset({"AMP309"}), isolated=True))
    assert [each.confidence for each in found] == ([expected] if expected else [])


TIMED = """\
import time
import torch


def clock():
    torch.cuda.synchronize()
    return time.perf_counter()


def measure(model, x, opt=None):
    start = {clock}
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(x).mean()
        loss.backward()
    {more}
    return {clock} - start
"""


@pytest.mark.parametrize(
    ("clock", "more", "expected"),
    [
        ("time.time()", "pass", Confidence.SUSPICION),
        ("clock()", "pass", Confidence.SUSPICION),
        ("torch.cuda.Event(enable_timing=True)", "pass", Confidence.SUSPICION),
        ("time.time()", "opt.step()", Confidence.CERTAIN),
        ("time.time()", "opt.zero_grad()", Confidence.CERTAIN),
        ("time.time()", "print(model.weight.grad)", Confidence.CERTAIN),
        ("0", "pass", Confidence.CERTAIN),
    ],
)
def test_a_backward_that_is_only_timed_is_a_suspicion(clock: str, more: str, expected: Confidence) -> None:
    text = TIMED.format(clock=clock, more=more)
    (found,) = check(text, settings=Settings(frozenset({"AMP301"}), isolated=True, suspicions=True))
    assert found.confidence is expected
