"""What a region does that is open too long: AMP309 through functions, and the old weights of AMP301 and AMP302."""

from __future__ import annotations

import pytest

from amplint import check, fix
from amplint.settings import Settings

ONE = """\
import torch
from torch import nn


def one(model, opt, scaler, x, y):
    loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
{more}

def train(model, opt, loader):
    scaler = torch.amp.GradScaler("cuda")
{body}
"""
REGION = '    with torch.autocast("cuda", dtype=torch.float16):\n'
IN_REGION = f"{REGION}        for x, y in loader:\n            one(model, opt, scaler, x, y)"
LOOP = "    for x, y in loader:\n        one(model, opt, scaler, x, y)\n"


def codes(text: str, *which: str) -> list[str]:
    return [each.code for each in check(text, settings=Settings(frozenset(which), isolated=True))]


@pytest.mark.parametrize(
    ("body", "more", "findings"),
    [
        (IN_REGION, "", 1),
        (IN_REGION.replace("loader:", "loader[:1]:"), "", 0),
        (IN_REGION.replace("float16)", "float16, cache_enabled=False)"), "", 0),
        (IN_REGION, "    torch.clear_autocast_cache()\n", 0),
        (f"{LOOP}{REGION}        one(model, opt, scaler, x, y)", "", 0),
        (f"{REGION}        one(model, opt, scaler, x, y)\n{LOOP}", "", 0),
        (f"    for x, y in loader:\n    {REGION}            one(model, opt, scaler, x, y)", "", 0),
        (
            f"    def two(x, y):\n        one(model, opt, scaler, x, y)\n{IN_REGION}".replace(
                "            one(model, opt, scaler, x, y)", "            two(x, y)"
            ),
            "",
            1,
        ),
    ],
)
def test_309_a_function_that_steps(body: str, more: str, findings: int) -> None:
    text = ONE.format(body=body, more=more)
    assert codes(text, "AMP309") == ["AMP309"] * findings
    assert not codes(fix(text, settings=Settings(frozenset({"AMP309"}), isolated=True)), "AMP309")


def test_309_a_method_that_steps_under_a_decorator() -> None:
    text = """\
import torch
from torch import nn

class Trainer:
    def __init__(self, model):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cpu")

    def one(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.opt.zero_grad()

    @torch.autocast("cpu", dtype=torch.float16)
    def fit(self, loader):
        for x, y in loader:
            self.one(x, y)
"""
    (found,) = check(text, settings=Settings(frozenset({"AMP301", "AMP302", "AMP309"}), isolated=True))
    assert found.code == "AMP309"
    assert "AMP301" in found.message
    assert codes(text.replace("        for x, y in loader:\n            self", "        x, y = loader\n        self"),
                 "AMP309") == []  # fmt: skip


PHASES = """\
import torch
from torch import nn

def step(G, D, og, od, scaler, x, y, criterion):
    {made}
    with torch.autocast("cuda", dtype=torch.float16{more}):
        d = criterion(D(x), y)
        scaler.scale(d).backward()
        scaler.step(od)
        g = criterion({again}, y)
    scaler.scale(g).backward()
    scaler.step(og)
    scaler.update()
"""


@pytest.mark.parametrize(
    ("made", "again", "more", "said"),
    [
        ("pass", "D(G(x))", "", "`D` runs again on line 10, with old weights if those are what line 9 steps"),
        ("od = torch.optim.SGD(D.parameters())", "D(G(x))", "", "`D` runs again on line 10, with the old weights"),
        ("od = torch.optim.SGD(G.parameters())", "D(G(x))", "", None),
        ("pass", "G(x)", "", None),
        ("pass", "D(G(x))", ", cache_enabled=False", None),
    ],
)
def test_301_names_the_old_weights(made: str, again: str, more: str, said: str | None) -> None:
    text = PHASES.format(made=made, again=again, more=more)
    for which in (("AMP301", "AMP302"), ("AMP302",)):
        (found,) = check(text, settings=Settings(frozenset(which), isolated=True))
        assert (said or "runs again") in found.message if said else "runs again" not in found.message
