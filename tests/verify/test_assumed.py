"""Tests that come out alike in each run of the bench, and may come out otherwise in training: they are assumed to."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import amplint
from amplint.verify.interpreter import assumptions
from amplint.verify.interpreter.assumptions import MOST_ASSUMED, MOST_COMBINED, Choices, Untried, explore
from amplint.verify.steps.judge import RIGHT, UNKNOWN, WRONG
from amplint.verify.steps.output import as_json
from amplint.verify.steps.verdict import CLEAN, MISBEHAVES, NOT_CHECKABLE, decide, with_out_of_sight
from tests.interpreting import Ran, interpret

HEAD = """
from contextlib import suppress
import torch
import torch.nn.functional as F
from torch import nn
"""
LOOP = """
def late(step):
    return step > 300

def has_all(model):
    for p in model.parameters():
        if p.grad is None:
            return False
    return True

def train(model, loader, optimizer, args):
    scaler = torch.amp.GradScaler("cuda")
    n = 0
    patience = 10
    for i, (x, y) in enumerate(loader):
        n = n + 1
        patience -= 1
        warm = i < 500
        mode = "late" if i > 500 else "early"
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            out = model(x)
            loss = F.cross_entropy(out, y)
            aux = F.mse_loss(out, y)
            boxes = [b for b in y if len(b)]
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        ASKED
        scaler.step(optimizer)
        scaler.update()
