"""What a model's own region, a frozen model, a metric, a copy of the settings or a later clip say of a finding."""

from __future__ import annotations

from pathlib import Path

import pytest

import amplint

NET = """\
import torch

try:
    autocast = torch.cuda.amp.autocast
except AttributeError:
    class autocast:
        def __init__(self, enabled):
            pass


class Net(torch.nn.Module):
    def __init__(self, mixed):
        super().__init__()
        self.mixed = mixed
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        with {region}:
            return self.layer(x)
"""
BFLOAT16 = """\
import torch
from net import Net


def main(mixed, loader):
    model = Net(mixed).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
CRITERION = """\
import torch
from torch import nn


class Focal(nn.Module):
    def forward(self, pred, target):
        return nn.functional.binary_cross_entropy(torch.sigmoid(pred), target)


class Loss(nn.Module):
    def __init__(self, focal=True):
        super().__init__()
        self.is_focal = focal
        self.focal, self.mse = Focal(), nn.MSELoss()

    def forward(self, pred, target):
        return self.focal(pred, target) if self.is_focal else self.mse(pred.sigmoid(), target)


def epoch(model, loader, optimizer, criterion: nn.Module, scaler):
    for images, targets in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = criterion(model(images), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def main(model, loader, focal=True):
    optimizer = torch.optim.AdamW(model.parameters())
    epoch(model, loader, optimizer, {made}, torch.amp.GradScaler("cuda"))
"""
GAN = """\
import torch


def train(net_g, net_d, loader, losses):
    optimizer_d = torch.optim.SGD(net_d.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for low, high in loader:
        with torch.autocast("cuda"):
            for p in net_d.parameters():
                p.requires_grad = True
            loss = losses(net_d(low), net_d(high))
            scaler.scale(loss).backward()
            scaler.step(optimizer_d)
            scaler.update()
            optimizer_d.zero_grad()
            for p in net_d.parameters():
                p.requires_grad = {flag}
            print(losses(net_d(net_g(low)), high))
"""
METRIC = """\
import torch
import torch.nn.functional as F


def train(loader, optimizer, scaler):
    model, total = torch.nn.Linear(4, 4).cuda(), 0.0
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            output = model(x)
            loss = F.cross_entropy(output, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        total += {metric}
"""
SETTINGS = """\
import torch
from config import CONFIG


def train(model, loader, optimizer, scaler, config):
    use_amp = config.get("use_amp", True)
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def main(args, model, loader, optimizer):
    config = CONFIG.copy()
    config["use_amp"] = not args.no_amp
    own = config.copy()
    own["{key}"] = {value}
    scaler = torch.amp.GradScaler("cuda", enabled=config["use_amp"])
    train(model, loader, optimizer, scaler, own)
"""
STRAY = """\
import torch


def epoch(model, loader, optimizer, scaler):
    for x in loader:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        {clip}
        scaler.step(optimizer)
        scaler.update()
"""
REPLACED = """\
import torch


def train(model, loader, optimizer, scaler, criterion, aside):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            output = model(x)
            first = criterion(output, y)
            loss = first + aside(output, y)
        if torch.isnan(loss) or torch.isinf(loss):
            loss = first
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def _codes(text: str, *, path: str = "train.py") -> list[str]:
    return [each.code for each in amplint.check(text, path)]


@pytest.mark.parametrize(
    ("region", "expected"),
    [
        ("autocast(enabled=self.mixed)", []),
        ("torch.autocast('cuda', dtype=torch.float16, enabled=self.mixed)", []),
        ("torch.autocast('cuda', dtype=torch.bfloat16)", ["AMP206"]),
        ("torch.no_grad()", ["AMP206"]),
    ],
)
def test_a_model_may_have_a_float16_region_of_its_own(tmp_path: Path, region: str, expected: list[str]) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "net.py").write_text(NET.format(region=region))
    (tmp_path / "train.py").write_text(BFLOAT16)
    assert _codes(BFLOAT16, path=str(tmp_path / "train.py")) == expected


@pytest.mark.parametrize("made", ["Loss(focal=focal)", "Loss()", "Focal()", "Loss(focal=focal).cuda()"])
def test_a_criterion_that_is_passed_runs_in_the_region(made: str) -> None:
    assert _codes(CRITERION.format(made=made)) == ["AMP304"]


def test_another_criterion_that_is_passed() -> None:
    assert _codes(CRITERION.format(made="nn.MSELoss()")) == []


def test_the_weights_of_a_frozen_model_are_not_kept() -> None:
    stale = "still uses the weights from before the step"
    frozen, trained = (
        next(each for each in amplint.check(GAN.format(flag=flag), "train.py") if each.code == "AMP301").message
        for flag in (False, True)
    )
    assert stale not in frozen
    assert stale in trained


@pytest.mark.parametrize(
    "metric",
    ["float(F.cross_entropy(output, y))", "F.cross_entropy(output, y).item()", "F.mse_loss(output, y).detach()"],
)
def test_a_metric_is_no_loss(metric: str) -> None:
    assert "AMP303" not in _codes(METRIC.format(metric=metric))
    inside = "            loss = F.cross_entropy(output, y)\n"
    assert "AMP303" in _codes(METRIC.format(metric=metric).replace(inside, inside[4:]))


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [("steps", 'config["steps"]', []), ("steps", "4", []), ("use_amp", "True", ["AMP210"])],
)
def test_a_copy_of_the_settings_has_the_same_switch(key: str, value: str, expected: list[str]) -> None:
    found = amplint.check(SETTINGS.format(key=key, value=value), "train.py", amplint.make_settings(suspicions=True))
    assert [each.code for each in found] == expected


def test_a_stray_clip_next_to_one_that_works() -> None:
    clip = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    assert "AMP419" in _codes(STRAY.format(clip="pass"))
    assert "AMP419" not in _codes(STRAY.format(clip=clip))


def test_what_a_loss_is_replaced_with_is_named() -> None:
    (finding,) = amplint.check(REPLACED, "train.py")
    assert finding.message == (
        "an inf or NaN loss is replaced with `first`: the scaler steps with the gradients of `first`, and doesn't "
        "lower the scale; remove the replacement"
    )


KEPT = """\
import torch


def train(model, loader, optimizer, scaler):
    norms = {{}}
    optimizer.zero_grad()
    for i, x in enumerate(loader):
        with torch.autocast("cuda"):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        if (i + 1) % 2 == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        for name, p in model.named_parameters():
            if p.grad is not None:
                norms.setdefault(name, []).append(p.grad.norm().item())
        {uses}(norms)


def monitor(norms, threshold=1e-5):
    for name, values in norms.items():
        if min(values) < threshold:
            print("vanishing", name)


def count(norms):
    return len(norms)
"""


@pytest.mark.parametrize(("uses", "expected"), [("monitor", ["AMP409"]), ("print", ["AMP409"]), ("count", [])])
def test_norms_are_followed_into_the_function_that_takes_them(uses: str, expected: list[str]) -> None:
    assert _codes(KEPT.format(uses=uses)) == expected


PASSED_ON = """\
import torch


def step(loss, optimizer, scaler, use_amp):
    if use_amp and scaler is not None:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    else:
        loss.backward()
        optimizer.step()


def train_epoch(trainer, loader):
    for x, y in loader:
        trainer.optimizer.zero_grad()
        with torch.autocast("cuda", enabled=trainer.use_amp):
            loss = trainer.criterion(trainer.model(x), y)
        step(loss, trainer.optimizer, {scaler}, trainer.use_amp)
"""


@pytest.mark.parametrize(
    ("scaler", "confidence"),
    [
        ("trainer.scaler", ["suspicion"]),
        ('torch.amp.GradScaler("cuda") if trainer.scaling else None', ["certain"]),
    ],
)
def test_a_scaler_that_is_passed_on_from_out_of_sight_may_follow_the_same_switch(
    scaler: str, confidence: list[str]
) -> None:
    found = amplint.check(PASSED_ON.format(scaler=scaler), "train.py", amplint.make_settings(suspicions=True))
    assert [each.confidence for each in found if each.code == "AMP210"] == confidence


def test_the_message_names_what_makes_the_region_float16() -> None:
    source = """\
import torch


def train(model, optimizer, loader, config):
    scaler = torch.amp.GradScaler("cuda") if config["precision"] == "fp16" else None
    for x in loader:
        dtype = torch.bfloat16 if config["precision"] == "bf16" else torch.float16
        with torch.autocast("cuda", dtype=dtype):
            loss = model(x).sum()
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
        optimizer.zero_grad()
"""
    (found,) = [each for each in amplint.check(source, "train.py") if each.code == "AMP210"]
    assert "is neither 'bf16' nor 'fp16'" in found.message


@pytest.mark.parametrize("asks", ["scaler.is_enabled()", "scaler._enabled", "bool(scaler._enabled)"])
def test_a_region_that_is_on_where_the_scaler_is(asks: str) -> None:
    text = f"""\
import torch


def train(model, optimizer, loader, mixed):
    scaler = torch.amp.GradScaler("cuda", enabled=mixed)
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled={asks}):
            loss = model(x).sum()
        if {asks}:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
"""
    assert amplint.check(text, "train.py") == []


def test_a_region_that_a_partial_of_the_class_makes_has_its_own_switch() -> None:
    text = """\
import functools

import torch

mixed = functools.partial(torch.autocast, "cuda", dtype=torch.float16)


def train(loader, amp):
    model = torch.nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    for x in loader:
        optimizer.zero_grad()
        with mixed(enabled=amp):
            loss = model(x).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
    assert amplint.check(text, "train.py") == []
