"""A loss of the program's own, for which a run has a stand-in: what is right says so, where float16 may break an op."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import amplint

STEP = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Part(nn.Module):
    def forward(self, pred, target):
        return -pred.sigmoid().log().mean()

class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.log = nn.LogSoftmax(dim=-1)
        self.bce = nn.BCELoss()
        self.part = Part()

    def forward(self, pred, target):
        return BODY

def helper(pred, target):
    return F.binary_cross_entropy(pred, target)

def train(model, optimizer, loader, criterion, scaler):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            pred = model(x)
            INSIDE
        OUTSIDE
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

def main(model, loader):
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), loader, Loss().cuda(), torch.amp.GradScaler("cuda"))
"""
CALL = "loss = criterion(pred, y)"
CAST = "loss = criterion(pred.float(), y)"
FRAGILE = {
    "a log": "-torch.log(torch.sigmoid(pred).clamp_min(1e-8)).mean()",
    "a method": "-(pred.sigmoid() + 1e-8).log().mean()",
    "a function": "F.binary_cross_entropy(pred, target) + 1",
    "a module": "self.bce(pred, target)",
    "in a helper": "helper(pred, target) * 0.5",
    "a bound that is 0 in float16": "helped(pred.clamp(min=1e-12), target)",
    "a bound that is 1 in float16": "helped(pred.clamp(max=1 - 1e-4), target)",
    "in a part": "self.part(pred, target)",
}
SAFE = {
    "torch's own": "F.cross_entropy(pred, target) * 0.5",
    "with logits": "F.binary_cross_entropy_with_logits(pred, target)",
    "an attribute that is called like an op": "-self.log(pred.float()).gather(-1, target).mean()",
}


def reason(body: str, inside: str = CALL, outside: str = "pass") -> str:
    text = STEP.replace("BODY", body).replace("INSIDE", inside).replace("OUTSIDE", outside)
    (found,) = (each for each in amplint.verify(text) if each.name == "train")
    assert found.verdict == "clean", found
    return found.reason


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FRAGILE)
def test_an_op_that_float16_may_break_is_named(name: str) -> None:
    said = "line 28: criterion(pred, y) is in a float16 region, and is not run; float16 may break its "
    assert reason(FRAGILE[name]).startswith(said)


OFF = 'with torch.autocast("cuda", enabled=False):\n            loss = criterion(pred.float(), y)'
IN_FLOAT32 = {
    "behind the region": ("pass", CAST, "line 29: criterion(pred.float(), y) computes the loss and is not run"),
    "in a region that is off": ("pass", OFF, "line 30: criterion(pred.float(), y) computes the loss and is not run"),
    "in the region": (
        CAST,
        "pass",
        "line 28: criterion(pred.float(), y) is in a float16 region, and is not run",
    ),
}


@pytest.mark.parametrize("name", IN_FLOAT32)
def test_of_what_was_cast_before_no_op_is_said_to_break(name: str) -> None:
    inside, outside, said = IN_FLOAT32[name]
    assert reason(FRAGILE["a log"], inside, outside) == said


@pytest.mark.parametrize("name", SAFE)
def test_what_float16_keeps_is_not_named(name: str) -> None:
    assert reason(SAFE[name]) == ""


def test_bfloat16_keeps_small_numbers() -> None:
    text = STEP.replace("BODY", FRAGILE["a log"]).replace("INSIDE", CALL).replace("OUTSIDE", "pass")
    (found,) = amplint.verify(text.replace('autocast("cuda"', 'autocast("cuda", dtype=torch.bfloat16'))
    assert (found.verdict, found.reason) == ("clean", "")


WITHOUT = {
    "a weighted sum": "F.cross_entropy(pred, target) + 0.1 * F.mse_loss(pred, target)",
    "in float32": "F.cross_entropy(pred.float(), target.long()).mean()",
}
WITH = {
    "a quotient": "F.mse_loss(pred, target) / target.sum()",
    "a power": "((pred - target) ** 2).mean()",
    "another package's": "fancy(pred, target)",
}


