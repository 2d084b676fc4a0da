"""AMP427 where the step is made elsewhere, or where accelerate decides when a prepared optimizer clears and steps."""

from __future__ import annotations

import pytest

import amplint

HANDLED = """\
import torch


class Half:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")

    def step_optimizer(self, optimizer):
        self.scaler.step(optimizer)
        self.scaler.update()


def train(model, loader, every, handler=HANDLER):
    optimizer = torch.optim.AdamW(model.parameters())
    for number, batch in enumerate(loader):
        START
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(batch).mean() / every
        handler.scaler.scale(loss).backward()
        if (number + 1) % every == 0:
            handler.STEPS(optimizer)
            END
"""


def handled(handler: str, start: str, steps: str, end: str) -> list[str]:
    text = HANDLED.replace("HANDLER", handler).replace("START", start).replace("STEPS", steps).replace("END", end)
    return [f"{each.code}: {text[each.start : each.end]}" for each in amplint.check(text)]


@pytest.mark.parametrize("handler", ["Half()", "None"])
@pytest.mark.parametrize("end", ["pass", "optimizer.zero_grad()"])
def test_a_function_steps(handler: str, end: str) -> None:
    assert handled(handler, "optimizer.zero_grad()", "step_optimizer", end) == ["AMP427: optimizer.zero_grad()"]


def test_cleared_after_what_steps() -> None:
    assert handled("None", "pass", "step_optimizer", "optimizer.zero_grad()") == []


def test_what_is_not_named_for_a_step_may_train_by_itself() -> None:
    assert handled("None", "optimizer.zero_grad()", "train_step", "pass") == []


PREPARED = """\
import torch
from accelerate import Accelerator


def train(model, loader, every):
    accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=EVERY)
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer, loader = accelerator.prepare(model, OPTIMIZER, loader)
    for batch in loader:
        OUTSIDE
        with accelerator.accumulate(model):
            BEFORE
            loss = model(batch).mean()
            accelerator.backward(loss)
            optimizer.step()
            AFTER
"""


def prepared(**parts: str) -> tuple[str, list[tuple[str, str]]]:
    text = PREPARED
    given = {"EVERY": "4", "OPTIMIZER": "optimizer", "OUTSIDE": "pass", "BEFORE": "pass", "AFTER": "pass", **parts}
    for word, part in given.items():
        text = text.replace(word, part)
    return text, [(each.code, each.message) for each in amplint.check(text)]


@pytest.mark.parametrize(("every", "start"), [("4", "`optimizer"), ("every", "when `every > 1`, `optimizer")])
def test_a_prepared_optimizer_clears_before_the_last_backward(every: str, start: str) -> None:
    text, found = prepared(EVERY=every, BEFORE="optimizer.zero_grad()")
    assert [code for code, _ in found] == ["AMP427"]
    assert found[0][1].startswith(start)
    fixed = amplint.fix(text, unsafe=True)
    assert fixed.index("zero_grad") > fixed.index("optimizer.step()")
    assert amplint.check(fixed) == []


@pytest.mark.parametrize(
    "parts",
    [
        {"AFTER": "optimizer.zero_grad()"},
        {"OUTSIDE": "optimizer.zero_grad()"},  # after the last micro step of the round before
        {"BEFORE": "optimizer.zero_grad()", "EVERY": "1"},
        {"BEFORE": "optimizer.zero_grad()", "OPTIMIZER": "[]"},  # it steps on each micro step
        {"BEFORE": "other.zero_grad()"},
    ],
)
def test_right_places(parts: dict[str, str]) -> None:
    assert [code for code, _ in prepared(**parts)[1] if code == "AMP427"] == []


FAILED = """\
import torch


def train(model, optimizer, loader, k):
    scaler = torch.amp.GradScaler("cuda")
    for i, (x, y) in enumerate(loader):
        try:
            with torch.autocast("cuda"):
                loss = torch.nn.functional.mse_loss(model(x), y) / k
            scaler.scale(loss).backward()
            if (i + 1) % k == 0:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        except RuntimeError:
            optimizer.zero_grad()
            continue
"""


def test_a_handler_that_clears_after_a_failed_batch() -> None:
    assert not [each for each in amplint.check(FAILED) if each.code == "AMP427"]
