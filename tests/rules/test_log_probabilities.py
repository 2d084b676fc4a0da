"""AMP303: log-probabilities and losses of scores, computed after the region from outputs of a model out of sight."""

from __future__ import annotations

import pytest

from amplint import check

PROGRAM = """\
import torch
import torch.nn.functional as F

def chosen(logits, labels):
    return LOG.gather(-1, labels.unsqueeze(-1)).squeeze(-1)

def NAME(model, reference, optimizer, loader):
    model.train()
    for good, bad in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            first = model(good).logits
            second = model(bad).logits
        LOSS
        loss.backward()
        optimizer.step()
"""
PREFERENCE = "loss = -F.logsigmoid(chosen(first, good).sum(-1) - chosen(second, bad).sum(-1)).mean()"
HALF = "these log-probabilities are bfloat16"


def messages(log: str = "F.log_softmax(logits, dim=-1)", loss: str = PREFERENCE, name: str = "train") -> list[str]:
    program = PROGRAM.replace("LOG", log).replace("LOSS", loss).replace("NAME", name)
    return [each.message for each in check(program, "train.py") if each.code == "AMP303"]


@pytest.mark.parametrize(
    ("log", "count"),
    [
        ("F.log_softmax(logits, dim=-1)", 1),
        ("logits.log_softmax(-1)", 1),
        ("(logits / 0.7).log_softmax(-1)", 1),
        ("F.log_softmax(logits, dim=-1).float()", 1),  # rounded before
        ("F.log_softmax(logits.float(), dim=-1)", 0),
        ("F.log_softmax(logits, dim=-1, dtype=torch.float32)", 0),
    ],
)
def test_of_preferences(log: str, count: int) -> None:
    found = messages(log)
    assert len(found) == count
    assert all(each.startswith(HALF) for each in found)


def test_of_a_distillation() -> None:
    loss = "loss = F.kl_div(F.log_softmax(first / 2, -1), F.softmax(second / 2, -1), reduction='batchmean')"
    assert [each.startswith(HALF) for each in messages(loss=loss)] == [True]


@pytest.mark.parametrize(
    "loss",
    [
        "with torch.autocast('cuda', dtype=torch.bfloat16): " + PREFERENCE,
        "with torch.no_grad(): " + PREFERENCE,
        "loss = first.float().mean()",
    ],
)
def test_elsewhere(loss: str) -> None:
    assert messages(loss=loss) == []


def test_where_nothing_is_trained() -> None:
    program = PROGRAM.replace("LOG", "F.log_softmax(logits, dim=-1)").replace("LOSS", "return chosen(first, good)")
    lines = [each for each in program.splitlines() if "backward" not in each and "step" not in each]
    assert [each for each in check("\n".join(lines), "train.py") if each.code == "AMP303"] == []


@pytest.mark.parametrize(
    ("target", "count"),
    [
        ("torch.ones_like(first)", 1),
        ("torch.full_like(first, 0.9)", 1),
        ("torch.ones(8, 1).cuda()", 0),  # float32, and so is the loss
        ("good", 0),
    ],
)
def test_labels_made_like_scores(target: str, count: int) -> None:
    found = messages(loss=f"loss = F.binary_cross_entropy_with_logits(first, {target})")
    assert len(found) == count
    assert all("this loss is bfloat16" in each for each in found)
