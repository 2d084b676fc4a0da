"""States of scalers that are lost between who saves them and who loads them: in wrappers, beside accelerate."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Finding
from amplint.config.settings import Settings


def found(text: str) -> list[Finding]:
    return check(text, "program.py", Settings(frozenset({"AMP413"}), isolated=True, suspicions=True))


WRAPPER = """\
import torch

class Loss{bases}:
    def __init__(self):
        self.inner = torch.amp.GradScaler("cuda"{made})

    def __call__(self, loss, optimizer):
        self.inner.scale(loss).backward()
        self.inner.step(optimizer)
        self.inner.update()

    def state_dict(self):
        return self.inner.state_dict()

{methods}
def train(model, loader, optimizer, settings):
    loss_scaler = Loss()
    if settings.resume:
        state = torch.load(settings.resume)
        model.load_state_dict(state["model"])
        {loads}
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(x).mean()
        loss_scaler(loss, optimizer)
    state = {{"model": model.state_dict(), "optimizer": optimizer.state_dict(){saves}}}
    torch.save(state, "last.pt")
"""
SAVES = ', "scaler": loss_scaler.state_dict()'
LOADS = 'optimizer.load_state_dict(state["optimizer"])'
METHOD = "    def load_state_dict(self, state):\n        self.inner.load_state_dict(state)\n"
PASSES_ON = "    def __getattr__(self, name):\n        return getattr(self.inner, name)\n"


def wrapped(
    methods: str = "", loads: str = LOADS, saves: str = SAVES, bases: str = "", made: str = ""
) -> list[Finding]:
    return found(WRAPPER.format(methods=methods, loads=loads, saves=saves, bases=bases, made=made))


def test_a_wrapper_that_gives_a_state_and_cannot_load_it_is_likely_found() -> None:
    (finding,) = wrapped()
    assert (finding.confidence, finding.fix) == ("likely", None)
    assert "`Loss` has no `load_state_dict()`" in finding.message


@pytest.mark.parametrize(
    "given",
    [
        {"methods": METHOD, "loads": LOADS + '; loss_scaler.load_state_dict(state["scaler"])'},
        {"methods": METHOD},  # somebody else may call it
        {"methods": PASSES_ON},
        {"bases": "(Base)"},
        {"loads": LOADS + '; loss_scaler.inner.load_state_dict(state["scaler"])'},
        {"loads": "pass"},  # nothing resumes
        {"saves": ""},
        {"made": ", enabled=False"},
    ],
)
def test_a_wrapper_that_can_or_need_not_is_silent(given: dict[str, str]) -> None:
    assert not wrapped(**given)


ACCELERATE = """\
import torch
from accelerate import Accelerator

def train(model, loader, optimizer, settings):
    accelerator = Accelerator()
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    scaler = {scaler}
    {registered}
    if settings.resume:
        {loads}
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"{dtype}):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    {saves}
"""
MADE = 'torch.amp.GradScaler("cuda")'


def beside(
    scaler: str = MADE,
    registered: str = "pass",
    loads: str = "accelerator.load_state(settings.resume)",
    saves: str = 'accelerator.save_state("out")',
    dtype: str = "",
) -> list[Finding]:
    return found(ACCELERATE.format(scaler=scaler, registered=registered, loads=loads, saves=saves, dtype=dtype))


def test_a_scaler_of_its_own_is_not_in_what_accelerate_saves() -> None:
    (finding,) = beside()
    assert (finding.confidence, finding.fix) == ("likely", None)
    assert "register_for_checkpointing" in finding.message


@pytest.mark.parametrize(
    "given",
    [
        {"registered": "accelerator.register_for_checkpointing(scaler)"},
        {"registered": "scaler = accelerator.prepare(scaler)"},
        {"saves": 'accelerator.save_state("out"); torch.save(scaler.state_dict(), "scaler.pt")'},
        {"loads": "pass"},
        {"saves": "model.save_state('out')"},
        {"scaler": 'torch.amp.GradScaler("cuda", enabled=False)'},
        {"dtype": ", dtype=torch.bfloat16"},
    ],
)
def test_one_that_is_saved_or_does_nothing_is_silent(given: dict[str, str]) -> None:
    assert not beside(**given)


CALLER = """
import torch


def fit(args, model, optimizer, loader):
    scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp):
            loss = model(x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        states = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}
        torch.save(states, "checkpoint.pt")


def main(args, model, loader):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    saved = torch.load(args.resume)
    model.load_state_dict(saved["model"])
    LOAD
    fit(args, model, optimizer, loader)
"""


@pytest.mark.parametrize(
    ("load", "count"), [('optimizer.load_state_dict(saved["optimizer"])', 1), ("print(saved.keys())", 0)]
)
def test_a_state_that_the_caller_does_not_load(load: str, count: int) -> None:
    findings = [each for each in check(CALLER.replace("LOAD", load), "a.py") if each.code == "AMP413"]
    assert len(findings) == count
    assert all("never loaded" in each.message for each in findings)
