"""Attributes of an object that a step is given: what its callers set them to, and those that nothing sets."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from amplint.config.settings import Settings
from amplint.verify.steps.verify import StepRow, Verifier

PROGRAM = """\
import argparse
from contextlib import nullcontext

import torch
from library import build

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
DECLARED


def main():
    args = parser.parse_args()
    run(args)


def run(args):
    model, loader = build(args)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if args.fp16:
        from torch.cuda.amp import autocast, GradScaler
        args.scaler = GradScaler()
        args.autocast = autocast
    else:
        args.autocast = nullcontext
    SET
    train(model, optimizer, loader, args)


def train(model, optimizer, loader, options):
    for x, y in loader:
        optimizer.zero_grad()
        with options.autocast():
            loss = torch.nn.functional.mse_loss(model(x), y)
        if options.fp16:
            scaler = options.READ
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""
SETS = {
    "an option": ('parser.add_argument("--scaler-s")', "pass"),
    "a default": ("parser.set_defaults(scaler_s=None)", "pass"),
    "an attribute": ("", "args.scaler_s = args.scaler"),
    "by its name": ("", "setattr(args, 'scaler_s', args.scaler)"),
    "from a dictionary": ("", "vars(args).update(build(args))"),
    "a parser that others add to": ("build(parser)", "pass"),
}


def row(folder: Path, read: str, declared: str = "", set_: str = "pass") -> StepRow:
    text = PROGRAM.replace("READ", read).replace("DECLARED", declared).replace("SET", set_)
    (folder / ".git").mkdir()
    path = folder / "train.py"
    path.write_text(text)
    with Verifier() as verifier:
        (found,) = verifier.verify(str(path), text.encode(), Settings(frozenset(), isolated=True))
    return found


def test_a_scaler_that_the_caller_sets_is_that_of_the_step(tmp_path: Path) -> None:
    found = row(tmp_path, "scaler")
    assert "GradScaler()" in [text for _, text, _ in found.notes]
    # The class of the region, which the caller sets too, is not followed: so the step is not called right.
    assert found.verdict == "not checkable"
    assert found.reason.endswith("amplint can't see what options.autocast() does")


def test_a_scaler_that_nothing_sets_is_none(tmp_path: Path) -> None:
    found = row(tmp_path, "scaler_s")
    assert found.verdict == "not checkable"
    line = PROGRAM.partition("            scaler = ")[0].count("\n") + 1
    assert found.reason == f"line {line}: nothing in the project sets options.scaler_s: AttributeError"


@pytest.mark.parametrize("how", SETS)
def test_one_that_something_may_set_is_there(tmp_path: Path, how: str) -> None:
    found = row(tmp_path, "scaler_s", *SETS[how])
    assert "AttributeError" not in found.reason


def test_one_that_another_file_may_set_is_there(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("def prepare(options):\n    options.scaler_s = options.scaler\n")
    assert "AttributeError" not in row(tmp_path, "scaler_s").reason
