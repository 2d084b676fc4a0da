"""AMP219: models in training that are cast to half precision in place, and back or not."""

from __future__ import annotations

import pytest
import torch

from amplint import check

LOOP = """\
import copy
import torch


def validate(net, loader, half=True):
    DURING
    for x in loader:
        net(x)
    AFTER


def train(loader, validation, epochs):
    model = torch.nn.Linear(3, 3)
    BEFORE
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        for x in loader:
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
        INSIDE
    END
"""


def found(**texts: str) -> list[int]:
    text = LOOP
    for each in ("DURING", "AFTER", "BEFORE", "INSIDE", "END"):
        text = text.replace(each, texts.get(each.lower(), "pass"))
    return [each.location.row for each in check(text) if each.code == "AMP219"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_cast_in_place_rounds_the_weights(dtype: torch.dtype) -> None:
    model = torch.nn.Linear(8, 8)
    before = model.weight.detach().clone()
    model.to(dtype)
    model.float()
    assert model.weight.dtype is torch.float32
    assert not torch.equal(before, model.weight)


@pytest.mark.parametrize(
    "texts",
    [
        {"inside": "model.half(); model(x); model.float()"},
        {"inside": "model = model.to(torch.bfloat16); model(x); model = model.to(torch.float32)"},
        {"inside": "validate(model, validation)", "during": "net.half()", "after": "net.float()"},
        {
            "inside": "validate(model, validation)",
            "during": "if half:\n        net.half()",
            "after": "if half:\n        net.float()",
        },
        {"inside": "validate(net=model, loader=validation)", "during": "net.bfloat16()", "after": "net.float()"},
        {"inside": "if epoch % 10 == 9:\n            model.bfloat16()"},
    ],
)
def test_a_model_in_training_is_rounded(texts: dict[str, str]) -> None:
    assert len(found(**texts)) == 1


@pytest.mark.parametrize(
    "texts",
    [
        {"end": "model.half(); model(loader); model.float()"},
        {"end": "validate(model, validation)", "during": "net.half()", "after": "net.float()"},
        {"inside": "other = copy.deepcopy(model); other.half(); other(x); other.float()"},
        {"inside": "validate(copy.deepcopy(model), validation)", "during": "net.half()", "after": "net.float()"},
        {"inside": "validate(model, validation)", "during": "net = copy.deepcopy(net).half()"},
        {"before": "model.half()", "inside": "model.half()"},
        {"inside": "if epoch > 9:\n            model.half()\n            break"},
        {"inside": "model.float()"},
    ],
)
def test_a_model_that_is_not(texts: dict[str, str]) -> None:
    assert found(**texts) == []


def test_the_model_of_each_fold_is_another() -> None:
    text = """\
import torch


def main(loader):
    for fold in range(5):
        model = torch.nn.Linear(3, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            model(x).sum().backward()
            optimizer.step()
        model.half()
        torch.save(model.state_dict(), f"{fold}.pt")
"""
    assert [each.code for each in check(text)] == []
    once = text.replace("    for fold", "    model = torch.nn.Linear(3, 3)\n    for fold").replace(
        "        model = torch.nn.Linear(3, 3)\n", ""
    )
    assert [each.code for each in check(once)] == ["AMP217"]
