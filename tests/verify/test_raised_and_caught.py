"""What a program raises itself, and catches around the step or in the loop: training goes on behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from amplint.verify.steps.judge import RIGHT, WRONG
from tests.interpreting import Ran, interpret, interpret_file, project

HEAD = """
import torch
import torch.nn.functional as F
from contextlib import suppress
from torch import nn

class Overflow(RuntimeError):
    pass

class Deeper(Overflow):
    pass

class Other(Exception):
    pass

def check(norm):
    if not torch.isfinite(norm):
        raise RAISED

def asserts(norm):
    assert torch.isfinite(norm)
"""
LOOP = """
def train(model, loader, optimizer, log):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        try:
            scaler.unscale_(optimizer)
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            CHECK
        except CAUGHT:
            HANDLED
        scaler.step(optimizer)
        scaler.update()
"""
TWICE = "unscale_() has already been called"


def ran(text: str) -> Ran:
    (found,) = interpret(text)
    return found


def loop(
    handled: str, check: str = "check(norm)", raised: str = "Overflow(norm)", caught: str = "Overflow", head: str = HEAD
) -> Ran:
    text = (head + LOOP).replace("RAISED", raised).replace("CAUGHT", caught)
    text = text.replace("HANDLED", handled.replace("\n", "\n" + " " * 12))
    return ran(text.replace("CHECK", check.replace("\n", "\n" + " " * 12)))


def raises_beyond(found: Ran) -> bool:
    """Whether the run with an overflow, and with nothing assumed, raises what it should not, caught or not."""
    said = [each.detail for each in found.runs.paths[0].overflows]
    return any(TWICE in each for each in [*said, *found.runs.paths[0].beyond_caught])


@pytest.mark.parametrize(
    ("check", "raised", "caught"),
    [
        ("check(norm)", "Overflow(norm)", "Overflow"),
        ("check(norm)", "Overflow", "RuntimeError"),
        ("check(norm)", "Deeper(norm)", "Overflow as error"),
        ("check(norm)", "Deeper(norm)", "(ValueError, RuntimeError)"),
        ("check(norm)", "ZeroDivisionError()", "ArithmeticError"),
        ("check(norm)", "Other()", "Exception"),
        ("check(norm)", "Other()", "BaseException"),
        ("asserts(norm)", "Other()", "AssertionError"),
        ("if not torch.isfinite(norm):\n    raise Overflow(norm)", "Other()", "Overflow"),
    ],
)
@pytest.mark.sampled(4)
def test_the_rest_of_an_iteration_is_left_out(check: str, raised: str, caught: str) -> None:
    found = loop("continue", check, raised, caught)
    assert found.judged.state == WRONG
    assert TWICE in found.judged.faults[0].text
    assert raises_beyond(found)
    assert loop("scaler.update()\ncontinue", check, raised, caught).judged.state == RIGHT
    assert loop("pass", check, raised, caught).judged.state == RIGHT


@pytest.mark.parametrize(
    ("raised", "caught", "handled"),
    [
        ("Other()", "Overflow", "continue"),
        ("Overflow()", "Deeper", "continue"),
        ("SystemExit(1)", "ValueError", "continue"),
        ("Overflow()", "Overflow", "raise"),
        ("Overflow()", "Overflow as error", "raise SystemExit from error"),
        ("Overflow()", "Overflow as error", "log(error)\nraise error"),
    ],
)
def test_what_ends_the_training_leaves_nothing_out(raised: str, caught: str, handled: str) -> None:
    assert loop(handled, "check(norm)", raised, caught).judged.state == RIGHT


@pytest.mark.parametrize("raised", ["raise", "raise error"])
def test_what_is_raised_again_is_caught_as_what_it_was(raised: str) -> None:
    inner = f"try:\n    check(norm)\nexcept Overflow as error:\n    log(error)\n    {raised}"
    assert TWICE in loop("continue", inner, caught="RuntimeError").judged.faults[0].text
    assert loop("scaler.update()\ncontinue", inner, caught="RuntimeError").judged.state == RIGHT


def test_a_loss_that_is_not_finite_is_left_out_before_anything_is_unscaled() -> None:
    text = """
