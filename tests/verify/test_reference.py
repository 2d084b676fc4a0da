"""The run without AMP goes the way of the program: what differs for another reason is no misuse."""

from __future__ import annotations

import pytest

from amplint.verify.steps.judge import RIGHT, WRONG
from tests.interpreting import interpret

ASKS = """
import torch

def to_fp32(x):
    if isinstance(x, list):
        return [to_fp32(e) for e in x]
    if isinstance(x, dict):
        return {k: to_fp32(v) for k, v in x.items()}
    return x.float()

def train(model, criterion, loader, optimizer, scaler, max_norm):
    for x, y in loader:
        with torch.autocast("cuda", enabled=scaler.is_enabled()):
            outputs = model(x)
        outputs = to_fp32(outputs) if scaler.is_enabled() else outputs
        losses = criterion(outputs, y)
        loss = sum(losses[k] for k in losses.keys())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if max_norm > 0:
            UNSCALE
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
"""
RETURNS = """
import torch

class Trainer:
    def train(self, loader):
        opt = self.make()
        scaler = torch.amp.GradScaler("cuda", enabled=self.use_amp)
        run = self.create(scaler)
        for x, y in loader:
            loss = run(x, y)
            UNSCALE
            scaler.step(opt)
            scaler.update()
            opt.zero_grad()

    def create(self, scaler):
        def run(x, y):
            a = x.permute(1, 0)
            b = y.permute(1, 0)
            a = a.view(-1)
            b = b.view(-1)
            a = a.view(-1)
            b = b.view(-1)
            a = a.view(-1)
            b = b.view(-1)
            with torch.autocast("cuda", enabled=scaler.is_enabled()):
                pred = self.model(a)
                loss = torch.nn.functional.smooth_l1_loss(pred, b)
                loss = loss / self.n
            scaler.scale(loss).backward()
            return loss

        return run
"""


@pytest.mark.parametrize(("unscale", "state"), [("scaler.unscale_(optimizer)", RIGHT), ("pass", WRONG)])
def test_a_question_whether_the_scaler_is_enabled_has_one_answer(unscale: str, state: str) -> None:
    (found,) = interpret(ASKS.replace("UNSCALE", unscale))
    assert found.judged.state == state
    assert all("% off" not in each.text for each in found.judged.faults)


@pytest.mark.parametrize(
    ("between", "state"), [("pass", RIGHT), ("torch.nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)", WRONG)]
)
def test_a_function_that_a_method_defines_and_returns_is_run(between: str, state: str) -> None:
    (found,) = interpret(RETURNS.replace("UNSCALE", between))
    assert found.judged.state == state
    assert "exception" not in found.shown


SCALE = """
import torch

def train(params, model, loader, optimizer, scaler):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled=params.use_fp16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        BODY
        scaler.step(optimizer)
        scaler.update()
        if params.batch % 100 == 0 and params.use_fp16:
            cur = scaler._scale.item()
            if cur < 8.0:
                scaler.update(cur * 2.0)
            if cur < 1.0e-05:
                raise RuntimeError("too small")
"""


@pytest.mark.parametrize(
    ("body", "state"), [("pass", RIGHT), ("torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)", WRONG)]
)
def test_the_scale_is_a_number_without_amp_too(body: str, state: str) -> None:
    (found,) = interpret(SCALE.replace("BODY", body))
    assert found.judged.state == state
    assert not any("steps are requested" in each.text for each in found.judged.faults)


ROUNDED = """
import torch

def train(model, batches, optimizer, scaler):
    for x, y in batches:
        with torch.autocast("cuda", dtype=DTYPE):
            out = model(x)
        signs = torch.where((out * 1000 % 2) > 1, out, -out)
        loss = torch.mean(torch.logsumexp(out, dim=1)) + signs.mean() * 1000
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        UNSCALE
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize("dtype", ["torch.float16", "torch.bfloat16"])
@pytest.mark.parametrize(("unscale", "state"), [("scaler.unscale_(optimizer)", RIGHT), ("pass", WRONG)])
def test_what_half_precision_makes_of_stand_ins_is_no_misuse(dtype: str, unscale: str, state: str) -> None:
    (found,) = interpret(ROUNDED.replace("DTYPE", dtype).replace("UNSCALE", unscale))
    assert found.judged.state == state
