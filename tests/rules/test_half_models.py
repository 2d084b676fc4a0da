"""Models that are cast to half precision and trained, with a framework's scaler (AMP208) or without one (AMP217)."""

from __future__ import annotations

import pytest

from amplint import check, make_settings

PREPARED = """\
import argparse
import torch
from accelerate import Accelerator


def main(args, net, loader):
    accelerator = Accelerator(mixed_precision=args.mixed_precision)
    model = net
    params = model.parameters()
    optimizer = torch.optim.AdamW(params, lr=args.lr)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    dtype = torch.float32
    if accelerator.mixed_precision == "fp16":
        dtype = torch.float16
    elif accelerator.mixed_precision == "bf16":
        dtype = torch.bfloat16
    model.to(accelerator.device, dtype=dtype)
    for x, y in loader:
        loss = (model(x).float() - y).square().mean()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    model = accelerator.unwrap_model(model)
    model.save_pretrained("out")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--mixed_precision", choices=["no", "fp16", "bf16"], default=None)
    parser.add_argument("--lr", type=float, default=1e-4)
    main(parser.parse_args(), None, [])
"""
LOOP = """\
import torch


def build(name):
    net = torch.hub.load("a/b", name)
    net = net.cuda().to(DTYPE)
    return net, name


def main(loader):
    model, name = build("small")
    optimizer = OPTIMIZER
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x).float(), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def found(text: str) -> list[tuple[str, str]]:
    return [(each.code, each.confidence.value) for each in check(text) if each.code in ("AMP208", "AMP217")]


def test_one_finding_says_what_the_scaler_of_accelerate_refuses() -> None:
    assert found(PREPARED) == [("AMP208", "likely")]


@pytest.mark.parametrize(
    ("dtype", "optimizer", "expected"),
    [
        ("torch.float16", "torch.optim.AdamW(model.parameters(), lr=1e-3)", "certain"),
        ("torch.bfloat16", "torch.optim.AdamW(model.parameters(), lr=1e-5)", "likely"),
    ],
)
def test_a_model_that_comes_in_a_tuple(dtype: str, optimizer: str, expected: str) -> None:
    assert found(LOOP.replace("DTYPE", dtype).replace("OPTIMIZER", optimizer)) == [("AMP217", expected)]


@pytest.mark.parametrize(
    ("optimizer", "said"),
    [
        ("torch.optim.Adam(model.parameters())", "become NaN"),
        ("torch.optim.Adam(model.parameters(), eps=1e-4)", "are rounded away"),
        ("torch.optim.Adam(model.parameters(), fused=True)", "are rounded away"),
        ("torch.optim.SGD(model.parameters(), lr=0.1)", "are rounded away"),
    ],
)
def test_what_becomes_of_float16_depends_on_the_optimizer(optimizer: str, said: str) -> None:
    text = LOOP.replace("DTYPE", "torch.half").replace("OPTIMIZER", optimizer)
    assert [said in each.message for each in check(text) if each.code == "AMP217"] == [True]


@pytest.mark.parametrize(
    "optimizer",
    [
        "torch.optim.Adam([each.float() for each in model.parameters()])",
        "FP16_Optimizer(torch.optim.Adam(model.parameters()))",
        "torch.optim.Adam(head.parameters())",
    ],
)
def test_copies_and_other_parameters_are_left_alone(optimizer: str) -> None:
    assert found(LOOP.replace("DTYPE", "torch.half").replace("OPTIMIZER", optimizer)) == []


@pytest.mark.parametrize(
    ("more", "is_said"),
    [
        ("import deepspeed\n", False),
        ("from torch.distributed.fsdp import FullyShardedDataParallel\n", False),
        ("# without deepspeed, apex or FSDP\n", True),
        ('MODES = ("ddp", "fsdp")\n', True),
    ],
)
def test_an_engine_that_is_imported_keeps_copies(more: str, is_said: bool) -> None:
    text = LOOP.replace("DTYPE", "torch.half").replace("OPTIMIZER", "torch.optim.SGD(model.parameters(), lr=0.1)")
    assert bool(found(more + text)) is is_said


KEPT = """
import torch
from torch import distributed as dist


class Runner:
    def __init__(self, net, paths):
        self.net = net.half()
        {more}


def train(runner, loader, optimizer):
    for x, y in loader:
        loss = runner.net(x).sub(y).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def main(net, loader, paths):
    runner = Runner(net, paths)
    optimizer = torch.optim.SGD({owned}.parameters(), lr=0.1)
    train(runner, loader, optimizer)