"""
TWICE = "unscale_() has already been called"


def ran(text: str) -> Ran:
    (found,) = interpret(HEAD + text)
    return found


def asked(code: str) -> Ran:
    return ran(LOOP.replace("ASKED", code.replace("\n", "\n        ")))


# --- tests in an iteration: what is left out of it, and what is right all the same


@pytest.mark.parametrize(
    "test",
    [
        "i == 7",
        "i > 1000",
        "1000 <= i",
        "i + 1 > 1000",
        "i % 100 == 99",
        "not (i + 1) % 500",
        "i // 100 == 3",
        "i / 1000 > 0.5",
        "10 < i < 20",
        "i in (1000, 2000)",
        "i in {1000, 2000}",
        "i > 0 and i % 500 == 0",
        "i % 1000 == 0 and i > 5000",
        "i == 77 or i == 99",
        "n > 100",
        "patience == 0",
        "not warm",
        "mode == 'late'",
        "late(i)",
        "len(y) < 2",
        "y.shape[0] == 1",
        "y.numel() == 0",
        "not boxes",
        "len(boxes) == 0",
        "y is None",
        "not aux.requires_grad",
        "aux.grad_fn is None",
        "any(p.grad is None for p in model.parameters())",
        "not has_all(model)",
        "scaler.get_scale() < 1",
        "scaler.get_scale() > 2 ** 17",
        "args.rank != 0",
    ],
)
@pytest.mark.sampled(10)
def test_an_iteration_is_left_between_unscale_and_update(test: str) -> None:
    found = asked(f"if {test}:\n    continue")
    assert found.judged.state == WRONG
    assert TWICE in found.judged.faults[0].text
    assert found.judged.faults[0].path
    assert asked(f"if {test}:\n    scaler.update()\n    continue").judged.state == RIGHT


def test_what_went_backward_needs_gradients() -> None:
    assert asked("if not loss.requires_grad:\n    continue").judged.state == RIGHT
    assert asked("if loss.grad_fn is None:\n    continue").judged.state == RIGHT


def test_two_scales_say_whether_a_step_was_skipped() -> None:
    code = "before = scaler.get_scale()\nscaler.step(optimizer)\nscaler.update()\n"
    text = LOOP.replace("        scaler.step(optimizer)\n        scaler.update()\n", "")
    code += "if scaler.get_scale() < before:\n    continue\nargs.schedule.step()"
    assert ran(text.replace("ASKED", code.replace("\n", "\n        "))).judged.state == RIGHT


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("i == 7", "i starts at 6"),
        ("i > 1000", "i starts at 1000"),
        ("n > 100", "n starts at 100"),
        ("scaler.get_scale() < 1", "scaler.get_scale() < 1"),
        ("len(y) < 2", "len(y) < 2"),
    ],
)
def test_an_assumption_is_said(test: str, said: str) -> None:
    assert asked(f"if {test}:\n    continue").judged.faults[0].path == said


@pytest.mark.parametrize("test", ["i > 1000", "i == 7", "not warm"])
def test_what_hangs_on_no_assumption_costs_no_run(test: str) -> None:
    assert asked(f"if {test}:\n    print(i)").runs.runs == asked("pass").runs.runs


# --- counters that decide on what is wrong itself

EPOCHS = """
def train(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    step = 0
    for epoch in range(100):
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            if TEST:
                FIRST
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            step += 1
"""
UNSCALE = "scaler.unscale_(optimizer)"


@pytest.mark.parametrize(
    ("test", "said"), [("epoch >= 5", "epoch starts at 5"), ("step >= 500", "step starts at 498"), ("epoch < 5", "")]
)
def test_what_comes_later_is_compared(test: str, said: str) -> None:
    found = ran(EPOCHS.replace("TEST", test).replace("FIRST", "pass"))
    assert found.shown == {"gradient", "update"}
    assert found.judged.faults[0].path == said
    assert ran(EPOCHS.replace("TEST", test).replace("FIRST", UNSCALE)).judged.state == RIGHT


def test_a_counter_begins_nowhere_beyond_its_range() -> None:
    """`range(100)` has no epoch 500."""
    found = ran(EPOCHS.replace("TEST", "epoch >= 500").replace("FIRST", "pass"))
    assert found.judged.reason == "line 18 is reached only if epoch >= 500"


def test_an_epoch_that_is_left_with_an_unfinished_step_is_followed_by_another() -> None:
    text = """
def train(model, loader, optimizer, epochs):
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(epochs):
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            if i >= 500:
                DONE
                break
            scaler.step(optimizer)
            scaler.update()
"""
    found = ran(text.replace("DONE", "pass"))
    assert TWICE in found.judged.faults[0].text
    assert ran(text.replace("DONE", "scaler.update()")).judged.state == RIGHT


CALLED = """
def train_one_epoch(model, loader, optimizer, scaler):
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if i == len(loader) - 1:
            DONE
            break
        scaler.step(optimizer)
        scaler.update()

def main(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(10):
        train_one_epoch(model, loader, optimizer, scaler)
"""


def test_so_is_a_call_for_an_epoch() -> None:
    assert TWICE in ran(CALLED.replace("DONE", "pass")).judged.faults[0].text
    assert ran(CALLED.replace("DONE", "scaler.update()")).judged.state == RIGHT
    made = "optimizer):\n    scaler = torch.amp.GradScaler('cuda')\n"
    own = (
        CALLED.replace("DONE", "pass")
        .replace("optimizer, scaler):\n", made)
        .replace("optimizer, scaler)", "optimizer)")
    )
    assert "exception" not in ran(own).shown


def test_a_step_that_is_given_its_scaler_has_the_same_in_each_call() -> None:
    text = """
def step(model, optimizer, scaler, x, y):
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    if torch.isnan(loss):
        DONE
        return None
    scaler.step(optimizer)
    scaler.update()
    return loss
"""
    assert TWICE in ran(text.replace("DONE", "pass")).judged.faults[0].text
    assert ran(text.replace("DONE", "scaler.update()")).judged.state == RIGHT


# --- what torch may raise

TRIES = """
def train(model, loader, optimizer, log):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        try:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            INSIDE
        except CAUGHT:
            HANDLED
        OUTSIDE
"""
CLIP = "scaler.unscale_(optimizer)\nnn.utils.clip_grad_norm_(model.parameters(), 1.0)"
STEP = "scaler.step(optimizer)\nscaler.update()"
OOM = "if 'out of memory' in str(e):\n    torch.cuda.empty_cache()\n    continue\nraise"


def tries(inside: str, caught: str, handled: str, outside: str = "pass") -> Ran:
    text = TRIES
    for name, code, indent in (("INSIDE", inside, 12), ("HANDLED", handled, 12), ("OUTSIDE", outside, 8)):
        text = text.replace(name, code.replace("\n", "\n" + " " * indent))
    return ran(text.replace("CAUGHT", caught))


@pytest.mark.parametrize(
    ("caught", "handled"),
    [
        ("RuntimeError", "continue"),
        ("RuntimeError as e", OOM),
        ("torch.cuda.OutOfMemoryError", "continue"),
        ("torch.OutOfMemoryError", "log('oom')"),
        ("(RuntimeError, ValueError)", "optimizer.zero_grad()\ncontinue"),
        ("Exception as e", "log(e)"),
    ],
)
def test_a_call_that_is_caught_may_run_out_of_memory(caught: str, handled: str) -> None:
    found = tries(f"{CLIP}\n{STEP}", caught, handled)
    assert TWICE in found.judged.faults[0].text
    said = "nn.utils.clip_grad_norm_(model.parameters(), 1.0) runs out of memory"
    assert said in found.judged.faults[0].path
    assert tries("pass", caught, "optimizer.zero_grad()\ncontinue", f"{CLIP}\n{STEP}").judged.state == RIGHT


@pytest.mark.parametrize("caught", ["ValueError", "KeyError", "StopIteration", "KeyboardInterrupt"])
def test_what_torch_does_not_raise_is_not_assumed(caught: str) -> None:
    found = tries(f"{CLIP}\n{STEP}", caught, "continue")
    assert found.judged.state == RIGHT
    assert found.runs.runs == tries(f"{CLIP}\n{STEP}", caught, "raise").runs.runs


@pytest.mark.parametrize("handled", ["raise", "log('oom')\nraise SystemExit(1)", "break"])
def test_an_exception_that_ends_the_training_costs_no_run(handled: str) -> None:
    found = tries(f"{CLIP}\n{STEP}", "RuntimeError", handled)
    assert found.judged.state == RIGHT
    assert len(found.runs.paths) == 1


def test_an_update_in_the_handler_is_for_a_call_behind_unscale() -> None:
    """torch has no inf checks to update by where the forward pass has failed."""
    found = tries(f"{CLIP}\n{STEP}", "RuntimeError", "optimizer.zero_grad()\nscaler.update()\ncontinue")
    assert "No inf checks were recorded" in found.judged.faults[0].text
    assert found.judged.faults[0].path == "model(x) runs out of memory"


def test_a_fix_in_such_a_step_is_not_refuted() -> None:
    """It unscales gradients before the clip, as it should: what is left is the handler's fault."""
    step = f"nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n{STEP}"
    bad, fixed = (tries(inside, "RuntimeError", "continue").judged for inside in (step, f"{UNSCALE}\n{step}"))
    verdict = decide(bad, fixed, ["AMP401"], [])
    assert verdict.verdict == MISBEHAVES
    assert "what is left shows only where a call runs out of memory" in verdict.reason


def test_a_handler_may_catch_what_its_own_update_raises() -> None:
    handled = "try:\n    scaler.update()\nexcept AssertionError:\n    pass\noptimizer.zero_grad()\ncontinue"
    assert tries(f"{CLIP}\n{STEP}", "RuntimeError", handled).judged.state == RIGHT


def test_a_step_that_fails_has_unscaled_its_gradients() -> None:
    """The next step of the scaler takes gradients for unscaled that are not."""
    found = tries(STEP, "RuntimeError", "continue")
    assert found.shown == {"gradient", "update"}
    assert found.judged.faults[0].path == "scaler.step(optimizer) runs out of memory"
    assert tries("pass", "RuntimeError", "continue", STEP).judged.state == RIGHT


SUPPRESSED = """
def train(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        with suppress(RuntimeError):
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            INSIDE
        OUTSIDE
"""


def test_so_it_is_with_suppress_and_finally() -> None:
    bad = SUPPRESSED.replace("INSIDE", "scaler.update()").replace("OUTSIDE", "pass")
    good = SUPPRESSED.replace("INSIDE", "pass").replace("OUTSIDE", "scaler.update()")
    assert TWICE in ran(bad).judged.faults[0].text
    assert ran(good).judged.state == RIGHT
    with_finally = good.replace("with suppress(RuntimeError):", "try:").replace(
        "        scaler.update()\n",
        "        except RuntimeError:\n            pass\n        finally:\n            scaler.update()\n",
    )
    assert ran(with_finally).judged.state == RIGHT


# --- a machine without CUDA

DEVICE = """
device = "cuda" if torch.cuda.is_available() else "cpu"

def train(model, loader, optimizer):
    scaler = torch.amp.GradScaler(device)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        if torch.cuda.is_available():
            scaler.step(optimizer)
        else:
            OTHER
        scaler.update()
"""


def test_the_arm_for_a_machine_without_cuda_is_run_on_one() -> None:
    found = ran(DEVICE.replace("OTHER", "optimizer.step()"))
    assert "exception" in found.shown
    assert found.judged.faults[0].path == "CUDA is not available"
    assert ran(DEVICE.replace("OTHER", "scaler.step(optimizer)")).judged.state == RIGHT


def test_there_a_scaler_for_cuda_may_say_that_it_is_off() -> None:
    text = DEVICE.replace('"cuda" if torch.cuda.is_available() else "cpu"', '"cuda"')
    assert ran(text.replace("OTHER", "optimizer.step()")).judged.state == RIGHT


# --- how assumptions are tried


def test_each_assumption_is_tried_by_itself_and_with_each_condition() -> None:
    paths: list[dict[str, object]] = []

    def run(choices: Choices) -> None:
        choices.ask("a", (True, False), matters=True)
        for test, value in (("x", 5), ("y", 7)):
            choices.met(
                test, holds=choices.assumes(f"{test} starts at") is None, question=f"{test} starts at", value=value
            )
        choices.met("both", holds=True, question="z starts at", value=1)
        choices.met("both", holds=False)
        paths.append(choices.path())

    assert len(list(explore(run, list))) == 7
    assert paths[2:4] == [{"a": True, "x starts at": 5}, {"a": True, "y starts at": 7}]
    assert paths[4:6] == [{"a": False, "x starts at": 5}, {"a": False, "y starts at": 7}]
    assert paths[6] == {"a": True, "x starts at": 5, "y starts at": 7}


def many(count: int, alone: bool = False) -> tuple[list[dict[str, object]], Untried]:
    """What is run, and what is not, of tests that each hang on an assumption of their own."""
    paths: list[dict[str, object]] = []

    def run(choices: Choices) -> None:
        for at in range(count):
            question = f"test {at}"
            choices.met(question, holds=choices.assumes(question) is True, question=question, value=True, alone=alone)
        paths.append(choices.path())

    untried = Untried()
    list(explore(run, list, untried=untried))
    return paths, untried


def test_two_assumptions_meet() -> None:
    paths, untried = many(4)
    pairs = [set(path) for path in paths if len(path) == 2]
    assert len(pairs) == 6
    assert untried == Untried()
    paths, untried = many(4, alone=True)
    assert len(paths) == 5
    assert untried == Untried()


def test_what_is_not_assumed_is_known() -> None:
    paths, untried = many(MOST_ASSUMED + 2)
    assert all(any({f"test {at}": True}.items() <= path.items() for path in paths) for at in range(MOST_ASSUMED))
    assert list(untried.assumptions) == [f"test {MOST_ASSUMED}", f"test {MOST_ASSUMED + 1}"]
    pairs = MOST_ASSUMED * (MOST_ASSUMED - 1) // 2
    assert untried.combinations >= pairs - MOST_COMBINED
    assert len(paths) == 1 + MOST_ASSUMED + MOST_COMBINED


MEETING = """
def train(model, loader, optimizer, args):
    scaler = torch.amp.GradScaler("cuda")
    step = 0
    for epoch in range(100):
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            done = False
            if FIRST:
                scaler.unscale_(optimizer)
                done = True
            if SECOND:
                THEN
            scaler.step(optimizer)
            scaler.update()
            step += 1
"""
ONE = "scaler.unscale_(optimizer)"
ONCE = "if not done:\n                    scaler.unscale_(optimizer)"


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("step % 100 == 99", "epoch >= 5", "epoch starts at 5, step starts at 98"),
        ("step >= 1000", "i == 50", "step starts at 998, i starts at 48"),
        ("epoch > 9", "len(y) < 2", "epoch starts at 10, len(y) < 2"),
        ("step >= args.warmup", "epoch >= 5", None),
    ],
)
def test_two_counters_that_have_to_meet(first: str, second: str, said: str | None) -> None:
    """Each alone is right: only where both hold are gradients unscaled twice."""
    text = MEETING.replace("FIRST", first).replace("SECOND", second)
    found = ran(text.replace("THEN", ONE))
    assert found.judged.state == WRONG
    assert TWICE in found.judged.faults[0].text
    if said is not None:
        assert set(found.judged.faults[0].path.split(", ")) == set(said.split(", "))
    assert ran(text.replace("THEN", ONCE)).judged.state == RIGHT


