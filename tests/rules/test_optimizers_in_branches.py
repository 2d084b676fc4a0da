"""AMP420: the branches of an `if` on AMP that make the optimizer, and what only one of them sets."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence

TEXT = """\
import torch
{before}
def train(model, loader, args, fp16, flag):
    {early}
    if {test}:
        optimizer = torch.optim.AdamW(model.parameters())
        {then}
    else:
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        {other}
    scaler = torch.amp.GradScaler("cuda", enabled=fp16)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled=fp16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        {use}
"""
MADE = "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)"


def found(**parts: str) -> list[str]:
    plain = {"before": "", "early": "pass", "test": "fp16", "then": "pass", "other": MADE, "use": "scheduler.step()"}
    said = check(TEXT.format(**{**plain, **parts}))
    assert all(each.confidence is Confidence.LIKELY for each in said if each.code == "AMP420")
    return [each.message for each in said if each.code == "AMP420"]


@pytest.mark.parametrize(
    ("parts", "when"),
    [
        ({}, "if `fp16` is true"),
        ({"test": "args.fp16"}, "if `args.fp16` is true"),
        ({"test": "not fp16"}, "if `not fp16` is true"),
        ({"then": MADE, "other": "pass"}, "if `fp16` is false"),
        ({"other": f"scheduler, steps = {MADE.partition(' = ')[2]}, 3"}, "if `fp16` is true"),
        ({"use": "if flag:\n            scheduler.step()"}, "if `fp16` is true"),
    ],
)
def test_a_variable_that_only_one_branch_sets(parts: dict[str, str], when: str) -> None:
    (message,) = found(**parts)
    assert when in message
    assert "UnboundLocalError" in message


@pytest.mark.parametrize(
    "parts",
    [
        {"then": MADE},
        {"early": "scheduler = None", "use": "scheduler and scheduler.step()"},
        {"use": "if not fp16:\n            scheduler.step()"},
        {"use": "pass"},
        {"then": "return"},
        {"test": "flag"},  # not about AMP
        {"before": "scheduler = make()", "other": "global scheduler\n        scheduler = 1"},
        {"use": "try:\n            scheduler.step()\n        except NameError:\n            pass"},
    ],
)
def test_silent(parts: dict[str, str]) -> None:
    assert found(**parts) == []


def test_silent_if_the_branches_make_no_optimizer() -> None:
    text = TEXT.replace("optimizer = torch.optim.SGD(model.parameters(), 0.1)\n", "pass\n")
    parts = {
        "before": "",
        "early": "optimizer = None",
        "test": "fp16",
        "then": "pass",
        "other": MADE,
        "use": "scheduler",
    }
    assert "AMP420" not in [each.code for each in check(text.format(**parts))]
