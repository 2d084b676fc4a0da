"""AMP509 where a flag or a function says whether gradients are finite, and where something else has a part in it."""

from __future__ import annotations

import pytest

import amplint

PROGRAM = """\
import math
import sys

import torch


{helper}
def train(model, loader, optimizer, criterion, limit):
    scaler = torch.amp.GradScaler("cuda")
    strikes = step = 0
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = criterion(model(x), y)
{step}
        scaler.step(optimizer)
        scaler.update()
"""
BACKWARD = "scaler.scale(loss).backward()\nscaler.unscale_(optimizer)\n"
ANSWERS = """\
def is_good(model, limit):
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if torch.isnan(norm) or torch.isinf(norm):
        print("bad gradients")
        return False
    return True


"""
ALL_FINITE = """\
def is_good(model, limit):
    return all(torch.isfinite(each.grad).all() for each in model.parameters() if each.grad is not None)


"""
OF_A_LOOP = """\
def is_good(model, limit):
    for each in model.parameters():
        if each.grad is None:
            continue
        if not torch.isfinite(each.grad).all():
            return False
    return True


"""
RAISES_AT_THE_END = """\
def is_good(model, limit):
    for each in model.parameters():
        grad = each.grad
        if grad is None:
            continue
        if torch.isfinite(grad.detach()).all():
            continue
        raise FloatingPointError("gradients")


"""
RAISES_IF_ASKED = RAISES_AT_THE_END.replace("if grad is None:", "if grad is None or limit > 3:")
ALSO_LARGE = ANSWERS.replace("    return True", "    if norm > limit:\n        return False\n    return True")
ONLY_IF_ASKED = ANSWERS.replace("if torch.isnan(norm) or torch.isinf(norm)", "if limit is True and torch.isnan(norm)")
WITHOUT_ANSWER = ANSWERS.replace("    return True\n", "")
ASKS = BACKWARD + 'if not is_good(model, limit):\n    raise RuntimeError("gradients")'
FLAG = """\
bad = False
for each in model.parameters():
    if each.grad is not None and torch.isnan(each.grad).any():
        bad = True
if bad:
    sys.exit(1)"""
COUNTED = """\
bad = sum(int(torch.isnan(each.grad).sum()) for each in model.parameters() if each.grad is not None)
if bad > 0:
    raise ValueError(bad)"""
BY_AUTOGRAD = """\
params = list(model.parameters())
grads = torch.autograd.grad(scaler.scale(loss), params)
flat = torch.cat([each.reshape(-1) for each in grads])
if not torch.isfinite(flat).all():
    raise FloatingPointError("gradients")
for each, grad in zip(params, grads):
    each.grad = grad"""
STRIKES = BACKWARD + "strikes = 0 if is_good(model, limit) else strikes + 1\nif strikes > 20:\n    raise RuntimeError()"


def found_in(helper: str, step: str) -> list[str]:
    """What AMP509 is found at."""
    indented = "\n".join(" " * 8 + line for line in step.splitlines())
    text = PROGRAM.format(helper=helper, step=indented)
    return [text[each.start : each.end] for each in amplint.check(text) if each.code == "AMP509"]


@pytest.mark.parametrize(
    ("helper", "step"),
    [
        pytest.param(ANSWERS, ASKS, id="a constant answer"),
        pytest.param(ALL_FINITE, ASKS, id="the test itself"),
        pytest.param(OF_A_LOOP, ASKS, id="an answer in a loop"),
        pytest.param(RAISES_AT_THE_END, BACKWARD + "is_good(model, limit)", id="after what goes on"),
        pytest.param("", BACKWARD + FLAG, id="flag"),
        pytest.param("", BACKWARD + COUNTED, id="counted"),
        pytest.param("", BY_AUTOGRAD, id="autograd.grad of the scaled loss"),
    ],
)
def test_is_found(helper: str, step: str) -> None:
    (at,) = found_in(helper, step)
    assert at.startswith(("raise", "sys.exit"))