def test_a_fault_that_takes_two_assumptions_says_both() -> None:
    found = ran(EPOCHS.replace("TEST", "epoch >= 3 and step > 100").replace("FIRST", "pass"))
    assert found.judged.faults[0].path.startswith("epoch starts at 3, step starts at ")


@pytest.mark.parametrize("test", ["epoch >= first", "first <= epoch", "epoch == first", "step > first"])
def test_a_counter_comes_to_a_number_that_is_given(test: str) -> None:
    text = EPOCHS.replace("optimizer):", "optimizer, first=1):").replace("TEST", test)
    found = ran(text.replace("FIRST", "pass"))
    assert found.shown == {"gradient", "update"}
    assert ran(text.replace("FIRST", UNSCALE)).judged.state == RIGHT


# --- what there are too many of


def crowded(count: int, code: str) -> str:
    """A step with so many tests of one counter, each of which decides on the scaler."""
    tests = "".join(f"\nif i == {at}00:\n    {code}" for at in range(1, count + 1))
    return LOOP.replace("ASKED", tests.strip().replace("\n", "\n        "))


def counters(count: int, code: str) -> str:
    """A step with so many counters, each of which is asked once."""
    tests = "".join(f"\nself.n{at} += 1\nif self.n{at} == 100:\n    {code}" for at in range(count))
    begun = "".join(f"    self.n{at} = 0\n" for at in range(count))
    text = LOOP.replace("train(model", "train(self, model").replace("    n = 0\n", begun).replace("n = n + 1", "pass")
    return text.replace("ASKED", tests.strip().replace("\n", "\n        "))


