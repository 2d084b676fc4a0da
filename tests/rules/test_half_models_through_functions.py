"""AMP217: half models whose optimizer gets parameters in lists, or steps in a function several calls away."""

from __future__ import annotations

import pytest

import amplint

TUNING = """\
import torch
from transformers import AutoModelForCausalLM

from losses import micro_step


def fit(policy, optimizer, loader):
    for batch in loader:
        LOSS
        STEP
        optimizer.zero_grad()


def rounds(policy, optimizer, loader):
    for _ in range(3):
        fit(policy, optimizer, loader)


def main(loader):
    policy = AutoModelForCausalLM.from_pretrained("small", torch_dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-5)
    rounds(policy=policy, optimizer=optimizer, loader=loader)
"""


def found(text: str) -> list[str]:
    return [each.message for each in amplint.check(text, "train.py") if each.code == "AMP217"]


@pytest.mark.parametrize("loss", ["policy(**batch).loss.backward()", "loss, metadata = micro_step(policy(**batch))"])
def test_a_step_several_calls_away(loss: str) -> None:
    (message,) = found(TUNING.replace("LOSS", loss).replace("STEP", "optimizer.step()"))
    assert message.startswith("this cast makes the optimizer on line 21 train bfloat16 parameters")
    assert not found(TUNING.replace("LOSS", loss).replace("STEP", "pass"))


TRAINER = """\
import torch


class Trainer:
    def __init__(self, config, model, other):
        self.model = model.cuda()
        if config.fp16:
            self.model = self.model.half()
        GROUPS
        self.optimizer = torch.optim.AdamW(PARAMS, lr=config.lr)

    def train(self, loader):
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(self.model(x).float(), y)
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
"""
FILLED = """\
decay, plain = [], []
for name, p in MODEL.named_parameters():
    if not p.requires_grad:
        continue
    if p.ndim == 1:
        plain.append(p)
    else:
        decay.append(p)"""


def with_groups(groups: str, params: str) -> list[str]:
    return found(TRAINER.replace("GROUPS", groups.replace("\n", "\n        ")).replace("PARAMS", params))


@pytest.mark.parametrize(
    ("groups", "params"),
    [
        (FILLED, '[{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]'),
        (f'{FILLED}\ngroups = [{{"params": decay}}, {{"params": plain}}]', "groups"),
        (FILLED, "decay + plain"),
        ("named = dict(MODEL.named_parameters())", "[p for p in named.values() if p.requires_grad]"),
        ("params = []\nfor p in MODEL.parameters():\n    params += [p]", "params"),
    ],
)
def test_parameters_in_lists(groups: str, params: str) -> None:
    (message,) = with_groups(groups.replace("MODEL", "self.model"), params)
    assert "train float16 parameters" in message
    assert not with_groups(groups.replace("MODEL", "other"), params)


BUILT = """\
import torch


def make_optimizer(net, options):
    return torch.optim.Adam(net.parameters(), lr=1e-3)


def build(options):
    net = torch.nn.Linear(4, 4)
    optimizer = MADE
    return net, optimizer


def main(options, loader):
    net, optimizer = build(options)
    CAST
    for x in loader:
        net(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    LAST
"""
OF_TORCH = "torch.optim.Adam(net.parameters(), lr=1e-3)"


@pytest.mark.parametrize("made", [OF_TORCH, "make_optimizer(net, options)"])
def test_a_model_that_is_cast_once_it_is_returned_with_its_optimizer(made: str) -> None:
    def said(cast: str, last: str = "pass", made: str = made) -> int:
        return len(found(BUILT.replace("MADE", made).replace("CAST", cast).replace("LAST", last)))

    assert said("if options.small:\n        net = net.half()") == 1
    assert said("net.half()") == 1
    assert said("net.half()\n    net.float()") == 0
    assert said("pass", "net.half()") == 0
    assert said("net.half()", made="torch.optim.Adam(other.parameters())") == 0
    assert said("other, _ = build(options)\n    other.half()") == 0


HANDED = """\
import torch
from torch import nn


def train(model, loader, lr):
    MOVE
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def run(net, loader):
    train(net, loader, 1e-5)


def main(loader):
    net = Net().cuda()
    BEFORE
    net.half()
    AFTER
"""


@pytest.mark.parametrize(
    ("before", "after", "move", "wanted"),
    [
        ("pass", "train(net, loader, 1e-5)", "pass", 1),
        ("pass", "run(net, loader)", "model = model.cuda()", 1),
        ("pass", "train(model=net, loader=loader, lr=1e-5)", "model = nn.DataParallel(model)", 1),
        ("train(net, loader, 1e-5)", "pass", "pass", 0),
        ("pass", "train(Net(), loader, 1e-5)", "pass", 0),
        ("pass", "train(net, loader, 1e-5)", "model = Net()", 0),
        ("pass", "train(net, loader, 1e-5)", "model.float()", 0),
        ("pass", "train(net, loader, 1e-5)", "model.requires_grad_(False)", 0),
    ],
)
def test_a_model_that_a_function_is_given_to_train(before: str, after: str, move: str, wanted: int) -> None:
    text = HANDED.replace("BEFORE", before).replace("AFTER", after).replace("MOVE", move)
    assert [each.code for each in amplint.check(text)].count("AMP217") == wanted
