"""AMP404: an update outside of a loop that runs once by default is missing only with another setting, or with none."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence, Finding
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP404"}), isolated=True, target_torch="2.4")
PROGRAM = """
import argparse

import torch


def train(args, d, g, d_opt, g_opt, data):
    scaler = torch.amp.GradScaler("cuda")
    for x in data:
        for _ in range({0}):
            d_opt.zero_grad()
            with torch.autocast("cuda"):
                loss = d(x).mean()
            scaler.scale(loss).backward()
            scaler.step(d_opt)
        g_opt.zero_grad()
        with torch.autocast("cuda"):
            loss = g(x).mean()
        scaler.scale(loss).backward()
        scaler.step(g_opt)
        scaler.update()


parser = argparse.ArgumentParser()
parser.add_argument("--critics", type=int, default={1})
args = parser.parse_args()
train(args, *make())
"""


def found(rounds: str, default: int) -> Finding:
    (finding,) = check(PROGRAM.format(rounds, default), "a.py", SETTINGS)
    return finding


def test_a_loop_that_runs_once_by_default() -> None:
    finding = found("args.critics", 1)
    assert finding.message.startswith("if `args.critics` is more than 1 (by default it is 1), ")
    assert finding.confidence is Confidence.LIKELY


def test_a_loop_that_runs_several_times() -> None:
    for rounds, default in ("args.critics", 5), ("5", 1), ("args.others", 1):
        finding = found(rounds, default)
        assert finding.message.startswith("this call raises")
        assert finding.confidence is Confidence.CERTAIN


GIVEN = """\
import torch


def make(params, name):
    if name == "adam":
        return torch.optim.Adam(params)
    if name != "sgd":
        raise ValueError(name)
    return torch.optim.SGD(params, lr=0.1)


def run(model, critic, loader, optimizer, other):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        with torch.autocast("cuda"):
            loss = critic(x).sum()
        scaler.scale(loss).backward()
        scaler.unscale_(other)
        scaler.step(other)
        other.zero_grad()
        if optimizer is not None:
            with torch.autocast("cuda"):
                loss = model(x).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            optimizer.zero_grad()
            scaler.update()


def main(model, critic, loader, name):
    {made}
    run(model, critic, loader, optimizer, torch.optim.SGD(critic.parameters(), lr=0.1))
"""


@pytest.mark.parametrize(
    ("made", "confidence"),
    [
        ("optimizer = make(model.parameters(), name)", Confidence.SUSPICION),
        ("optimizer = make(model.parameters(), name) if name else None", Confidence.LIKELY),
    ],
)
def test_a_parameter_that_each_call_gives_is_not_none(made: str, confidence: Confidence) -> None:
    found = check(GIVEN.format(made=made), "train.py", SETTINGS._replace(suspicions=True))
    assert [each.confidence for each in found if each.code == "AMP404"] == [confidence]
