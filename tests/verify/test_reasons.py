"""Why a step is not checkable: what is said of the program is true of it."""

from __future__ import annotations

import pytest
import torch

from amplint.verify.steps.judge import RIGHT, UNKNOWN, WRONG
from amplint.verify.steps.verdict import CLEAN, CONFIRMED
from tests.interpreting import code_of, interpret, verdicts

STEP = """
import torch
from torch.optim.swa_utils import SWALR, AveragedModel
BEFORE

def train(args, loader, model, optimizer, clip):
    MADE
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = LOSS
        scaler.scale(loss).backward()
        CLIP
        scaler.step(optimizer)
        scaler.update()
    AFTER
"""
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"


def program(made: str = "pass", clip: str = "pass", after: str = "pass", before: str = "", loss: str = "") -> str:
    """A program with a step."""
    text = STEP.replace("BEFORE", before).replace("LOSS", loss or "torch.nn.functional.mse_loss(model(x), y)")
    return (
        text.replace("MADE", made.replace("\n", "\n    "))
        .replace("CLIP", clip.replace("\n", "\n        "))
        .replace("AFTER", after)
    )


def test_a_schedule_of_averaged_weights_is_no_optimizer() -> None:
    made = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nswa_scheduler = SWALR(optimizer, swa_lr=0.1)"
    after = "swa_scheduler.step()"
    (bad,) = interpret(program(made, CLIP, after))
    assert bad.judged.state == WRONG
    (right,) = interpret(program(made, f"scaler.unscale_(optimizer)\n{CLIP}", after))
    assert right.judged.state == RIGHT


def test_code_that_is_never_run_need_not_be() -> None:
    clip = f"""\
if clip is not None:
    scaler.unscale_(optimizer)
    {CLIP}
else:
    raise NotImplementedError("set clip")
    scaler.unscale_(optimizer)"""
    (found,) = interpret(program(clip=clip))
    assert found.judged.state == RIGHT
    (found,) = interpret(program(clip=clip.replace("scaler.unscale_(optimizer)\n    torch", "torch")))
    assert found.judged.state == WRONG


@pytest.mark.parametrize(("before", "is_covered"), [("pass", True), ("continue", False), ("raise ValueError", False)])
def test_what_has_to_run_is_after_nothing_that_leaves(before: str, is_covered: bool) -> None:
    code = code_of(program(clip=f"if clip:\n    {before}\n    scaler.unscale_(optimizer)"))
    (step,) = code.steps
    assert ("unscale_" in {each.kind for each in code.covered(step)}) is is_covered


def test_an_optimizer_of_the_program_is_named() -> None:
    before = """
def make(optim):
    class Clipping(optim):
        def step(self, closure=None):
            torch.nn.utils.clip_grad_norm_(self.all(), 1.0)
            super().step(closure=closure)
    return Clipping
"""
    (found,) = interpret(program("optimizer = make(torch.optim.SGD)(model.parameters(), 0.1)", before=before))
    assert found.judged.state == UNKNOWN
    assert found.judged.reason.endswith("amplint doesn't interpret Clipping as an optimizer")


def test_a_function_that_returns_in_either_arm_returns_the_first() -> None:
    before = """
def criterion(name):
    table = {"mse": lambda: torch.nn.MSELoss()}
    if name in table:
        return table[name]()
    else:
        return lambda *args, **kwargs: None
"""
    (found,) = interpret(program("compute = criterion(args.loss)", before=before, loss="compute(model(x), y)"))
    assert found.judged.state == RIGHT


def test_a_run_that_the_program_ends_says_where() -> None:
    before = "def refuse(optimizer):\n    optimizer.zero_grad()\n    raise NotImplementedError\n"
    (found,) = interpret(program(made="refuse(optimizer)", before=before))
    assert found.judged.state == UNKNOWN
    assert "verify's run ends on line 6 (raise NotImplementedError), before line 16" in found.judged.reason


def test_what_callers_make_does_not_end_the_step() -> None:
    more = """
def make(cfg, model):
    if cfg.kind == "sgd":
        found = torch.optim.SGD(model.parameters())
    else:
        raise NotImplementedError
    return found

def main(args, loader, model):
    train(args, loader, model, make(args, model), 1.0)
"""
    (found,) = interpret(program() + more)
    assert found.judged.state == RIGHT


@pytest.mark.parametrize("fixed", [True, False])
def test_a_deprecation_alone_is_no_misuse(fixed: bool) -> None:
    bad = program().replace('torch.autocast("cuda")', "torch.cuda.amp.autocast()")
    bad = bad.replace('torch.amp.GradScaler("cuda")', "torch.cuda.amp.GradScaler()")
    after = bad.replace("torch.cuda.amp.GradScaler()", 'torch.amp.GradScaler("cuda")') if fixed else bad
    ((_, verdict),) = verdicts(bad, after, ["AMP102"] if fixed else [], ["AMP101"])
    assert verdict.verdict == (CONFIRMED if fixed else CLEAN)
    assert "only a deprecation warning is left" in verdict.reason


def test_a_run_that_is_out_of_memory_says_nothing_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(torch.optim.SGD, "step", fails)
    (found,) = [each.judged for each in interpret(program())]
    assert found.state == UNKNOWN
    assert "out of memory" in found.reason
