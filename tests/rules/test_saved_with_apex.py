"""Checkpoints by hand of what apex trains, without the state of its scalers (AMP413)."""

from __future__ import annotations

import pytest

from amplint import check

TEXT = """\
import argparse
import torch
from apex import amp


def main(args, loader):
    model = torch.nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, INITIALIZED)
    if args.resume:
        kept = torch.load(args.resume)
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        LOADED
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()SAVED}, "last.pt")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--level", default="O1")
    parser.add_argument("--resume")
    main(parser.parse_args(), [])
"""


def codes(initialized: str, saved: str = "", loaded: str = "pass") -> set[str]:
    text = TEXT.replace("INITIALIZED", initialized).replace("SAVED", saved).replace("LOADED", loaded)
    return {each.code for each in check(text)}


@pytest.mark.parametrize(
    "initialized",
    [
        'opt_level="O1"',
        "opt_level=args.level",
        "",
        'opt_level="O2", loss_scale="dynamic"',
        "args.unknown, loss_scale=None",
    ],
)
def test_what_scales_dynamically(initialized: str) -> None:
    assert "AMP413" in codes(initialized)


@pytest.mark.parametrize("initialized", ['opt_level="O0"', 'opt_level="O3"', 'opt_level="O2", loss_scale=128.0'])
def test_what_has_no_scale_that_changes(initialized: str) -> None:
    assert "AMP413" not in codes(initialized)


def test_what_saves_or_loads_it() -> None:
    assert "AMP413" not in codes('opt_level="O1"', ', "amp": amp.state_dict()', 'amp.load_state_dict(kept["amp"])')
    assert "AMP413" not in codes('opt_level="O1"', ', "amp": amp.state_dict()')
