"""A flush behind a loop is right unless its path proves it wrong: AMP407 and AMP418. And what helpers say of a step."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP404", "AMP407", "AMP410", "AMP411", "AMP418"}), isolated=True)

TRAIN = """
import torch


class Tally:
    def __init__(self, n):
        self.n, self.k = n, 0

    def tick(self):
        self.k += 1
        return self.k % self.n == 0

    @property
    def pending(self):
        return self.k % self.n != 0


def train(model, loader, optimizer, n, total{given}):
    {made}
    seen, left, losses, tally = 0, n, [], Tally(n)
    i = -1
    for i, (x, y) in enumerate(loader):
        {head}
        with torch.autocast("cpu", dtype=torch.float16):
            loss = model(x).sub(y).square().mean() / n
        scaler.scale(loss).backward()
        {count}
        if {boundary}:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            {after}
    {between}
    if {flush}:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
STOP = "if seen >= total: break"


def said(text: str) -> list[str]:
    """The codes of what is found."""
    return sorted({each.code for each in check(text, "a.py", SETTINGS)})


def train(flush: str, made: bool = True, **parts: str) -> list[str]:
    """The codes of what is found in a loop with a flush behind it."""
    others = {"head": STOP, "count": "seen += 1", "boundary": "seen % n == 0", "after": "pass", "between": "pass"}
    scaler = 'scaler = torch.amp.GradScaler("cpu")' if made else "optimizer.zero_grad()"
    return said(TRAIN.format(**{**others, **parts}, flush=flush, made=scaler, given="" if made else ", scaler"))


@pytest.mark.parametrize(
    ("flush", "parts"),
    [
        ("leftover", {"between": "leftover = seen % n"}),
        ("leftover > 0", {"between": "leftover = seen % n"}),
        ("(leftover := seen % n) != 0", {}),
        ("pending", {"between": "pending = bool(seen % n)"}),
        (
            "(i + 1) % n != 0",
            {"head": "if i == total:\n            i -= 1\n            break", "boundary": "(i + 1) % n == 0"},
        ),
        ("tally.pending", {"head": "if tally.k >= total: break", "count": "pass", "boundary": "tally.tick()"}),
        ("len(losses) % n", {"count": "losses.append(loss.item())", "boundary": "len(losses) % n == 0"}),
        ("left < n", {"count": "left -= 1", "boundary": "left == 0", "after": "left = n"}),
        ("left != n", {"count": "left -= 1", "boundary": "left == 0", "after": "left = n"}),
        ("losses", {"count": "losses.append(loss)", "boundary": "len(losses) == n", "after": "losses.clear()"}),
    ],
)
def test_a_flush_of_what_is_left(flush: str, parts: dict[str, str]) -> None:
    assert train(flush, **parts) == []


@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize(
    ("flush", "parts"),
    [
        ("True", {}),
        ("seen % n == 0", {}),
        ("leftover == 0", {"between": "leftover = seen % n"}),
        ("not leftover", {"between": "leftover = seen % n"}),
        ("seen % n != 0", {"head": f"seen += 1\n        {STOP}", "count": "pass"}),
        ("(i + 1) % n != 0", {"head": "if i == total: break", "boundary": "(i + 1) % n == 0"}),
        # Which arm is taken makes no difference, or it is no question of the loop's.
        ("True", {"between": "if len(losses) > 3:\n        print(seen)"}),
        ("total", {}),
    ],
)
def test_a_flush_that_comes_when_nothing_is_left(flush: str, parts: dict[str, str], made: bool) -> None:
    assert "AMP407" in train(flush, made, **parts)


def test_what_was_cleared_in_the_arm_itself_is_missing() -> None:
    flush = "seen % 7 > 2:\n        optimizer.zero_grad()\n    if seen % 7 > 2"
    assert train(flush) == ["AMP407"]


HELPER = """
import torch


def step_if(i, k, scaler, optimizer):
    {}


def fit(model, optimizer, loader, k):
    scaler = torch.amp.GradScaler("cpu")
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = model(x).sub(y).square().mean() / k
        scaler.scale(loss).backward()
        {}:
            scaler.update()
            optimizer.zero_grad()
"""
KEPT = """done = (i + 1) % k == 0
    if done:
        scaler.step(optimizer)
    return done"""
