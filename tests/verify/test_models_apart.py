"""Models that look the same in the text and are several: deep copies, and what calls of one function make."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch")

import amplint
from amplint.verify.steps.judge import RIGHT, WRONG
from tests.interpreting import Ran, interpret

if TYPE_CHECKING:
    from amplint.verify.steps.verify import StepRow

HEAD = """
import timm
import torch
from copy import deepcopy
from torch import nn


"""
ATTACK = """
def attack(model, x, y):
    COPY
    x = torch.autograd.Variable(x, requires_grad=True)
    out = model(x)
    for step in range(3):
        loss = nn.functional.mse_loss(out, y)
        loss.backward()
        x = torch.autograd.Variable(x + x.grad.sign(), requires_grad=True)
        out = model(x)
    return x


def train(model, optimizer, loader, scaler):
    for x, y in loader:
        optimizer.zero_grad()
        attacked = attack(model, x, y)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(attacked), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
AVERAGED = """
def train(model, loader, scaler, decay=0.99):
    averaged = COPY
    for p in averaged.parameters():
        p.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            with torch.no_grad():
                wanted = averaged(x)
            loss = nn.functional.mse_loss(model(x), wanted)
        scaler.scale(loss).backward()
        CLIP
        scaler.step(optimizer)
        scaler.update()
        for p, q in zip(averaged.parameters(), model.parameters()):
            p.data.mul_(decay).add_(q.data, alpha=1 - decay)
"""
NET = """
class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = nn.Linear(size, size)

    def forward(self, x):
        return self.layer(x)


"""
AGENT = f"""{NET}
class Agent:
    def __init__(self, args):
        self.net = Net(args.size)

    def parameters(self):
        return self.net.parameters()

    def half(self):
        self.net.half()
        return self

    def __call__(self, x):
        return self.net(x)


"""
# What makes a model, and the code before that.
MADE = {
    "of a library": ("def make(args):\n    model = timm.create_model(args.name)\n    return model\n", "make(args)"),
    "of a class": (f"{NET}def make(args):\n    model = Net(args.size).to('cuda')\n    return model\n", "make(args)"),
    "without a name": (f"{NET}def make(args):\n    return Net(args.size)\n", "make(args)"),
    "through another": (
        f"{NET}def inner(args):\n    model = Net(args.size)\n    return model\n"
        "def make(args):\n    return inner(args)\n",
        "make(args)",
    ),
    "one of several": (
        f"{NET}def make(args):\n    model = Net(args.size)\n"
        "    return model, sum(p.numel() for p in model.parameters())\n",
        "make(args)[0]",
    ),
    "in an object": (AGENT, "Agent(args)"),
    "moved at once": (NET, "Net(args.size).to('cuda')"),
    "of a library, moved at once": ("", "timm.create_model(args.name).to('cuda')"),
}
TRAIN = """

def train(loader, args, scaler):
    MADE
    optimizer = torch.optim.AdamW(policy.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            with torch.no_grad():
                wanted = reference(x)
            loss = nn.functional.mse_loss(policy(x), wanted)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def ran(text: str, **parts: str) -> Ran:
    for name, by in parts.items():
        text = text.replace(name, by)
    (found,) = interpret(HEAD + text)
    return found


@pytest.mark.parametrize(
    "copy", ["model = deepcopy(model)", "model = deepcopy(model).cuda()", "other = deepcopy(model); model = other"]
)
def test_gradients_of_a_copy_are_not_those_of_the_model(copy: str) -> None:
    assert ran(ATTACK, COPY=copy).judged.state == RIGHT


@pytest.mark.parametrize("same", ["pass", "model = model.cuda()", "other = model; model = other"])
def test_gradients_of_the_model_itself_stay_with_those_of_the_loss(same: str) -> None:
    assert ran(ATTACK, COPY=same).shown == {"gradient", "update"}


@pytest.mark.parametrize(
    "copy", ["deepcopy(model)", "deepcopy(model).half()", "torch.optim.swa_utils.AveragedModel(model)"]
)
def test_an_average_of_the_model_is_none_of_what_is_trained(copy: str) -> None:
    assert ran(AVERAGED, COPY=copy, CLIP="pass").judged.state == RIGHT


def test_what_is_wrong_of_the_model_shows_beside_its_average() -> None:
    clip = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    assert ran(AVERAGED, COPY="deepcopy(model)", CLIP=clip).shown == {"gradient", "update"}
    assert ran(AVERAGED, COPY="deepcopy(model); model.half()", CLIP="pass").shown == {"exception"}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("how", MADE)
@pytest.mark.parametrize("freeze", [False, True])
def test_two_calls_make_two_models(how: str, freeze: bool) -> None:
    code, make = MADE[how]
    frozen = "\n    for p in reference.parameters():\n        p.requires_grad = False" if freeze else ""
    made = f"policy = {make}\n    reference = {make}{frozen}\n    reference = reference.half()"
    assert ran(code + TRAIN, MADE=made).judged.state == RIGHT


@pytest.mark.sampled(4)
@pytest.mark.parametrize("how", MADE)
def test_the_one_that_is_trained_is_cast(how: str) -> None:
    code, make = MADE[how]
    made = f"policy = {make}.half()\n    reference = {make}"
    found = ran(code + TRAIN, MADE=made)
    assert found.judged.state == WRONG
    assert "unscale FP16 gradients" in found.judged.faults[0].text


@pytest.mark.parametrize(
    "made", ["policy, reference = Net(3), Net(3)", "policy, reference = [Net(3) for _ in range(2)]"]
)
def test_two_models_of_one_line(made: str) -> None:
    assert ran(NET + TRAIN, MADE=f"{made}; reference.half()").judged.state == RIGHT
    assert ran(NET + TRAIN, MADE=f"{made}; policy.half()").judged.state == WRONG


GAN = """
import torch

