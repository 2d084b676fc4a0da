"""Steps whose models, optimizers, scalers and losses are kept in containers: by comprehensions, in torch's own."""

from __future__ import annotations

import pytest

from amplint.verify.interpreter.interpreter import Interpreter
from amplint.verify.steps.judge import RIGHT, UNKNOWN, WRONG
from tests.interpreting import Ran, interpret

HEAD = """
import torch
from torch import nn, optim
from torch.nn import functional as F

def train(nets, models, loader, cfg):
"""
LOOP = """
    for x, y in loader:
        for EACH:
            OPT.zero_grad()
            with torch.autocast("cuda"):
                loss = F.cross_entropy(m(x), y)
            SCALER.scale(loss).backward()
            UNSCALE
            nn.utils.clip_grad_norm_(m.parameters(), 1.0)
            SCALER.step(OPT)
            SCALER.update()
"""
UNSCALED = [("SCALER.unscale_(OPT)", RIGHT), ("pass", WRONG)]


def ran(text: str, unscale: str, **names: str) -> Ran:
    for name, value in {"UNSCALE": unscale, **names}.items():
        text = text.replace(name, value)
    (found,) = interpret(HEAD + text)
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("unscale", "state"), UNSCALED)
@pytest.mark.parametrize(
    ("kept", "each", "opt", "scaler"),
    [
        (
            "opts = {k: optim.Adam(m.parameters()) for k, m in nets.items()}\n"
            '    scalers = {k: torch.amp.GradScaler("cuda") for k in nets}',
            "k, m in nets.items()",
            "opts[k]",
            "scalers[k]",
        ),
        (
            "nets = nn.ModuleDict({k: build(k) for k in cfg.names})\n"
            "    opts = {k: optim.SGD(m.parameters(), lr=0.1) for k, m in nets.items()}\n"
            '    scalers = {k: torch.amp.GradScaler("cuda") for k in nets}',
            "k, m in nets.items()",
            "opts[k]",
            "scalers[k]",
        ),
        (
            'parts = nn.ModuleDict({"g": make_g(cfg), "d": make_d(cfg)}).to("cuda")\n'
            "    opts = {k: optim.SGD(m.parameters(), lr=0.1) for k, m in parts.items()}\n"
            '    scaler = torch.amp.GradScaler("cuda")',
            "k, m in parts.items()",
            "opts[k]",
            "scaler",
        ),
        (
            "opts = [optim.SGD(m.parameters(), lr=0.1) for m in models]\n"
            '    scalers = [torch.amp.GradScaler("cuda") for _ in models]',
            "m, o, s in zip(models, opts, scalers)",
            "o",
            "s",
        ),
        (
            "opts = {}\n    for k in cfg.names:\n        opts[k] = optim.SGD(nets[k].parameters(), lr=0.1)\n"
            '    scaler = torch.amp.GradScaler("cuda")',
            "k, m in [(k, nets[k]) for k in cfg.names]",
            "opts[k]",
            "scaler",
        ),
    ],
)
def test_a_step_of_each(kept: str, each: str, opt: str, scaler: str, unscale: str, state: str) -> None:
    found = ran(f"    {kept}\n{LOOP}", unscale, EACH=each, OPT=opt, SCALER=scaler)
    assert (found.judged.state, found.judged.reason) == (state, "")
    assert found.shown <= {"gradient", "update"}


JOINT = """
    opts = {k: optim.SGD(m.parameters(), lr=0.1) for k, m in nets.items()}
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        LOSSES
        for o in opts.values():
            o.zero_grad()
        scaler.scale(TOTAL).backward()
        for k, o in opts.items():
            UNSCALE
            nn.utils.clip_grad_norm_(nets[k].parameters(), 1.0)
        for o in opts.values():
            scaler.step(o)
        scaler.update()
"""
IN_LOOP = """losses = {}
        with torch.autocast("cuda"):
            for k, m in nets.items():
                losses[k] = F.cross_entropy(m(x), y)"""