@pytest.mark.parametrize("name", WITHOUT)
def test_of_losses_of_torchs_alone_nothing_is_said(name: str) -> None:
    assert reason(WITHOUT[name]) == ""


@pytest.mark.parametrize("name", WITH)
def test_a_loss_that_is_not_run_is_said_to_be_none(name: str) -> None:
    assert reason(WITH[name]) == "line 28: criterion(pred, y) is in a float16 region, and is not run"


OTHERS = """
import torch
import torch.nn.functional as F

class Trainer:
    def __init__(self, actor, optimizer, batches):
        self.actor, self.optimizer, self.batches = actor, optimizer, batches
        self.scaler = torch.amp.GradScaler("cuda")

    def epoch(self):
        for data in self.batches:
            self.optimizer.zero_grad()
            with torch.autocast("cuda", ENABLED):
                loss = LOSS
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
"""
COMPUTED = {
    "an actor": ("self.actor(data)", "self.actor(data)"),
    "what gives a loss and others": ("self.actor(data)[0]", "self.actor(data)"),
    "a criterion and a model out of sight": ("criterion(self.actor(data))", "criterion(self.actor(data))"),
    "a model that gives its loss": ("self.actor(**data).loss", "self.actor(**data)"),
}


def of_others(loss: str, enabled: str = "dtype=torch.float16") -> tuple[str, str, list[str]]:
    (found,) = amplint.verify(OTHERS.replace("LOSS", loss).replace("ENABLED", enabled))
    return found.verdict, found.reason, found.before.not_run


@pytest.mark.parametrize("name", COMPUTED)
def test_who_computes_the_loss_out_of_sight_is_named(name: str) -> None:
    loss, call = COMPUTED[name]
    said = f"line 14: {call} is in a float16 region, and is not run"
    assert of_others(loss) == ("clean", said, [said])


def test_the_loss_of_torch_is_as_safe_as_it_gets() -> None:
    assert of_others("F.cross_entropy(self.actor(data), data)") == ("clean", "", [])


def test_in_float32_a_loss_is_nobodys_matter() -> None:
    assert of_others("self.actor(data)", "enabled=False")[1:] == ("", [])


def test_of_several_losses_the_first_is_named_and_all_are_listed() -> None:
    text = OTHERS.replace(
        "loss = LOSS", "first = self.actor(data)\n                loss = first + penalty(self.actor, data)"
    )
    (found,) = amplint.verify(text.replace("ENABLED", "dtype=torch.float16"))
    said = "line 14: self.actor(data) is in a float16 region, and is not run; nor is 1 other"
    assert found.reason == said
    assert len(found.before.not_run) == 2


def test_a_fix_that_ends_a_warning_says_it_too() -> None:
    old = OTHERS.replace('torch.amp.GradScaler("cuda")', "torch.cuda.amp.GradScaler()")
    (found,) = amplint.verify(old.replace("LOSS", "self.actor(data)").replace("ENABLED", "dtype=torch.float16"))
    assert found.verdict == "confirmed"
    assert found.reason.endswith("; line 14: self.actor(data) is in a float16 region, and is not run")


CRITERIA = {
    "one": ("nn.CrossEntropyLoss()", True),
    "another": ("nn.CTCLoss(blank=0)", True),
    "one of two": ("nn.L1Loss() if y else nn.MSELoss()", True),
    "one of a package": ("losses.DiceLoss()", False),
}


@pytest.mark.parametrize("name", CRITERIA)
def test_a_criterion_of_torchs_is_not_named(name: str) -> None:
    made, of_torch = CRITERIA[name]
    text = OTHERS.replace("import torch\n", "import torch\nfrom torch import nn\nimport losses\n", 1)
    text = text.replace("        for data", f"        criterion = {made}\n        for data")
    text = text.replace("LOSS", "criterion(self.actor(data), data)", 1).replace("ENABLED", "dtype=torch.float16")
    (found,) = amplint.verify(text.replace("if y", "if self.actor"))
    assert bool(found.reason) is not of_torch, found.reason
