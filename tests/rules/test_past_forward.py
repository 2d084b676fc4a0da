"""Models that accelerate prepares, and what runs outside of their `forward` (AMP310)."""

from __future__ import annotations

import pytest

from amplint import check

TEXT = """\
import torch
from accelerate import Accelerator
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.head = nn.Linear(8, 3)
        self.tokenizer = load_tokenizer()
        self.criterion = nn.CrossEntropyLoss()

    FORWARD

    def scores(self, batch):
        return BODY

    def loss(self, scores, targets):
        return self.criterion(scores, targets)

    def tokens(self, texts):
        return self.tokenizer(texts)


def main(loader):
    accelerator = Accelerator(PRECISION)
    model = Tagger()
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for texts, targets in loader:
        batch = model.tokens(texts)
        CALL
        loss = model.loss(scores, targets)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    model = accelerator.unwrap_model(model)
"""


def found(
    call: str = "scores = model.scores(batch)",
    body: str = "self.head(self.body(batch).relu())",
    forward: str = "",
    precision: str = 'mixed_precision="fp16"',
) -> list[str]:
    parts = {"CALL": call, "BODY": body, "FORWARD": forward, "PRECISION": precision}
    text = TEXT
    for name, part in parts.items():
        text = text.replace(name, part)
    return [each.message.partition(":")[2].split("`")[1] for each in check(text) if each.code == "AMP310"]


@pytest.mark.parametrize("precision", ['mixed_precision="fp16"', 'mixed_precision="bf16"', "fp16=True"])
def test_another_method_than_forward(precision: str) -> None:
    assert found(precision=precision) == ["model.scores"]


def test_a_method_of_what_ddp_wraps() -> None:
    assert found("scores = model.module.scores(batch)") == ["model.module.scores"]


@pytest.mark.parametrize(
    "call",
    [
        "scores = model(batch)",
        "with accelerator.autocast():\n            scores = model.scores(batch)",
        'with torch.autocast("cuda", dtype=torch.float16):\n            scores = model.scores(batch)',
        "with torch.no_grad():\n            guess = model.scores(batch)\n        scores = model(batch)",
    ],
)
def test_what_runs_in_a_region_or_without_gradients(call: str) -> None:
    assert found(call, forward="def forward(self, batch):\n        return self.head(self.body(batch))") == []


def test_a_method_that_calls_the_model() -> None:
    forward = "def forward(self, batch):\n        return self.head(self.body(batch))"
    assert found(body="self(batch).float()", forward=forward) == []


def test_full_precision() -> None:
    assert found(precision='mixed_precision="no"') == []
    assert found(precision="") == []