IN_DISPLAY = """with torch.autocast("cuda"):
            losses = {k: F.cross_entropy(m(x), y) for k, m in nets.items()}"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("unscale", "state"), [("scaler.unscale_(o)", RIGHT), ("pass", WRONG)])
@pytest.mark.parametrize("losses", [IN_LOOP, IN_DISPLAY])
@pytest.mark.parametrize("total", ["sum(losses.values())", "sum(losses[k] * cfg.weights[k] for k in losses)"])
def test_losses_of_each_are_summed(losses: str, total: str, unscale: str, state: str) -> None:
    found = ran(JOINT, unscale, LOSSES=losses, TOTAL=total)
    assert (found.judged.state, found.judged.reason) == (state, "")


def test_which_key_it_is_is_not_known() -> None:
    text = JOINT.replace("UNSCALE", 'if k == "head":\n                scaler.unscale_(o)')
    found = ran(text, "", LOSSES=IN_DISPLAY, TOTAL="sum(losses.values())")
    assert found.judged.state == WRONG
    assert len(found.runs.paths) > 1


def test_what_a_module_dict_of_criteria_makes_is_a_loss() -> None:
    text = """
    opt = optim.SGD(nets.parameters(), lr=0.1)
    criteria = nn.ModuleDict({"a": nn.CrossEntropyLoss(), "b": nn.MSELoss()})
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        with torch.autocast("cuda"):
            out = nets(x)
            parts = {k: c(out[k], y[k]) for k, c in criteria.items()}
        opt.zero_grad()
        scaler.scale(sum(parts.values())).backward()
        UNSCALE
        nn.utils.clip_grad_norm_(nets.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
"""
    assert ran(text, "scaler.unscale_(opt)").judged.state == RIGHT
    assert ran(text, "pass").judged.state == WRONG


SUMS = """
import torch

scaler = torch.amp.GradScaler("cuda")
sums = loaded()
for name, x in loader:
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = model(x).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    {sums}
"""


@pytest.mark.parametrize(
    "sums",
    [
        "sums[name] = sums[name] + loss.item()",
        "sums['loss'] = sums.get(name) + loss.item()",
        "sums['loss'] = str(float(sums[str(sums[name])]))",
        "sums['a'] = sums[name] + 1; sums['b'] = sums[name] + 2",
        "sums = [str(sums[name]), float(sums[name])]",
    ],
)
def test_a_table_whose_items_are_made_of_each_other_is_followed(sums: str) -> None:
    (found,) = interpret(SUMS.format(sums=sums))
    assert (found.judged.state, found.judged.reason) == (RIGHT, "")


def test_what_is_nested_without_end_is_not_checkable(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: Interpreter) -> None:
        raise RecursionError

    monkeypatch.setattr(Interpreter, "run", run)
    (found,) = interpret(SUMS.format(sums="pass"))
    assert (found.judged.state, found.judged.reason) == (
        UNKNOWN,
        "amplint can't follow values that are computed from each other",
    )


MANAGER = """
import torch
{star}

class Manager:
    def __init__(self, params):
        self.models, self.optimizers = {empty}, {empty}
        self.kept = {empty}
        self.optimizers = {empty}
        self.scaler = torch.amp.GradScaler("cuda")

    def load(self, name):
        self.optimizers[name] = torch.optim.SGD(self.models[name].parameters(), lr=0.1)

    def train(self, x, y, opt):
        print(str(opt), "{{}}".format(opt))
        with torch.autocast("cuda"):
            loss = torch.nn.functional.cross_entropy(self.models["a"](x), y)
        for name in self.optimizers:
            self.optimizers[name].zero_grad()
        self.scaler.scale(loss).backward()
        for name in self.optimizers:
            self.scaler.step(self.optimizers[name])
        self.scaler.update()
"""


@pytest.mark.parametrize("empty", ["{}", "dict()", "collections.OrderedDict()"])
@pytest.mark.parametrize("star", ["import collections", "import collections\nfrom data import *"])
def test_a_container_that_another_method_fills(empty: str, star: str) -> None:
    """And what only tells of an object by a name that may be an optimizer's trains nothing with it."""
    (found,) = interpret(MANAGER.format(star=star, empty=empty))
    assert found.judged.state == RIGHT
