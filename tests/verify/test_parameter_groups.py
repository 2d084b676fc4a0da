"""Groups of parameters that functions out of sight make, and that are added: what an optimizer gets are parameters."""

from __future__ import annotations

from itertools import product

import pytest

pytest.importorskip("torch")

from amplint.verify.steps.judge import RIGHT, WRONG
from tests import some
from tests.conftest import KeptWorker
from tests.interpreting import Ran, interpret

STEP = """
import torch
from groups import groups
from torch import nn


class Trainer:
    def __init__(self, model, decay):
        self.model = model
        last = groups(model.last, decay)
        if model.is_frozen:
            self.optimizer = torch.optim.AdamW(last)
        else:
            first = groups(model.first, decay)
            self.optimizer = torch.optim.AdamW(GIVEN)

    def train(self, loader, scaler):
        for x, y in loader:
            self.optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = nn.functional.mse_loss(self.model(x), y)
            scaler.scale(loss).backward()
            UNSCALE
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            scaler.step(self.optimizer)
            scaler.update()
"""


def ran(given: str, unscale: str) -> Ran:
    (found,) = interpret(STEP.replace("GIVEN", given).replace("UNSCALE", unscale))
    return found


@pytest.mark.parametrize("given", ["first + last", "last + first", "params=last + first", "[*first, *last]"])
def test_an_optimizer_of_added_groups(given: str) -> None:
    assert ran(given, "scaler.unscale_(self.optimizer)").judged.state == RIGHT
    assert ran(given, "pass").judged.state == WRONG


def test_an_error_of_amplint_is_not_said_to_be_the_program_s() -> None:
    worker = KeptWorker("")
    worker.wait_until_ready()
    told = worker.ask({"ask": "steps", "timeout": 60.0, "memory": 2048})  # says nothing of a file
    worker.kill()
    assert told["failed"].startswith("an error of amplint's own, not of the program: KeyError")


HELPER = """
import torch
from helpers import add_weight_decay

def train(loader, args):
    net = create_model(args)
    net.to("cuda")
    CHOICE
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        with torch.autocast("cuda"):
            loss = torch.nn.functional.cross_entropy(net(x), y)
        CLEAR
        scaler.scale(loss).backward()
        UNSCALE
        torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm=1)
        scaler.step(optimizer)
        scaler.update()
"""
CHOSEN = "if args.filter:\n        parameters = CALL\n    else:\n        parameters = net.parameters()"
CALLS = [
    "add_weight_decay(net, args.wd)",
    "add_weight_decay(model=net)",
    "add_weight_decay([net], args)",
    "add_weight_decay(args)",
]


CLEARS = ("net.zero_grad()", "optimizer.zero_grad()")


@pytest.mark.parametrize(
    ("choice", "call", "clear"),
    # Each pair with one way to clear; with AMPLINT_TEST_ALL=1 with both.
    [
        each
        for pair in product([CHOSEN, "parameters = CALL"], CALLS)
        for each in some([(*pair, clear) for clear in CLEARS], 1)
    ],
)
def test_parameters_that_a_helper_returns_are_those_of_the_model(choice: str, call: str, clear: str) -> None:
    text = HELPER.replace("CHOICE", choice).replace("CALL", call).replace("CLEAR", clear)
    (right,) = interpret(text.replace("UNSCALE", "scaler.unscale_(optimizer)"))
    assert right.judged.state == RIGHT
    (wrong,) = interpret(text.replace("UNSCALE", "pass"))
    assert wrong.shown == {"gradient"}


def test_a_model_that_the_optimizer_does_not_have() -> None:
    text = HELPER.replace("CHOICE", "other = create_model(args)\n    parameters = other.parameters()")
    (found,) = interpret(text.replace("UNSCALE", "scaler.unscale_(optimizer)").replace("CLEAR", "net.zero_grad()"))
    assert found.judged.state == WRONG


PAIR = """
import torch
from helpers import groups

def train(loader, args):
    first, second = create(args), create(args)
    one = torch.optim.AdamW(groups(first, args.wd))
    two = torch.optim.AdamW(groups(second, args.wd))
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        with torch.autocast("cuda"):
            loss = torch.nn.functional.cross_entropy(second(first(x)), y)
        one.zero_grad()
        two.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(one)
        scaler.unscale_(UNSCALED)
        torch.nn.utils.clip_grad_norm_(first.parameters(), max_norm=1)
        torch.nn.utils.clip_grad_norm_(second.parameters(), max_norm=1)
        scaler.step(one)
        scaler.step(two)
        scaler.update()
"""


def test_each_optimizer_has_the_parameters_of_its_own_model() -> None:
    (right,) = interpret(PAIR.replace("UNSCALED", "two"))
    assert right.judged.state == RIGHT
    (wrong,) = interpret(PAIR.replace("        scaler.unscale_(UNSCALED)\n", ""))
    assert wrong.judged.state == WRONG


SORTED = """
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

class Loss(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, classes))

def build(model, lr):
    decay, rest = [], []
    for name, parameter in model.named_parameters():
        (rest if parameter.ndim == 1 else decay).append(parameter)
    return torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=lr)

def train(model, loader, criterion, local):
    optimizer = build(nn.ModuleList(GIVEN), 0.1)
    scaler = torch.amp.GradScaler("cuda")
    clipped = [*model.parameters()] + [*criterion.parameters()] + [*local.parameters()]
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            output, features = model(x)
            loss = criterion(output, y) + 0.8 * local(features, y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(clipped, max_norm=5.0)
        scaler.step(optimizer)
        scaler.update()

def main(loader, data):
    model = Net()
    model = DDP(model)
    criterion = Loss(data.classes)
    criterion = DDP(criterion)
    local = Loss(data.classes)
    local = DDP(local)
    train(model, loader, criterion, local)
"""


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ("[model, criterion, local]", RIGHT),
        ("[model, criterion.module, local.module]", RIGHT),
        ("[model, criterion]", WRONG),
    ],
)
def test_a_loop_over_all_parameters_of_several_models(given: str, state: str) -> None:
    (found,) = interpret(SORTED.replace("GIVEN", given))
    assert found.judged.state == state, found.judged
