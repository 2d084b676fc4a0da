"""AMP208: casts of all parts of a model, to a dtype that depends, with optimizers and steps of functions."""

from __future__ import annotations

import pytest

import amplint
from amplint import check
from amplint.base.findings import Confidence

PROGRAM = """\
import torch
from torch import nn
from helpers import Net, build_optimizer


def move(optimizer, device):
    for state in optimizer.state.values():
        for param in state.values():
            MOVE


def train_step(model, x, y, scaler):
    with torch.autocast("cuda"):
        loss = nn.functional.cross_entropy(model(x), y)
    if scaler is not None:
        scaler.scale(loss).backward()
    else:
        loss.backward()


def update_step(model, optimizer, scaler):
    if scaler is not None:
        scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if scaler is not None:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()


def main(cfg, loader):
    dtype = torch.float32
    scaler = None
    if cfg.mixed:
        if torch.cuda.is_bf16_supported():
            dtype = torch.bfloat16
        else:
            dtype = torch.float16
            scaler = torch.amp.GradScaler("cuda")
    model = Net(cfg)
    CAST
    optimizer = MADE
    for x, y in loader:
        train_step(model, x, y, scaler)
        update_step(model, optimizer, scaler)
"""
OWN = "torch.optim.SGD(model.parameters(), lr=0.1)"
GIVEN = "build_optimizer(model=model, lr=0.1)"
EACH = "for name, part in model.named_modules(): part = part.to(dtype=dtype)"
MOVED = "param.data = param.data.to(device)"


def found(cast: str, made: str = OWN, move: str = MOVED, text: str = PROGRAM) -> list[str]:
    text = text.replace("CAST", cast).replace("MADE", made).replace("MOVE", move)
    return [each.confidence.value for each in amplint.check(text) if each.code == "AMP208"]


@pytest.mark.parametrize(
    "cast",
    [
        EACH,
        "for part in model.modules(): part.to(dtype)",
        "for part in model.children(): part.half()",
        "model = model.to(dtype=dtype)",
        "model.to(dtype)",
        "model.half()",
    ],
)
def test_half_where_the_scaler_is(cast: str) -> None:
    assert found(cast) == ["certain"]
    assert found(cast, GIVEN) == ["likely"]


@pytest.mark.parametrize(
    "cast",
    [
        "for part in model.modules():\n        if not isinstance(part, nn.BatchNorm2d): part.to(dtype)",
        "for part in cfg.parts: part.to(dtype)",
        "model.to(cfg.dtype)",
        "model.to(cfg.device)",
        "model.to(torch.bfloat16 if cfg.bf16 else torch.float32)",
        f"{EACH}\n    model.float()",
        f"{EACH}\n    model = wrap(model)",
    ],
)
def test_another_cast(cast: str) -> None:
    assert found(cast) == []


@pytest.mark.parametrize(
    ("made", "move"),
    [
        ("build_optimizer(cfg)", MOVED),
        ("torch.optim.SGD(cfg.others.parameters(), lr=0.1)", MOVED),
        (OWN, "param.data = param.data.float()"),
        (OWN, "param.data = param.data.to(torch.float32)"),
    ],
)
def test_other_parameters(made: str, move: str) -> None:
    assert found(EACH, made, move) == []


def test_the_scaler_is_of_the_other_arm() -> None:
    """What is half has no scaler, and what has one is float32."""
    text = PROGRAM.replace('            scaler = torch.amp.GradScaler("cuda")\n', "")
    assert found(EACH, text=text) == []
    assert found(EACH, text=text.replace("if cfg.mixed:", "else:\n        pass\n    if cfg.mixed:")) == []
    swapped = text.replace("dtype = torch.bfloat16", 'scaler = torch.amp.GradScaler("cuda")')
    assert found(EACH, text=swapped) == []
    imported = PROGRAM.replace("import torch\n", "import torch\nfrom peft import LoraConfig\n", 1)
    assert found(EACH, text=imported) == ["certain"]
    assert found(EACH, text=imported.replace("Net(cfg)", "Net(cfg, adapter=LoraConfig(r=8))")) == []
    assert found(EACH, text=imported.replace("Net(cfg)", "Net(cfg); settings = LoraConfig(r=8)")) == ["certain"]


RETURNED = """\
import torch
from lib import Net


def make_model(config):
    model = Net(config).to("cuda")
    if config["precision"] == "fp16":
        model = model.half()
    return model


def make_optimizer(model, config):
    decayed = [p for n, p in model.named_parameters() if "bias" not in n]
    return torch.optim.AdamW([{"params": decayed}], lr=config["lr"])


def step(model, batch, optimizer, scaler):
    loss = model(batch)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()


def main(config, loader):
    model = make_model(config)
    AFTER
    optimizer = make_optimizer(model, config)
    scaler = torch.amp.GradScaler("cuda", enabled=config["precision"] == "fp16")
    for batch in loader:
        step(model, batch, optimizer, scaler)
"""