LITERAL = """if (i + 1) % k:
        return False
    scaler.step(optimizer)
    return True"""
NOTHING = """if (i + 1) % k == 0:
        scaler.step(optimizer)
        return True"""
ASKED = "if step_if(i, k, scaler, optimizer)"


@pytest.mark.parametrize("body", [KEPT, LITERAL, NOTHING])
@pytest.mark.parametrize("asked", [ASKED, "stepped = step_if(i, k, scaler, optimizer)\n        if stepped"])
def test_a_helper_that_says_whether_it_stepped(body: str, asked: str) -> None:
    assert said(HELPER.format(body, asked)) == []
    assert said(HELPER.format(body, asked.replace("if step", "if not step"))) == ["AMP404", "AMP410"]


CLEARS = """
import torch


class Trainer:
    def __init__(self, model, k):
        self.model, self.k = model, k
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cpu")

    def maybe_step(self, i):
        if {}:
            return
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def maybe_clear(self, i):
        if i % self.k == 0:
            self.optimizer.zero_grad()

    def fit(self, loader):
        for i, (x, y) in enumerate(loader):
            self.maybe_clear(i)
            with torch.autocast("cpu", dtype=torch.float16):
                loss = self.model(x).sub(y).square().mean() / self.k
            self.scaler.scale(loss).backward()
            self.maybe_step(i)
"""


def test_a_clear_at_the_start_of_what_a_step_ends() -> None:
    assert said(CLEARS.format("(i + 1) % self.k")) == []
    assert said(CLEARS.format("i < 0")) == ["AMP411"]


GROUPS = """
import torch


def fit(model, loader, groups):
    scaler = torch.amp.GradScaler("cpu")
    for x, y in loader:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = model(x).sub(y).square().mean()
        scaler.scale(loss).backward()
        for group in groups:
            {}
            scaler.unscale_(opt)
            scaler.step(opt)
            opt.zero_grad()
        scaler.update()
"""


@pytest.mark.parametrize(
    "taken",
    [
        "opt = group.optimizer",
        'opt = group["optimizer"]',
        'opt = group.get("optimizer")\n            if opt is None: continue',
    ],
)
def test_an_optimizer_of_each_group(taken: str) -> None:
    assert said(GROUPS.format(taken)) == []
    early = GROUPS.replace("{}", f"{taken}\n            opt.zero_grad()")
    assert said(early) == ["AMP407"]


IN_A_HELPER = """
import torch


def fit(loader, model, opt, scaler):
    for x, y in loader:
        opt.zero_grad()
        loss = model(x).sub(y).square().mean()
        if {asked}:
            scaler.unscale_(opt)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()


def train(loader, model, use_amp):
    opt = torch.optim.SGD(model.parameters())
    scaler = torch.amp.GradScaler("cpu", enabled=use_amp)
    fit(loader, model, opt, scaler)
"""


@pytest.mark.parametrize(
    ("asked", "codes"),
    [("scaler.is_enabled()", ["AMP418"]), ("scaler.get_scale() > 2", [])],
)
def test_whether_a_scaler_is_on_is_no_guess(asked: str, codes: list[str]) -> None:
    assert [each for each in said(IN_A_HELPER.format(asked=asked)) if each == "AMP418"] == codes


_OPTIONAL = """
import torch


def train(model, loader, optimizer, n, use_amp):
    scaler = torch.amp.GradScaler("cpu") if use_amp else None
    for step, x in enumerate(loader, 1):
        if {flag}:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = model(x).mean() / n
            scaler.scale(loss).backward()
            {after}
        else:
            loss = model(x).mean() / n
            loss.backward()
        if step % n == 0 or step == len(loader):
            if {flag}:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize("flag", ["scaler", "scaler is not None", "use_amp"])
def test_paths_without_the_scaler_are_no_other_outcome(flag: str) -> None:
    """That a run without a scaler has gradients where it steps tells nothing of a run with one, which clears them."""
    assert said(_OPTIONAL.format(flag=flag, after="optimizer.zero_grad()")) == ["AMP407"]
    assert said(_OPTIONAL.format(flag=flag, after="pass")) == []
    assert said(_OPTIONAL.format(flag=flag, after="if step % n == 1: optimizer.zero_grad()")) == []