@pytest.mark.parametrize(
    ("helper", "step"),
    [
        pytest.param(ALSO_LARGE, ASKS, id="another reason"),
        pytest.param(ONLY_IF_ASKED, ASKS, id="a setting"),
        pytest.param(RAISES_IF_ASKED, BACKWARD + "is_good(model, limit)", id="after a setting that goes on"),
        pytest.param(WITHOUT_ANSWER, ASKS, id="no answer is no, too"),
        pytest.param(ANSWERS, STRIKES, id="many in a row"),
        pytest.param("", BACKWARD + FLAG.replace("if bad:", "if bad and limit:"), id="a flag and a setting"),
        pytest.param("", BACKWARD + FLAG.replace("bad = False", "bad = limit > 3"), id="a flag of more"),
        pytest.param("", BY_AUTOGRAD.replace("scaler.scale(loss)", "loss"), id="autograd.grad of the loss"),
    ],
)
def test_something_else_has_a_part_in_it(helper: str, step: str) -> None:
    assert found_in(helper, step) == []


@pytest.mark.parametrize(
    ("step", "count"),
    [
        (BACKWARD, 1),
        ("try:\n    scaler.scale(loss).backward()\nexcept RuntimeError:\n    continue", 0),
        ("try:\n    scaler.scale(loss).backward()\nexcept KeyError:\n    continue", 1),
    ],
)
def test_what_anomaly_detection_raises_may_be_caught(step: str, count: int) -> None:
    assert len(found_in("torch.autograd.set_detect_anomaly(True)\n\n\n", step)) == count


NORM = BACKWARD + "norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
CHECK = "if check and not torch.isfinite(norm):\n    raise FloatingPointError(i)"
COUNT = "step += 1\n"


@pytest.mark.parametrize(
    ("check", "count"),
    [
        pytest.param(f"check = i % limit == 0\n{CHECK}", 1, id="the loop's number"),
        pytest.param(f"{COUNT}check = step % limit == 0\n{CHECK}", 1, id="a count"),
        pytest.param(f"{COUNT}check = not step % limit\n{CHECK}", 1, id="not a remainder"),
        pytest.param("check = i % limit == 0\nif check:\n    assert torch.isfinite(norm), i", 1, id="an if around"),
        pytest.param(f"check = limit.debug\n{CHECK}", 0, id="a flag"),
        pytest.param(f"check = i > limit\n{CHECK}", 0, id="only late"),
        pytest.param(
            f"if not torch.isfinite(norm):\n    strikes += 1\ncheck = strikes % 10 == 0\n{CHECK}", 0, id="strikes"
        ),
        pytest.param(
            f"if torch.isfinite(norm):\n    strikes = 0\nstrikes += 1\ncheck = strikes % 10 == 0\n{CHECK}",
            0,
            id="strikes in a row",
        ),
    ],
)
def test_a_check_now_and_then(check: str, count: int) -> None:
    assert len(found_in("", NORM + check)) == count


SWITCHED = PROGRAM.replace('GradScaler("cuda")', 'GradScaler("cuda", enabled=limit.amp)')


@pytest.mark.parametrize(
    "step", [NORM + "assert torch.isfinite(norm)", NORM.replace("1.0", "1.0, error_if_nonfinite=True")]
)
def test_the_setting_that_enables_the_scaler_is_named(step: str) -> None:
    indented = "\n".join(" " * 8 + line for line in step.splitlines())
    (finding,) = (each for each in amplint.check(SWITCHED.format(helper="", step=indented)) if each.code == "AMP509")
    assert finding.message.startswith("if `limit.amp` is true, ")
    assert len(finding.message) <= 200


OBJECTS = """\
import torch
from mine import Trainer, make


class Base:
    def __init__(self, scaler):
        self.scaler = scaler

    def __call__(self, batch, model, optimizer):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(batch)
        self.scaler.scale(loss).backward()
        self.scaler.step(optimizer)
        self.scaler.update()


class Update(Base):
    pass


def main(args):
    model, optimizer, loader = make(args)
    scaler = torch.amp.GradScaler("cuda")
    update = {update}
    {detect}
    Trainer(model, optimizer, loader, update).train()
"""
ON = "torch.autograd.set_detect_anomaly(True)"


@pytest.mark.parametrize(
    ("update", "detect", "expected"),
    [
        ("Base(scaler)", ON, ["likely"]),
        ("Update(scaler)", ON, ["likely"]),
        ("Base(scaler)", f"if args.debug: {ON}", []),
        ("Base(scaler)", f"{ON}; make(args); torch.autograd.set_detect_anomaly(False)", []),
        ("make(scaler)", ON, []),
    ],
)
def test_anomaly_detection_round_an_object_that_trains(update: str, detect: str, expected: list[str]) -> None:
    told = amplint.check(OBJECTS.format(update=update, detect=detect))
    assert [each.confidence.value for each in told if each.code == "AMP509"] == expected
