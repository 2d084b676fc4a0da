"""What an assignment replaces, in every form, and flags that a function reads anew in each call."""

from __future__ import annotations

import pytest

from amplint import check

GAN = """\
import torch


def train(G, D, opt_g, opt_d, loader, cfg):
    scaler_g = torch.amp.GradScaler("cuda", enabled=cfg.amp_g)
    scaler_d = torch.amp.GradScaler("cuda", enabled=cfg.amp_d)
    for real in loader:
        with torch.autocast("cuda", dtype=torch.float16, enabled=cfg.amp_d):
            TAKEN_D
            d_loss = torch.nn.functional.softplus(score).mean()
        opt_d.zero_grad()
        scaler_d.scale(d_loss).backward()
        scaler_d.step(opt_d)
        scaler_d.update()
        with torch.autocast("cuda", dtype=torch.float16, enabled=FLAG):
            TAKEN_G
            if cfg.topk:
                score = torch.topk(score, 8).values
            g_loss = torch.nn.functional.softplus(-score).mean()
        opt_g.zero_grad()
        scaler_g.scale(g_loss).backward()
        scaler_g.step(opt_g)
        scaler_g.update()
"""


@pytest.mark.parametrize("taken", ["score = D(real)", "score, latent = D(real)", "(score, *rest), more = D(real)"])
@pytest.mark.parametrize(("flag", "wanted"), [("cfg.amp_g", []), ("cfg.amp_d", [15])])
def test_each_region_is_compared_with_the_scaler_of_its_own_loss(taken: str, flag: str, wanted: list[int]) -> None:
    text = GAN.replace("TAKEN_D", taken).replace("TAKEN_G", taken.replace("real", "G(real)")).replace("FLAG", flag)
    assert [each.location.row for each in check(text, "train.py") if each.code == "AMP210"] == wanted


EPOCHS = """\
import torch


def train_epoch(model, loader, optimizer, config, scaler=None):
    use_amp = LOOKED_UP
    for i, (x, y) in enumerate(loader):
        loss = model(x, y)
        if use_amp and scaler is not None:
            scaler.scale(loss).backward()
        else:
            loss.backward()
        if (i + 1) % 4 == 0:
            if use_amp and scaler is not None:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
            else:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
            optimizer.zero_grad()


def main(config, model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda") if config.get("amp", False) else None
    for epoch in range(10):
        train_epoch(model, loader, optimizer, config, scaler)
"""


@pytest.mark.parametrize("looked_up", ["config.get('amp', False)", "config['amp']", "config.get('amp')"])
def test_a_setting_that_each_call_looks_up_is_the_same_in_all(looked_up: str) -> None:
    assert not [each for each in check(EPOCHS.replace("LOOKED_UP", looked_up), "train.py") if each.code == "AMP401"]


def test_what_each_call_asks_for_anew_may_change() -> None:
    found = [each for each in check(EPOCHS.replace("LOOKED_UP", "asked(config)"), "train.py") if each.code == "AMP401"]
    assert [each.location.row for each in found] == [19]


UNSCALED = """\
import torch


def train(model, loader, optimizer, cfg):
    scaler = SCALER
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=cfg.amp):
            loss = model(x, y)
        scaler.scale(loss).backward()
        if TEST:
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("scaler", "test", "wanted"),
    [
        ("torch.amp.GradScaler(enabled=cfg.amp)", "cfg.amp and torch.cuda.is_available()", []),
        ("torch.amp.GradScaler('cuda')", "torch.cuda.is_available()", []),
        ("torch.cuda.amp.GradScaler(enabled=cfg.amp)", "torch.cuda.is_available()", []),
        ("torch.amp.GradScaler('cuda')", "not torch.cuda.is_available()", [13]),
        ("torch.amp.GradScaler('xpu')", "torch.cuda.is_available()", [13]),
        ("torch.amp.GradScaler('cuda')", "torch.xpu.is_available()", [13]),
    ],
)
def test_a_scaler_for_cuda_is_off_where_there_is_none(scaler: str, test: str, wanted: list[int]) -> None:
    text = UNSCALED.replace("SCALER", scaler).replace("TEST", test)
    assert [each.location.row for each in check(text, "train.py") if each.code == "AMP401"] == wanted


@pytest.mark.parametrize(("dtype", "wanted"), [("torch.float32", []), ("torch.float16", [7]), ("args.dtype", [7])])
def test_a_region_in_float32_casts_nothing_down(dtype: str, wanted: list[int]) -> None:
    text = f"""\
import torch


def train(model, x, optimizer, args):
    with torch.autocast("cuda", dtype={dtype}):
        loss = model(x).mean()
        loss.backward()
    optimizer.step()
"""
    assert [each.location.row for each in check(text, "train.py") if each.code == "AMP301"] == wanted