def test_a_model_that_a_function_casts_and_returns() -> None:
    found = [each for each in check(RETURNED.replace("AFTER", "print(model)"), "train.py") if each.code == "AMP208"]
    assert [each.confidence for each in found] == [Confidence.LIKELY]
    for after in ("model = model.float()", "model.to(torch.float32)"):
        assert not [each for each in check(RETURNED.replace("AFTER", after), "train.py") if each.code == "AMP208"]


TWO_MODELS = """\
import torch
from library import Critic, Painter
MORE


def main(args, loader):
    painter = Painter(lora_rank=8)
    critic = CRITIC
    LINE
    dtype = torch.float16 if args.half else torch.float32
    painter.to(dtype=dtype)
    critic.to(dtype=dtype)
    lora = [p for n, p in painter.named_parameters() if "lora" in n]
    optimizer = torch.optim.AdamW(lora)
    judge = torch.optim.AdamW(critic.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        scaler.scale(critic(painter(x)).mean()).backward()
        scaler.step(optimizer)
        scaler.step(judge)
        scaler.update()
"""
OWN_CRITIC = """

class Own(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = add_lora(torch.nn.Linear(3, 3))
"""


@pytest.mark.parametrize(
    ("critic", "line", "more", "wanted"),
    [
        ("Critic()", "", "", True),
        ("Critic()", "critic.train()", "", True),
        ("Critic()", "add_lora(critic)", "", True),  # which are cast with it
        ("Critic(adapters=2)", "", "", False),
        ("get_peft_model(Critic())", "", "", False),
        ("Own()", "", OWN_CRITIC, False),
        ("Own()", "", OWN_CRITIC.replace("add_lora", ""), True),
    ],
)
def test_adapters_of_another_model(critic: str, line: str, more: str, wanted: bool) -> None:
    text = TWO_MODELS.replace("CRITIC", critic).replace("LINE", line or "pass").replace("MORE", more)
    found = [each for each in check(text, "train.py") if each.code == "AMP208"]
    assert ["critic" in text.splitlines()[each.location.row - 1] for each in found if each.location] == [True] * wanted


ARMS = """\
import torch


def main(args, model, loader):
    if args.half:
        model.half()
    OTHER
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        scaler.scale(model(x).mean()).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("other", "wanted"),
    [
        ("else:\n        model.float()", 1),
        ("if not args.half:\n        model.float()", 1),
        ("if args.train:\n        model.float()", 0),
        ("model.float()", 0),
    ],
)
def test_a_cast_back_in_another_arm_is_none(other: str, wanted: int) -> None:
    assert [each.code for each in check(ARMS.replace("OTHER", other), "train.py")].count("AMP208") == wanted


CHOSEN = """\
import argparse

import torch
from helpers import Net, cast_training_params, load

parser = argparse.ArgumentParser()
parser.add_argument("--precision", default="no", choices=["no", "fp16", "bf16"])
args = parser.parse_args()


def main():
    dtype = torch.float32
    if args.precision == "fp16":
        dtype = torch.float16
    elif args.precision == "bf16":
        dtype = torch.bfloat16
    model = load(Net)
    model.to("cuda", dtype=dtype)
    BACK
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for x, y in load("data"):
        loss = torch.nn.functional.mse_loss(model(x.to(dtype)).float(), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


main()
"""


@pytest.mark.parametrize(
    ("back", "said"),
    [
        ("pass", ["float16"]),
        ('if args.precision == "fp16": cast_training_params([model], dtype=torch.float32)', ["bfloat16"]),
        ('if args.precision != "no": cast_training_params([model], dtype=torch.float32)', []),
        ("cast_training_params([model], dtype=torch.float32)", []),
        ("if args.upcast: cast_training_params([model], dtype=torch.float32)", []),
    ],
)
def test_parameters_that_are_cast_back_in_one_precision(back: str, said: list[str]) -> None:
    found = [each.message for each in check(CHOSEN.replace("BACK", back)) if each.code == "AMP217"]
    assert len(found) == len(said)
    assert all(f"train {dtype} parameters" in message for dtype, message in zip(said, found, strict=True))


ASKED = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        with MODE:
            features = self.body(x.half())
        return self.head(features.float())


net = Net().cuda()
net.body.half()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("mode", "wanted"), [("torch.no_grad()", 0), ("torch.enable_grad()", 1)])
def test_a_part_that_its_model_runs_without_gradients(mode: str, wanted: int) -> None:
    assert [each.code for each in check(ASKED.replace("MODE", mode))].count("AMP217") == wanted


CHAINED = """\
import itertools
import torch
from accelerate import Accelerator


def main(args, vae, loader):
    accelerator = Accelerator(mixed_precision="fp16")
    decoder = []
    for name, param in vae.named_parameters():
        if "decoder" in name:
            decoder.append(param)
    optimizer = torch.optim.AdamW(PARAMS, lr=1e-4)
    vae, optimizer, loader = accelerator.prepare(vae, optimizer, loader)
    vae.to(accelerator.device, dtype=torch.float16)
    for x in loader:
        accelerator.backward((vae(x) - x).square().mean())
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize("params", ["decoder", "itertools.chain(decoder)", "list(itertools.chain(decoder, []))"])
def test_parameters_that_are_chained(params: str) -> None:
    assert "AMP208" in {each.code for each in check(CHAINED.replace("PARAMS", params))}
