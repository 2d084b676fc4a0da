"""Closures that a scaler's step is given by place: the optimizer runs them behind the scaler's back."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP415"}), isolated=True, suspicions=True)
TRAIN = """\
import functools
import torch
from sharpness import SAM

def train(loader, model, criterion, optimizer, scaler):
    for x, y in loader:
        {closure}
        with torch.autocast("cuda"):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        {step}
        scaler.update()
        optimizer.zero_grad()
"""
MAIN = """
def main(settings, loader, model, criterion):
    optimizer = SAM(model.parameters(), torch.optim.SGD, lr=0.1)
    {scaler}
    train(loader, model, criterion, optimizer, scaler)
"""
MADE = 'scaler = torch.amp.GradScaler("cuda", enabled=settings.amp)'
STEP = "scaler.step(optimizer, closure)"
CLOSURE = "def closure():\n    loss = criterion(model(x), y)\n    {}\n    return loss\n"
SCALED = CLOSURE.format("scaler.scale(loss).backward()")
PLAIN = CLOSURE.format("loss.backward()")
OF_TWO = "def of(a, b):\n    criterion(model(a), b).backward()\n"
MAKES = "def make(a, b):\n    def run():\n        criterion(model(a), b).backward()\n    return run\n"


def found(closure: str, step: str = STEP, scaler: str = MADE, main: str = MAIN) -> list[str]:
    text = TRAIN.format(closure="\n        ".join(closure.splitlines()), step=step) + main.format(scaler=scaler)
    return [each.message for each in check(text, "program.py", SETTINGS)]


@pytest.mark.parametrize(
    ("closure", "step"),
    [
        (PLAIN, STEP),
        ("if optimizer.sharp:\n    " + "    ".join(PLAIN.splitlines(keepends=True)), STEP),
        ("closure = None\nif optimizer.sharp:\n    " + "    ".join(PLAIN.splitlines(keepends=True)), STEP),
        (OF_TWO + "closure = functools.partial(of, x, y)", STEP),
        (OF_TWO, "scaler.step(optimizer, functools.partial(of, x, y))"),
        (MAKES + "closure = make(x, y)", STEP),
        (MAKES, "scaler.step(optimizer, make(x, y))"),
        ("pass", "scaler.step(optimizer, lambda: criterion(model(x), y).backward())"),
    ],
)
def test_a_closure_that_runs_a_backward_is_found_however_it_is_made(closure: str, step: str) -> None:
    (said,) = found(closure, step)
    assert "whose loss is not scaled" in said


def test_one_that_scales_leaves_gradients_scaled() -> None:
    (said,) = found(SCALED)
    assert "without unscaling them" in said


@pytest.mark.parametrize(
    ("closure", "step", "scaler"),
    [
        (CLOSURE.format("pass"), STEP, MADE),
        ("closure = model.closure(x, y)", STEP, MADE),
        ("pass", "scaler.step(optimizer, x)", MADE),
        ("closure = functools.partial(model.closure, x)", STEP, MADE),
        (MAKES + "closure = make", "scaler.step(optimizer)", MADE),
        (PLAIN, STEP, "scaler = settings.make_scaler()"),  # it may take closures
        (PLAIN, STEP, MADE.replace("settings.amp", "False")),
    ],
)
def test_what_is_no_such_closure_or_scaler_is_silent(closure: str, step: str, scaler: str) -> None:
    assert not found(closure, step, scaler)


def test_a_scaler_whose_maker_is_out_of_sight_is_silent() -> None:
    assert not found(PLAIN, main="")


def test_a_scaler_of_a_function_that_has_too_many_paths_is_found_by_who_gives_it() -> None:
    ifs = "    if settings.f{at}:\n        model.{of}{at}(settings.f{at})\n"
    flags = "".join(ifs.format(at=at, of=of) for at in range(14) for of in "gh")
    body = MAIN.replace("    train(", flags.replace("{", "{{").replace("}", "}}") + "    train(")
    assert len(found(PLAIN, main=body)) == 1


def test_a_keyword_for_a_scaler_from_elsewhere() -> None:
    """It raises, even for None."""
    keyword = STEP.replace("closure)", "closure=closure)")
    text = TRAIN.format(closure="closure = None", step=keyword)
    (finding,) = check(text, "program.py", SETTINGS)
    assert finding.confidence is Confidence.LIKELY
    assert not check(text.replace("closure=closure", "closure"), "program.py", SETTINGS)
    made = text + MAIN.format(scaler="scaler = Scaler()") + "class Scaler:\n    pass\n"
    assert not check(made, "program.py", SETTINGS)
