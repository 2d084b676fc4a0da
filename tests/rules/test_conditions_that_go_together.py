"""AMP210: an object that is there is true, so that `if model` and `if model is not None` ask the same."""

from __future__ import annotations

import textwrap

import pytest

from amplint import check
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP210"}), isolated=True, target_torch="2.4", suspicions=True)
PROGRAM = """\
import torch
from torch import nn
from elsewhere import Unseen

class Net(nn.Module):
    def forward(self, x):
        return x

class Counted(nn.Module):
    def __len__(self):
        return 0

def train(args, batches):
    use_amp = args.amp and torch.cuda.is_available()
    net = {made}
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1) if net is not None else None
    scaler = torch.amp.GradScaler("cuda") if {condition} else None
    for x, y in batches:
        if {asked}:
            optimizer.zero_grad()
            with torch.autocast("cuda", enabled=use_amp):
                loss = nn.functional.cross_entropy(net(x), y)
            if scaler:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            else:
                loss.backward()
                optimizer.step()
"""
MADE = [
    "Net() if args.gan else None",
    "Net().to(args.device) if args.gan else None",
    "nn.Linear(3, 3).cuda() if args.gan else None",
    "torch.compile(Net()) if args.gan else None",
    "Unseen(args.channels) if args.gan else None",
    "nn.DataParallel(Unseen(3).train()) if args.gan else None",
]


def found(made: str, condition: str = "use_amp and net", asked: str = "net is not None") -> list[str]:
    text = PROGRAM.format(made=made, condition=condition, asked=asked)
    return [each.code for each in check(text, settings=SETTINGS)]


@pytest.mark.parametrize("made", MADE)
def test_a_model_that_is_there_is_true(made: str) -> None:
    assert found(made) == []
    assert found(made, "net and use_amp", "net is not None and optimizer is not None") == []
    assert found(made, "use_amp and net is not None", "net") == []
    assert found(made, "use_amp and optimizer", "optimizer is not None") == []


@pytest.mark.parametrize("made", MADE)
def test_another_option_decides(made: str) -> None:
    assert found(made, "use_amp and net and args.full") == ["AMP210"]
    assert found(made, "net and args.full", "net") == ["AMP210"]


@pytest.mark.parametrize("made", ["Counted() if args.gan else None", "nn.Sequential(nn.ReLU()) if args.gan else None"])
def test_what_has_a_length_can_be_there_and_false(made: str) -> None:
    assert found(made) == ["AMP210"]


PARAMETERS = """\
import torch
from torch import nn

def step(net, optimizer, scaler, loss_of, x, use_amp):
    with torch.autocast("cuda", enabled={on}):
        loss = loss_of(net(x))
    if {asked}:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    else:
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("on", "asked"), [("bool(scaler)", "scaler is not None"), ("scaler is not None", "scaler")])
def test_a_scaler_that_is_a_parameter(on: str, asked: str) -> None:
    text = textwrap.dedent(PARAMETERS.format(on=on, asked=asked))
    assert [each.code for each in check(text, settings=SETTINGS)] == []
    always = textwrap.dedent(PARAMETERS.format(on="True", asked=asked))
    assert [each.code for each in check(always, settings=SETTINGS._replace(suspicions=True))] == ["AMP210"]