@pytest.fixture
def few_runs(monkeypatch: pytest.MonkeyPatch) -> int:
    """So many assumptions are tried, and as many combinations: what is said of the others is the same for more."""
    for name in ("MOST_ASSUMED", "MOST_COMBINED"):
        monkeypatch.setattr(assumptions, name, 4)
    return 4


def test_what_no_run_is_left_for_is_said(few_runs: int) -> None:
    found = ran(crowded(few_runs + 3, "scaler.scale(loss)")).judged
    assert found.state == UNKNOWN
    assert found.reason.startswith("no run is left for what happens where i starts at ")
    assert found.reason.endswith("(nor for 2 other assumptions)")
    assert len(found.not_tried) == 3


def test_combinations_that_are_not_run_are_said_beside_the_verdict(few_runs: int) -> None:
    found = ran(counters(few_runs, "scaler.scale(loss)")).judged
    assert found.state == RIGHT
    assert not found.not_tried
    assert found.not_combined > 0
    verdict = with_out_of_sight(decide(found, None, [], []), found)
    assert verdict.verdict == CLEAN
    assert f"combinations of conditions and assumptions that were not run: {found.not_combined}" in verdict.reason
    few = ran(counters(2, "scaler.scale(loss)")).judged
    assert few.not_combined == 0
    assert with_out_of_sight(decide(few, None, [], []), few).reason == ""


