"""AMP217: which casts of single parameters make a model half, and of what the optimizer has."""

from __future__ import annotations

import pytest

from amplint import check

LOOP = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 8), nn.Linear(8, 8)
        self.register_buffer("table", torch.randn(8))
        IN_INIT

    def forward(self, x):
        return self.head(self.body(x) + self.table)


def FUNCTION


def train(loader, shadow, path):
    net = Net().cuda()
    FIRST
    optimizer = torch.optim.Adam(PARAMS, lr=1e-4)
    for x, y in loader:
        optimizer.zero_grad()
        ((net(x) - y) ** 2).mean().backward()
        IN_LOOP
        optimizer.step()
    LAST
"""
PARTS = {
    "IN_INIT": "pass",
    "FUNCTION": "nothing():\n    pass",
    "FIRST": "pass",
    "PARAMS": "net.parameters()",
    "IN_LOOP": "pass",
    "LAST": "pass",
}


def found(**parts: str) -> list[str]:
    text = LOOP
    for part, written in PARTS.items():
        text = text.replace(part, parts.get(part, written))
    return [each.confidence.name for each in check(text, "train.py") if each.code == "AMP217"]


def loop(body: str, over: str = "p in net.parameters()", indent: int = 8) -> str:
    return f"for {over}:\n{' ' * indent}{body}"


@pytest.mark.parametrize(
    "first",
    [
        loop("p.data = p.data.half()"),
        loop("p.data = p.data.half()", "name, p in net.named_parameters()"),
        loop("if p.requires_grad:\n            p.data = p.data.half()"),
        loop("if p.dim() > 1:\n            p.data = p.data.half()"),
    ],
)
def test_a_loop_that_casts_what_is_trained(first: str) -> None:
    assert found(FIRST=first) == ["CERTAIN"]


@pytest.mark.parametrize(
    "parts",
    [
        {"IN_LOOP": loop("p.grad.data = p.grad.data.half()", indent=12)},
        {"FIRST": loop("shadow[name].data = p.data.half()", "name, p in net.named_parameters()")},
        {"FIRST": loop("shadow.data = p.data.half()")},
        {"FIRST": loop("if not p.requires_grad:\n            p.data = p.data.half()")},
        {"FIRST": loop("if p.requires_grad is False:\n            p.data = p.data.half()")},
        {"FIRST": loop("if p.requires_grad:\n            continue\n        p.data = p.data.half()")},
    ],
)
def test_a_loop_that_casts_something_else(parts: dict[str, str]) -> None:
    assert not found(**parts)


@pytest.mark.parametrize(
    ("body", "is_found"),
    [
        ("layer.weight.data = layer.weight.data.half()", True),
        ("for p in layer.parameters():\n        p.data = p.data.half()", True),
        ("layer.table.data = layer.table.data.half()", False),
        ("layer.running_mean.data = layer.running_mean.data.half()", False),
        ("for b in layer.buffers():\n        b.data = b.data.half()", False),
        ("for _, b in layer.named_buffers():\n        b.data = b.data.half()", False),
        ("layer.weight.grad.data = layer.weight.grad.data.half()", False),
        ("for p in layer.parameters():\n        if not p.requires_grad:\n            p.data = p.data.half()", False),
        ("KEPT[layer].data = layer.weight.data.half()", False),
    ],
)
def test_a_function_that_is_applied(body: str, is_found: bool) -> None:
    assert bool(found(FUNCTION=f"shrink(layer):\n    {body}", FIRST="net.apply(shrink)")) is is_found


OF_PART = loop("p.data = p.data.half()", "p in MODEL.body.parameters()")
OF_MODEL = OF_PART.replace("MODEL", "model")
IN_INIT = loop("p.data = p.data.half()", "p in self.body.parameters()", indent=12)
BY_PARAMETER = {"FUNCTION": f"shrink(model):\n    {OF_MODEL}", "FIRST": "shrink(net)"}
BY_FUNCTIONS = {
    "FUNCTION": f"shrink(model):\n    {OF_MODEL}\n\n\ndef prepare(model):\n    shrink(model)",
    "FIRST": "prepare(net)",
}


@pytest.mark.parametrize("cast", [BY_PARAMETER, BY_FUNCTIONS, {"IN_INIT": IN_INIT}])
def test_a_part_is_cast_and_another_trained(cast: dict[str, str]) -> None:
    assert found(**cast) == ["CERTAIN"]
    assert found(**cast, PARAMS="net.body.parameters()") == ["CERTAIN"]
    assert not found(**cast, PARAMS="net.head.parameters()")


def test_several_parts_are_one_finding() -> None:
    both = OF_MODEL + "\n    " + OF_MODEL.replace("body", "head")
    assert found(**{**BY_PARAMETER, "FUNCTION": f"shrink(model):\n    {both}"}) == ["CERTAIN"]


MADE_BY = "\n\n\ndef make(model):\n    return torch.optim.Adam(model.parameters(), lr=1e-4)"


@pytest.mark.parametrize("params", ["net", "net.body"])
def test_a_function_makes_the_optimizer_of_a_model_with_a_cast_part(params: str) -> None:
    text = LOOP.replace("torch.optim.Adam(PARAMS, lr=1e-4)", f"make({params})").replace(
        "FUNCTION", "FUNCTION" + MADE_BY
    )
    parts = {**PARTS, **BY_PARAMETER}
    for part, written in parts.items():
        text = text.replace(part, written)
    assert [each.code for each in check(text, "train.py") if each.code == "AMP217"] == ["AMP217"]


EXPORTS = (
    "export(model, path):\n    model.apply(shrink)\n    torch.save(model.state_dict(), path)\n\n\n"
    "def shrink(layer):\n    layer.weight.data = layer.weight.data.half()"
)


@pytest.mark.parametrize(
    "function",
    [EXPORTS, EXPORTS.replace("model.apply", "model.body.apply"), f"export(model, path):\n    {OF_MODEL}"],
)
def test_a_cast_that_a_function_makes_after_the_training(function: str) -> None:
    assert not found(FUNCTION=function, LAST="export(net, path)")
    assert not found(FUNCTION=function, LAST="export(model=net, path=path)")
    assert found(FUNCTION=function, FIRST="export(net, path)") == ["CERTAIN"]
    assert found(FUNCTION=function, IN_LOOP="export(net, path)") == ["CERTAIN"]


@pytest.mark.parametrize(
    ("first", "is_found"),
    [
        ("shrink(net)", True),
        ("shrink(net)\n    net.head.requires_grad_(False)", True),
        ("shrink(net)\n    net.body.requires_grad_(False)", False),
        ("shrink(net)\n    net.requires_grad_(False)", False),
    ],
)
def test_a_part_that_is_frozen(first: str, is_found: bool) -> None:
    assert bool(found(**{**BY_PARAMETER, "FIRST": first})) is is_found


BESIDE = """\
import torch


def shrink(layer):
    layer.weight.data = layer.weight.data.half()


def prepare(model):
    model.apply(shrink)


def train(model, optimizer, loader):
    FIRST
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    LAST


torch.optim.Adam
"""


@pytest.mark.parametrize(("at", "is_found"), [("FIRST", True), ("LAST", False)])
@pytest.mark.parametrize("cast", ["prepare(model)", "model.apply(shrink)"])
def test_a_function_that_gets_the_model_and_its_optimizer(cast: str, at: str, is_found: bool) -> None:
    text = BESIDE.replace(at, cast).replace("FIRST", "pass").replace("LAST", "pass")
    said = [each.confidence.name for each in check(text, "train.py") if each.code == "AMP217"]
    assert said == (["LIKELY"] if is_found else [])


@pytest.mark.parametrize(("given", "wanted"), [("cast", 1), ("fn=cast", 1), ("*casts", 0), ("**casts", 0)])
def test_however_the_function_that_casts_is_given(given: str, wanted: int) -> None:
    cast = "cast(layer):\n    if isinstance(layer, nn.Linear):\n        layer.weight.data = layer.weight.data.half()"
    assert len(found(FUNCTION=cast, FIRST=f"net.apply({given})")) == wanted
