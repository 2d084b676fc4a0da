"""AMP303: losses that are compared with each other are moved together, or not at all."""

from __future__ import annotations

import pytest

from amplint import check, fix
from amplint.base.findings import Finding

PREFERENCE = """\
import torch
import torch.nn.functional as F

def train(model, reference, optimizer, loader):
    model.train()
    reference.eval()
    for inputs, labels in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = model(inputs)
        logits = out.logits
        REFERENCE
        own = F.cross_entropy(logits.view(-1, 9), labels, ignore_index=-100, reduction="none").view(4, -1)
        LOSS
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
NO_GRAD = """with torch.no_grad():
            with torch.autocast("cuda", dtype=torch.bfloat16):
                out = reference(inputs)
            other_logits = out.logits"""
DETACHED = """with torch.autocast("cuda", dtype=torch.bfloat16):
            out = reference(inputs)
        other_logits = out.logits.detach()"""
BOTH = """other = F.cross_entropy(other_logits.view(-1, 9), labels, ignore_index=-100, reduction="none").view(4, -1)
        """
UNDER_NO_GRAD = """with torch.no_grad():
            other = F.cross_entropy(other_logits.view(-1, 9), labels, ignore_index=-100, reduction="none").view(4, -1)
        """
COMPARED = "loss = -F.logsigmoid(own.sum(1) - other.sum(1)).mean()"
ROUNDED = "the loss is rounded to bfloat16"
WITH_GRADIENT = "the loss and its gradient are rounded to bfloat16"


def program(loss: str, reference: str = NO_GRAD) -> str:
    return PREFERENCE.replace("REFERENCE", reference).replace("LOSS", loss)


def findings(text: str) -> list[Finding]:
    return [each for each in check(text, "train.py") if each.code == "AMP303"]


@pytest.mark.parametrize("reference", [NO_GRAD, DETACHED])
def test_a_loss_without_gradients_has_none_that_are_rounded(reference: str) -> None:
    own, other = findings(program(BOTH + COMPARED, reference))
    assert WITH_GRADIENT in own.message
    assert ROUNDED in other.message
    own, other = findings(program(BOTH + COMPARED, NO_GRAD.replace("no_grad", "enable_grad")))
    assert WITH_GRADIENT in own.message
    assert WITH_GRADIENT in other.message


@pytest.mark.parametrize("loss", [COMPARED, "loss = (own / other).mean()", "loss = preference(own, other)"])
def test_compared_losses_are_moved_together(loss: str) -> None:
    text = program(BOTH + loss)
    own, other = findings(text)
    assert own.fix is not None
    assert own.fix == other.fix
    fixed = fix(text, "train.py", unsafe=True)
    assert findings(fixed) == []
    assert all(f"            {each} = F.cross_entropy" in fixed for each in ("own", "other"))


def test_compared_losses_of_different_blocks_are_not_moved() -> None:
    own, *_ = findings(text := program(UNDER_NO_GRAD + COMPARED))
    assert own.fix is None
    assert own.withheld is not None
    assert own.withheld.startswith("the losses on line 15 and line 17 are compared")
    assert fix(text, "train.py", unsafe=True) == text


@pytest.mark.parametrize(
    "loss",
    [
        BOTH + "loss = own.mean() + other.mean()",  # nothing is compared
        BOTH + "print(own, other)\n        loss = own.mean()",
        BOTH.replace("logits.view(-1, 9)", "logits.float().view(-1, 9)") + COMPARED,  # the other is float32
        "loss = own.mean() - penalty",
    ],
)
def test_others_are_moved_by_themselves(loss: str) -> None:
    (own, *_) = (each for each in findings(program(loss)) if "`logits" in each.message)
    assert own.fix is not None
    assert own.fix.message.startswith("Move this statement")