def train(dataloader, g_model, G_OPT, d_model, D_OPT, criterion):
    scaler = torch.amp.GradScaler("cuda")
    for real, _ in dataloader:
        ones, noise = torch.ones(real.shape[0], 1), torch.randn(real.shape[0], 8)
        G_OPT.zero_grad()
        D_OPT.zero_grad()
        with torch.autocast("cuda"):
            fake = g_model(noise)
            d_loss = criterion(d_model(real), ones) + criterion(d_model(fake.detach()), 1 - ones)
        scaler.scale(d_loss).backward()
        scaler.step(D_OPT)
        MIDDLE
        with torch.autocast("cuda"):
            g_loss = criterion(d_model(g_model(noise)), ones)
        scaler.scale(g_loss).backward()
        scaler.step(G_OPT)
        scaler.update()
"""


def of_gan(generator: str, discriminator: str, middle: str = "scaler.update()") -> StepRow:
    text = GAN.replace("MIDDLE", middle).replace("G_OPT", generator).replace("D_OPT", discriminator)
    (found,) = amplint.verify(text, unsafe=True)
    return found


@pytest.mark.parametrize("middle", ["scaler.update()", "pass", "scaler.update()\n        G_OPT.zero_grad()"])
def test_a_model_has_the_optimizer_of_its_name(middle: str) -> None:
    assert of_gan("g_opt", "d_opt", middle).verdict == "clean"


def test_models_whose_optimizers_have_other_names() -> None:
    found = of_gan("first", "second")
    assert found.verdict == "not checkable"
    assert found.reason.startswith("amplint can't see which optimizer has the parameters of ")


def test_of_optimizers_with_names_a_fault_is_seen() -> None:
    text = GAN.replace("G_OPT", "g_opt").replace("D_OPT", "d_opt").replace("MIDDLE", "scaler.update()")
    (found,) = amplint.verify(
        text.replace("scaler.scale(d_loss).backward()", "(scaler.scale(d_loss) * scaler.get_scale()).backward()")
    )
    assert (found.before.state, found.before.differs) == ("wrong", "line 14")
