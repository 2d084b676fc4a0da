"""Models that are cast to float16: `unscale_` refuses their gradients, as far as what is trained was cast."""

from __future__ import annotations

import pytest

from amplint.verify.steps.judge import RIGHT, UNKNOWN, WRONG, Judged
from tests.interpreting import interpret

STEP = """
import torch
from lora import inject_lora, mark_only_lora_as_trainable

def train(model, loader, dtype=torch.float16):
    CAST
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""


def judged(cast: str) -> Judged:
    (found,) = interpret(STEP.replace("CAST", cast.replace("\n", "\n    ")))
    return found.judged


@pytest.mark.parametrize(
    "cast",
    [
        "model = model.to(dtype=torch.float16)",
        "model.to('cuda', torch.half)",
        "for name, module in model.named_modules():\n    module = module.to(dtype=torch.float16)",
        "for module in model.modules():\n    module.half()",
        "model.to(torch.float16)\nmark_only_lora_as_trainable(model)",
    ],
)
def test_float16_parameters_cannot_be_unscaled(cast: str) -> None:
    found = judged(cast)
    assert found.state == WRONG
    assert "Attempting to unscale FP16 gradients" in found.faults[0].text


@pytest.mark.parametrize(
    "cast",
    [
        "model = model.to(dtype=torch.float16)\nmodel.to(torch.float32)",
        "for module in model.modules():\n    if isinstance(module, torch.nn.BatchNorm2d):\n        module.half()",
        "model.requires_grad_(False)\nmodel.to(torch.float16)\nmodel.add_adapter(3)",
        "model.to('cuda')",
    ],
)
def test_what_is_trained_in_float32_can_be(cast: str) -> None:
    assert judged(cast).state == RIGHT


@pytest.mark.parametrize("adds", ["inject_lora(model)", "model = inject_lora(model)"])
def test_what_code_out_of_sight_adds_to_a_cast_model_has_any_dtype(adds: str) -> None:
    found = judged(f"model = model.to(dtype=torch.float16)\n{adds}")
    assert found.state == UNKNOWN
    assert "amplint can't see which dtype the trained parameters of model have" in found.reason


NOTEBOOK = """
import torch
from library import create_model, loader

def train(model, optimizer, precision="full"):
    if precision == "half":
        model.half()
    for x, y in loader:
        if precision == "half":
            x = x.half()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()

model = create_model()
optimizer = torch.optim.OPTIMIZER(model.parameters(), lr=0.01)
BEFORE
train(model, optimizer, precision="half")
model = create_model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


def trained(optimizer: str, before: str) -> Judged:
    (found,) = interpret(NOTEBOOK.replace("OPTIMIZER", optimizer).replace("BEFORE", before))
    return found.judged


@pytest.mark.parametrize("optimizer", ["Adam", "AdamW", "SGD", "RMSprop"])
def test_an_optimizer_of_float16_parameters_has_a_state_of_float16(optimizer: str) -> None:
    assert [each.text for each in trained(optimizer, "").faults if each.shows == "exception"] == []


@pytest.mark.parametrize("again", ["", "model = data_parallel(model)", "model = model.cuda()"])
def test_what_stays_the_same_model_stays_cast(again: str) -> None:
    text = NOTEBOOK.replace("model = create_model()\n", "", 2).replace("import torch", "import torch\nmodel = create()")
    text = text.replace("OPTIMIZER", "SGD").replace("BEFORE", "").replace("scaler =", f"{again}\nscaler =")
    (found,) = interpret(text)
    assert "Attempting to unscale FP16 gradients" in found.judged.faults[0].text


def test_a_state_that_is_older_than_the_cast_stays_float32() -> None:
    found = trained("Adam", "train(model, optimizer)")
    assert "expected dtype float for `end` but got dtype" in found.faults[0].text