def test_what_was_not_tried_is_in_the_json() -> None:
    text = HEAD + crowded(MOST_ASSUMED + 1, "scaler.scale(loss)")
    (row,) = amplint.verify(text)
    (shown,) = as_json([row])
    assert shown["verdict"] == NOT_CHECKABLE
    assert len(shown["before"]["not_tried"]) == 1
    assert shown["before"]["not_combined"] == row.before.not_combined


COUNTED = """
import torch

def adjust(optimizer, at):
    for group in optimizer.param_groups:
        group["lr"] = 0.1 / (1 + at)

def train(model, optimizer, loader, scaler, args):
    accum_iter = args.accum_iter
    optimizer.zero_grad()
    for step, (x, y) in enumerate(loader):
        FIRST
        with torch.autocast("cuda"):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        loss /= accum_iter
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if (step + 1) % CLEARED == 0:
            optimizer.zero_grad()

def main(model, loader, args):
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), loader, torch.amp.GradScaler("cuda"), args)
"""


@pytest.mark.parametrize("first", ["pass", "if step % accum_iter == 0:\n            adjust(optimizer, step)"])
def test_what_a_fault_needs_is_said_whatever_asked_for_it_before(first: str) -> None:
    text = COUNTED.replace("FIRST", first)
    (found,) = interpret(text.replace("CLEARED", "accum_iter"))
    assert {each.path for each in found.judged.faults} == {"args.accum_iter = 2"}
    (found,) = interpret(text.replace("CLEARED", "1").replace("/= accum_iter", "/= 1"))
    assert found.judged.state == RIGHT


MADE_AGAIN = """
import torch

def train(model, loader, optimizer, device, use_amp=False):
    scaler = torch.amp.GradScaler("cuda") if use_amp and device.type == "cuda" else None
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled=use_amp):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        if scaler:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()

def main(model, loader, device, args):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(args.epochs):
        train(model, loader, optimizer, device, args.use_amp)
"""


def test_a_condition_that_other_runs_are_not_asked_rules_none_of_them_out() -> None:
    (found,) = interpret(MADE_AGAIN)
    (fault,) = found.judged.faults
    assert (fault.shows, fault.path) == ("scale", "use_amp, device.type == 'cuda'")