def train(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        try:
            BEFORE
            if not torch.isfinite(loss):
                raise ValueError("loss")
            AFTER
        except ValueError:
            optimizer.zero_grad()
            continue
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
    backward = "scaler.scale(loss).backward(); scaler.unscale_(optimizer)"
    good = ran(HEAD + text.replace("BEFORE", "pass").replace("AFTER", backward))
    assert good.judged.state == RIGHT
    bad = ran(HEAD + text.replace("BEFORE", backward).replace("AFTER", "pass"))
    assert TWICE in bad.judged.faults[0].text
    assert bad.judged.faults[0].path == "loss is not finite"


SUPPRESSED = """
def train(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        with suppress(Overflow):
            scaler.unscale_(optimizer)
            check(nn.utils.clip_grad_norm_(model.parameters(), 1.0))
            scaler.step(optimizer)
            INSIDE
        OUTSIDE
"""


def test_so_it_is_with_suppress() -> None:
    text = HEAD.replace("RAISED", "Deeper()") + SUPPRESSED
    bad = ran(text.replace("INSIDE", "scaler.update()").replace("OUTSIDE", "pass"))
    assert TWICE in bad.judged.faults[0].text
    assert ran(text.replace("INSIDE", "pass").replace("OUTSIDE", "scaler.update()")).judged.state == RIGHT


STEP = """
def step(model, batch, optimizer, scaler):
    x, y = batch
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if not torch.isfinite(norm):
        DONE
        raise Overflow(norm)
    scaler.step(optimizer)
    scaler.update()
"""
MAIN = """
def main(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for batch in loader:
        try:
            step(model, batch, optimizer, scaler)
        except CAUGHT:
            print("skipped")
"""


def steps(main: str, done: str, caught: str) -> list[Ran]:
    text = HEAD + STEP + main
    return interpret(text.replace("RAISED", "Other()").replace("DONE", done).replace("CAUGHT", caught))


@pytest.mark.parametrize("caught", ["Overflow", "RuntimeError"])
def test_who_calls_a_step_catches_what_it_raises(caught: str) -> None:
    assert any(TWICE in fault.text for each in steps(MAIN, "pass", caught) for fault in each.judged.faults)
    good = [each.judged.faults for each in steps(MAIN, "scaler.update()", caught)]
    assert not any(fault.path == "with an overflow" for faults in good for fault in faults)
    if caught == "Overflow":
        assert not any(good)


@pytest.mark.parametrize("caught", ["Other", "KeyError"])
def test_who_calls_a_step_and_catches_something_else_ends(caught: str) -> None:
    assert not any(each.judged.faults for each in steps(MAIN, "pass", caught))


AROUND = """
def main(model, loader, optimizer, scaler):
    try:
        for batch in loader:
            step(model, batch, optimizer, scaler)
    except CAUGHT:
        HANDLED
"""
SWEEP = """
def sweep(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(3):
        main(model, loader, optimizer, scaler)
"""


@pytest.mark.parametrize("handled", ["print('failed')", "return", "log()\n        return None"])
def test_what_is_caught_around_the_loop_ends_it(handled: str) -> None:
    """No other iteration comes to the scaler, unless the function with the loop is called in a loop itself."""
    main = AROUND.replace("HANDLED", handled)
    assert not any(each.judged.faults for each in steps(main, "pass", "Overflow"))
    assert any(each.judged.faults for each in steps(main + SWEEP, "pass", "Overflow"))


@pytest.mark.parametrize(("handled", "again"), [("break", False), ("continue", True), ("return", False)])
def test_a_handler_that_leaves_the_loop_ends_it(handled: str, again: bool) -> None:
    main = MAIN.replace('print("skipped")', handled)
    assert any(each.judged.faults for each in steps(main, "pass", "Overflow")) is again


def test_a_caller_in_another_file_catches_too(tmp_path: Path) -> None:
    head = HEAD.replace("RAISED", "Other()")
    imports = "import torch\nfrom engine import Overflow, step\n"
    files = {"engine": head + STEP.replace("DONE", "pass"), "run": imports + MAIN.replace("CAUGHT", "Overflow")}
    folder = project(tmp_path, **files)
    (found,) = interpret_file(folder / "engine.py")
    assert TWICE in found.judged.faults[0].text
    (folder / "engine.py").write_text(head + STEP.replace("DONE", "scaler.update()"), "utf-8")
    (found,) = interpret_file(folder / "engine.py")
    assert found.judged.state == RIGHT


def test_what_subclasses_are_to_define_raises_nothing() -> None:
    head = HEAD.replace("    if not torch.isfinite(norm):\n        raise RAISED", "    raise NotImplementedError")
    assert loop("continue", caught="NotImplementedError", head=head).judged.state == RIGHT


AGAIN = """
def step(model, batch, optimizer, scaler):
    x, y = batch
    try:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if not torch.isfinite(loss):
            raise Overflow(loss)
        scaler.step(optimizer)
        scaler.update()
    except Overflow:
        INNER
        raise
"""


@pytest.mark.parametrize(
    "inner",
    ["pass", "try:\n            raise Other()\n        except Other:\n            pass"],
    ids=["plain", "nested"],
)
def test_a_handler_raises_again_what_it_has_caught_itself(inner: str) -> None:
    text = (HEAD + AGAIN + MAIN).replace("RAISED", "Other()").replace("CAUGHT", "Overflow").replace("INNER", inner)
    assert any(TWICE in fault.text for each in interpret(text) for fault in each.judged.faults)