"""


@pytest.mark.parametrize("owned", ["runner.net", "net"])
@pytest.mark.parametrize(
    "more",
    [
        "pass",
        "self.data = {path: float(path) for path in paths}",  # of a dataset
        "dist.broadcast(paths, 0)",
        "for part in self.net.parameters():\n            part.data = part.data.cuda()",
        "for name, part in self.net.named_parameters():\n            part.requires_grad = 'head' in name",
    ],
)
def test_a_model_that_a_constructor_casts(owned: str, more: str) -> None:
    text = KEPT.format(owned=owned, more=more)
    assert [each.code for each in check(text, "a.py") if each.code == "AMP217"] == ["AMP217"]


@pytest.mark.parametrize(
    "more",
    [
        "for part in self.net.parameters():\n            part.data = part.data.float()",
        "cast_training_params(self.net, torch.float32)",
        "self.net.requires_grad_(False)",
        "self.net.float()",
    ],
)
def test_a_model_whose_parameters_are_cast_back_or_frozen(more: str) -> None:
    text = KEPT.format(owned="runner.net", more=more)
    assert [each.code for each in check(text, "a.py") if each.code == "AMP217"] == []


def test_an_optimizer_that_a_method_of_the_model_makes() -> None:
    text = KEPT.format(owned="net", more="pass").replace("torch.optim.SGD(net.parameters(), lr=0.1)", "MAKER")
    assert [each.code for each in check(text.replace("MAKER", "runner.net.configure_optimizers(0.1)"), "a.py")] == [
        "AMP217"
    ]
    assert check(text.replace("MAKER", "runner.configure(0.1)"), "a.py") == []


SCHEDULE = "torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)"
GROUPS = "for group in optimizer.param_groups:\n            group['lr'] = rate(x)"


@pytest.mark.parametrize(
    ("rate", "schedule", "confidence", "said"),
    [
        ("1e-4", "None", "likely", "updates of about `lr=0.0001` are rounded away in weights larger than about 0.05"),
        ("2e-4", "None", "likely", "with `lr=0.0002`, many updates are too small for bfloat16"),
        ("6e-4", "None", "suspicion", "updates below about 0.4 % of a weight"),
        ("6e-4", SCHEDULE, "likely", "once the schedule lowers `lr=0.0006`, many updates are too small for bfloat16"),
        ("6e-4", SCHEDULE.replace("optimizer", "other"), "suspicion", "updates below about 0.4 % of a weight"),
        ("1e-2", SCHEDULE, "suspicion", "updates below about 0.4 % of a weight"),
        ("6e-4", GROUPS, "likely", "once the schedule lowers `lr=0.0006`"),
        ("6e-4", GROUPS.replace("lr", "weight_decay"), "suspicion", "updates below about 0.4 % of a weight"),
        ("args.lr", "None", "suspicion", "updates below about 0.4 % of a weight"),
        ("args.lr", SCHEDULE, "likely", "once the schedule lowers the rate, many updates are too small for bfloat16"),
    ],
)
def test_the_rate_decides_how_sure_it_is_in_bfloat16(rate: str, schedule: str, confidence: str, said: str) -> None:
    text = LOOP.replace("DTYPE", "torch.bfloat16").replace(
        "OPTIMIZER", f"torch.optim.AdamW(model.parameters(), lr={rate})"
    )
    if schedule.startswith("for"):
        text = text.replace("    for x, y in loader:\n", f"    for x, y in loader:\n        {schedule}\n")
    else:
        text = text.replace("    for x, y in loader:\n", f"    schedule = {schedule}\n    for x, y in loader:\n")
    (finding,) = [each for each in check(text, settings=make_settings(suspicions=True)) if each.code == "AMP217"]
    assert finding.confidence.value == confidence
    assert said in finding.message


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("model, optimizer = accelerator.prepare(model, optimizer)", [("AMP217", "likely")]),
        ("pass", [("AMP217", "certain")]),
        ("if accelerator.state.deepspeed_plugin: configure(accelerator)", []),
    ],
)
def test_who_starts_the_program_may_choose_deepspeed(more: str, expected: list[tuple[str, str]]) -> None:
    text = LOOP.replace("DTYPE", "torch.half").replace("OPTIMIZER", "torch.optim.AdamW(model.parameters(), lr=1e-5)")
    text = text.replace(
        "import torch\n", "import torch\nfrom accelerate import Accelerator\n\naccelerator = Accelerator()\n"
    )
    assert found(text.replace("    for x, y in loader:\n", f"    {more}\n    for x, y in loader:\n")) == expected


NANO = """\
import torch
from model import GPT

device_type = "cuda"
torch.set_float32_matmul_precision("high")
model = GPT()
model.to(device_type)
if device_type == "cuda":
    model = model.to(torch.bfloat16)
ddp = False
if ddp:
    model = torch.nn.parallel.DistributedDataParallel(model)
raw_model = model.module if ddp else model
optimizer = raw_model.MAKES(weight_decay=0.1, learning_rate=RATE, device=device_type)
for step in range(100):
    for group in optimizer.param_groups:
        group["lr"] = RATE / (step + 1)
    loss = model(torch.randint(9, (4, 8)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("makes", "rate", "confidence"),
    [
        ("configure_optimizers", "6e-4", "likely"),
        ("configure_optimizers", "6e-2", "suspicion"),
        ("make_optimizer", "6e-4", "suspicion"),
    ],
)
def test_an_optimizer_that_a_method_out_of_sight_makes(makes: str, rate: str, confidence: str) -> None:
    """And a setting of torch for products casts no parameters."""
    text = NANO.replace("MAKES", makes).replace("RATE", rate)
    found = [each for each in check(text, settings=make_settings(suspicions=True)) if each.code == "AMP217"]
    assert [each.confidence.value for each in found] == [confidence]
