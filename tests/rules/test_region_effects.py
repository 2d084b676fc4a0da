"""What a region does that is open too long: AMP309 through functions, and the old weights of AMP301 and AMP302."""

from __future__ import annotations

import pytest

from amplint import check, fix
from amplint.config.settings import Settings

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
        (
            "pass",
            "D(G(x))",
            "",
            "if line 9 steps `D`, `D` on line 10 still uses the weights from before the step, which autocast caches",
        ),
        (
            "od = torch.optim.SGD(D.parameters())",
            "D(G(x))",
            "",
            "`D` on line 10 still uses the weights from before the step",
        ),
        ("od = torch.optim.SGD(G.parameters())", "D(G(x))", "", None),
        ("pass", "G(x)", "", None),
        ("pass", "D(G(x))", ", cache_enabled=False", None),
    ],
)
def test_301_names_the_old_weights(made: str, again: str, more: str, said: str | None) -> None:
    text = PHASES.format(made=made, again=again, more=more)
    for which in (("AMP301", "AMP302"), ("AMP302",)):
        (found,) = check(text, settings=Settings(frozenset(which), isolated=True))
        assert (
            (said or "still uses the weights from before the step") in found.message
            if said
            else "still uses the weights from before the step" not in found.message
        )


ROUNDS = """\
import torch
from torch import nn

N_CRITIC = 5
PARTS = "d", "g"


def train(loader, rounds):
    G, D = nn.Linear(8, 8), nn.Linear(8, 1)
    opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
    {outer}
        with torch.autocast("cuda", dtype=torch.bfloat16):
            for {loop}:
                {test}
                    opt_d.zero_grad()
                    D(x).mean().backward()
                    opt_d.step()
                else:
                    opt_g.zero_grad()
                    D(G(x)).mean().backward()
                    opt_g.step()
"""
CRITIC = ROUNDS[: ROUNDS.index("                else:")]


def rounds(loop: str, test: str = "if True:", outer: str = "for x in loader:") -> str:
    return (CRITIC if test == "if True:" or "if" not in test else ROUNDS).format(loop=loop, test=test, outer=outer)


@pytest.mark.parametrize(
    ("loop", "test", "again"),
    [
        ("i in range(2)", "if i == 0:", "`D` on line 20 still uses the weights from before the step"),
        ("i in range(2)", "if not i:", "`D` on line 20 still uses the weights from before the step"),
        ("i in range(2)", "if i:", None),
        ("i in range(2)", "if i > 0:", None),
        ("i in range(2)", "if i % 2:", None),
        ("i, _ in enumerate((x, x))", "if i % 2 == 0:", "`D` on line 20 still uses the weights from before the step"),
        ('part in ("d", "g")', 'if part == "d":', "`D` on line 20 still uses the weights from before the step"),
        ('part in ("g", "d")', 'if part == "d":', None),
        ("i in range(2)", "if rounds:", "`D` on line 16 still uses the weights from before the step"),
        ('part in {"d": D, "g": G}.keys()', 'if part == "d":', None),
        ('part in {"d": D, "g": G}.keys()', "if True:", "`D` on line 16 still uses the weights from before the step"),
        ("one in (opt_d, opt_g)", "if one is opt_d:", None),
        ("part in PARTS", 'if part == "d":', None),
        ("part in PARTS", 'if rounds != "d":', "`D` on line 16 still uses the weights from before the step"),
        ("_ in range(N_CRITIC)", "if True:", "`D` on line 16 still uses the weights from before the step"),
    ],
)
def test_a_region_of_a_few_rounds_that_is_opened_anew_learns(loop: str, test: str, again: str | None) -> None:
    text = rounds(loop, test)
    assert codes(text, "AMP309") == []
    (found,) = check(text, settings=Settings(frozenset({"AMP302"}), isolated=True))
    assert again in found.message if again else "still uses the weights from before the step" not in found.message


@pytest.mark.parametrize(
    "text",
    [
        rounds("y in loader", outer="for epoch in range(3):"),
        rounds("i in range(rounds)"),
        rounds("i in range(100)"),
        rounds("i in range(2)", outer="if rounds:"),
        rounds("i in range(2)", outer="for x in loader[:1]:"),
        rounds("i in range(2)", "for y in loader:"),
        rounds("i in range(2)", "for k in range(3):"),
        rounds("i in range(2)", "while loader:"),
    ],
)
def test_309_stays_where_the_rounds_of_one_region_are_many(text: str) -> None:
    assert codes(text, "AMP309") == ["AMP309"]


@pytest.mark.parametrize(
    "called", ["for x in loader:\n        both(G, D, opt_g, opt_d, x)", "both(G, D, opt_g, opt_d, loader)"]
)
def test_309_a_decorated_function_is_opened_anew_by_the_loop_that_calls_it(called: str) -> None:
    text = f"""\
import torch

@torch.autocast("cuda", dtype=torch.bfloat16)
def both(G, D, opt_g, opt_d, x):
    for model, opt in ((D, opt_d), (G, opt_g)):
        opt.zero_grad()
        model(x).mean().backward()
        opt.step()

def train(G, D, opt_g, opt_d, loader):
    {called}
"""
    assert bool(codes(text, "AMP309")) is ("for" not in called)


def test_an_object_of_a_loop_is_not_said_to_run_again() -> None:
    text = rounds("D, opt_d in zip((D, G), (opt_d, opt_g))")
    (found,) = check(text, settings=Settings(frozenset({"AMP302"}), isolated=True))
    assert "still uses the weights from before the step" not in found.message


def test_a_region_that_ends_in_each_round_leaves_no_old_weights() -> None:
    text = rounds("_ in (x,)", outer="for x in (loader[0], loader[1]):")
    assert (
        "still uses the weights from before the step"
        not in check(text, settings=Settings(frozenset({"AMP302"}), isolated=True))[0].message
    )
