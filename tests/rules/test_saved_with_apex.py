"""Checkpoints by hand of what apex trains, without the state of its scalers (AMP413)."""

from __future__ import annotations

from pathlib import Path

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


def test_a_run_that_goes_back_keeps_its_scale() -> None:
    text = TEXT.replace("INITIALIZED", 'opt_level="O1"').replace("SAVED", "").replace("LOADED", "pass")
    start = text.index("    if args.resume:")
    end = text.index("    for x, y in loader:")
    load = text[start:end].replace("\n        ", "\n            ").replace("    if args.resume", "        if loss > 9")
    inside = text[:start] + text[end:].replace(
        "        optimizer.zero_grad()\n", f"        optimizer.zero_grad()\n{load}"
    )
    assert "AMP413" in {each.code for each in check(text)}
    assert "AMP413" not in {each.code for each in check(inside)}


def test_what_another_file_trains_with_apex_is_not_saved_here(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    trainer = tmp_path / "trainer.py"
    trainer.write_text(
        "from apex import amp\n\n\nclass Trainer:\n    def __init__(self, model, optimizer):\n"
        "        self.model, self.optimizer = amp.initialize(model, optimizer)\n\n    def step(self, loss):\n"
        "        with amp.scale_loss(loss, self.optimizer) as scaled:\n            scaled.backward()\n",
        "utf-8",
    )
    text = TEXT.replace("from apex import amp", "from trainer import Trainer  # apex")
    text = text.replace(
        "    model, optimizer = amp.initialize(model, optimizer, INITIALIZED)\n", "    Trainer(model, None)\n"
    )
    text = text.replace(
        "        with amp.scale_loss(loss, optimizer) as scaled_loss:\n            scaled_loss.backward()",
        "        loss.backward()",
    )
    text = text.replace("SAVED", "").replace("LOADED", "pass")
    file = tmp_path / "train.py"
    file.write_text(text, "utf-8")
    assert "AMP413" not in {each.code for each in check(text, str(file))}


FUNCTIONS = """\
import torch
from apex import amp


def load_checkpoint(path, model, optimizer):
    kept = torch.load(path)
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    return model, optimizer


def save_checkpoint(path, model, optim):
    torch.save({"model": model.state_dict(), "optimizer": optim.state_dict()}, path)


def main(args, loader):
    model, other = torch.nn.Linear(2, 2).cuda(), torch.nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    second = torch.optim.SGD(other.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O2")
    if args.resume:
        load_checkpoint(args.resume, model, optimizer)
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        save_checkpoint("last.pt", model, SAVED)
"""


@pytest.mark.parametrize(("saved", "count"), [("optimizer", 1), ("second", 0)])
def test_functions_that_save_and_load(saved: str, count: int) -> None:
    """Their parameters have names of their own."""
    assert sum(each.code == "AMP413" for each in check(FUNCTIONS.replace("SAVED", saved))) == count
