"""AMP423: empty states of scalers that objects hold, or that functions return."""

from __future__ import annotations

import pytest

import amplint

PROGRAM = """\
import argparse
import dataclasses
import typing

import torch


@dataclasses.dataclass(frozen=True)
class Request:
    model: torch.nn.Module
    optimizer: typing.Any
    scaler: typing.Any
    epoch: int = 0


class Held:
    def __init__(self, model, optimizer, scaler):
        self.model = model
        self.optimizer = optimizer
        self.scaler = scaler


class Pair(typing.NamedTuple):
    model: torch.nn.Module
    optimizer: typing.Any
    scaler: typing.Any


def save(path, request):
    states = {"model": request.model.state_dict(), "optimizer": request.optimizer.state_dict()}
    states["scaler"] = request.scaler.state_dict()
    torch.save(states, path)


def load(path, target):
    states = torch.load(path)
    target.model.load_state_dict(states["model"])
    target.optimizer.load_state_dict(states["optimizer"])
    if GUARD:
        target.scaler.load_state_dict(states["scaler"])


def is_on(args, device):
    return args.precision != "fp32" and device.type == "cuda"


def make_scaler(args, device):
    enabled = is_on(args, device)
    return torch.amp.GradScaler("cuda", enabled=enabled)


def main(model, loader, criterion):
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--resume")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = MADE
    LOAD
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16, enabled=is_on(args, device)):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    SAVE
"""
MADE = ['torch.amp.GradScaler("cuda", enabled=is_on(args, device))', "make_scaler(args, device)"]
WAYS = [
    (
        "load(args.resume, Request(model, optimizer, scaler))",
        'save("last.pt", Request(model=model, optimizer=optimizer, scaler=scaler, epoch=1))',
    ),
    ("load(args.resume, Held(model, optimizer, scaler))", 'save("last.pt", Held(model, optimizer, scaler=scaler))'),
    ("load(args.resume, Pair(model, optimizer, scaler))", 'save("last.pt", Request(model, optimizer, scaler))'),
    (
        "held = Request(model, optimizer, scaler); load(args.resume, held)",
        "save('last.pt', held)",
    ),
]


def codes(made: str, way: tuple[str, str], guard: str) -> list[str]:
    text = PROGRAM.replace("MADE", made).replace("LOAD", way[0]).replace("SAVE", way[1]).replace("GUARD", guard)
    return [each.code for each in amplint.check(text) if each.code in ("AMP413", "AMP423")]


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("way", WAYS)
def test_a_state_that_may_be_empty_is_loaded_where_its_key_is_there(made: str, way: tuple[str, str]) -> None:
    assert codes(made, way, '"scaler" in states') == ["AMP423"]


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("way", WAYS[:2])
@pytest.mark.parametrize("guard", ['states.get("scaler")', "target.scaler.is_enabled() and states['scaler']"])
def test_it_is_asked_for(made: str, way: tuple[str, str], guard: str) -> None:
    assert codes(made, way, guard) == []


@pytest.mark.parametrize("way", WAYS)
def test_a_scaler_that_is_always_on_has_a_state(way: tuple[str, str]) -> None:
    assert codes('torch.amp.GradScaler("cuda")', way, '"scaler" in states') == []


def test_a_setting_is_not_what_else_its_object_holds() -> None:
    """`run.args` is the command line, whatever the checkpoint gives for the rest of `run`."""
    text = PROGRAM.replace("MADE", "make_scaler(args, device)").replace("GUARD", '"scaler" in states')
    text = text.replace(
        "LOAD", "load(args.resume, Request(model, optimizer, scaler)); warm_up(Run(torch.load('other.pt'), args))"
    )
    text = text.replace("SAVE", 'save("last.pt", Request(model, optimizer, scaler))') + RUN
    assert [each.code for each in amplint.check(text) if each.code in ("AMP413", "AMP423")] == ["AMP423"]


RUN = """

@dataclasses.dataclass
class Run:
    model: torch.nn.Module
    args: argparse.Namespace


def warm_up(run):
    return is_on(run.args, torch.device("cuda"))
"""
