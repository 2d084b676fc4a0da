"""AMP423: a switch that only an edit of the file changes is the same in both runs: the one that saves, and the next."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

TEXT = """\
import argparse

import torch
from configs.base import cfg

{written}


def train(cfg):
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=cfg.amp)
    if cfg.resume:
        kept = torch.load("last.pt")
        optimizer.load_state_dict(kept["optimizer"])
        {ended}
        scaler.load_state_dict(kept["scaler"])
    for x, y in cfg.loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=cfg.amp):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        torch.save({{"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}}, "last.pt")


{more}
train(cfg)
"""


@pytest.mark.parametrize(
    ("written", "more", "wanted"),
    [
        ("cfg.amp = True", "", 0),
        ("cfg.lr = 0.1", "", 1),
        ("cfg.amp = True", "def choose(args):\n    cfg.amp = args.amp\n\n\n", 1),
        ("cfg.amp = argparse.ArgumentParser().parse_args().amp", "", 1),
    ],
)
def test_a_setting_that_the_file_sets(written: str, more: str, wanted: int) -> None:
    text = TEXT.format(written=written, more=more, ended="pass")
    assert len(check(text, settings=Settings(frozenset({"AMP423"}), isolated=True))) == wanted


ENDED = "done = int(kept.get('epoch', 0))\n        if done >= cfg.epochs:\n            return"
COMPARED = "if bool(kept['amp']) != cfg.amp:\n            raise ValueError"


@pytest.mark.parametrize(("ended", "wanted"), [(ENDED, 1), (COMPARED, 0)])
def test_what_is_compared_with_the_checkpoint(ended: str, wanted: int) -> None:
    text = TEXT.format(written="", more="", ended=ended).replace(
        '"optimizer": o', '"epoch": 1, "amp": cfg.amp, "optimizer": o'
    )
    assert len(check(text, settings=Settings(frozenset({"AMP423"}), isolated=True))) == wanted
