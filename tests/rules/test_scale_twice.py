"""AMP409: gradients that are divided by the scale by hand after the scaler has divided them."""

from __future__ import annotations

import pytest

import amplint

PROGRAM = """\
import torch


def train(model, other, loader, log, clip):
    optimizer = torch.optim.AdamW(model.parameters())
    second = torch.optim.AdamW(other.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        BEFORE
        scaler.step(optimizer)
        AFTER
        scaler.update()
"""
UNSCALED = "scaler.unscale_(optimizer)"
NORM = "torch.stack([p.grad.norm() for p in model.parameters()]).norm()"


def found(before: str = "pass", after: str = "pass") -> list[str]:
    indent = "\n" + " " * 8
    text = PROGRAM.replace("BEFORE", before.replace("\n", indent)).replace("AFTER", after.replace("\n", indent))
    return [each.message for each in amplint.check(text, "train.py") if each.code == "AMP409"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{UNSCALED}\nlog({NORM} / scaler.get_scale())", "pass"),
        (f"{UNSCALED}\nnorm = {NORM}\nlog(norm.item() / scaler.get_scale())", "pass"),
        (f"{UNSCALED}\nscale = scaler.get_scale()\nlog({NORM} / scale)", "pass"),
        (f"{UNSCALED}\nlog(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0) / scaler.get_scale())", "pass"),
        (f"{UNSCALED}\ninverse = 1 / scaler.get_scale()\nfor p in model.parameters():\n    p.grad *= inverse", "pass"),
        (f"{UNSCALED}\nfor p in model.parameters():\n    p.grad.div_(scaler.get_scale())", "pass"),
        ("scale = scaler.get_scale()", f"log({NORM} / scale)"),
        ("pass", f"if clip:\n    log({NORM} / scaler.get_scale())"),
    ],
)
def test_gradients_are_divided_again(before: str, after: str) -> None:
    (message,) = found(before, after)
    assert message.startswith("gradients are divided by the loss scale a second time: `scaler.")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"log({NORM} / scaler.get_scale())", "pass"),
        (f"log({NORM} / scaler.get_scale())\n{UNSCALED}", f"log({NORM})"),
        (f"if clip:\n    {UNSCALED}\nelse:\n    log({NORM} / scaler.get_scale())", "pass"),
        (f"{UNSCALED}\nlog(loss.item() / scaler.get_scale())", "pass"),
        (f"{UNSCALED}\nlog({NORM} / 4)", "pass"),
        (f"{UNSCALED}\nlog({NORM} * scaler.get_scale())", "pass"),  # as they were
        ("pass", "scaler.scale(other(x).sum()).backward()\nlog(sum(p.grad.norm() for p in other.parameters()) / 2)"),
        ("pass", f"optimizer.zero_grad()\nscaler.scale(loss).backward()\nlog({NORM} / scaler.get_scale())"),
        (f"scaler.unscale_(second)\nlog({NORM} / scaler.get_scale())", "pass"),
    ],
)
def test_gradients_are_divided_once(before: str, after: str) -> None:
    assert not [each for each in found(before, after) if "a second time" in each]


def test_a_divisor_that_is_the_scale_on_one_path_alone() -> None:
    otherwise = "if clip:\n    scale = scaler.get_scale()\nelse:\n    scale = 1024.0"
    (message,) = found(f"{UNSCALED}\n{otherwise}\nlog({NORM} / scale)")
    assert message.startswith("with the divisor of line 15, gradients are divided by the loss scale a second time: `")
    assert message.endswith("; set that divisor to 1")
    assert len(message) <= 200


OWN = """\
import torch


class Attack:
    def __init__(self, model, shape):
        self.model = model
        self.noise = MADE
        groups = [{"params": GIVEN}]
        self.optimizer = torch.optim.SGD(groups, lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    def train(self, loader):
        for images, y in loader:
            self.optimizer.zero_grad()
            images.requires_grad_()
            own = torch.zeros_like(images).requires_grad_()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = torch.nn.functional.cross_entropy(self.model(images + self.noise + own), y)
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.optimizer)
            DIVIDED
            self.scaler.step(self.optimizer)
            self.scaler.update()
"""
TENSOR = "torch.zeros(shape, requires_grad=True)"
PARAMETERS = "model.parameters()"


@pytest.mark.parametrize(
    ("made", "given", "divided", "count"),
    [
        (TENSOR, PARAMETERS, "self.noise.grad.data /= self.scaler.get_scale()", 0),
        (TENSOR, PARAMETERS, "log(self.noise.grad.norm() / self.scaler.get_scale())", 0),
        (TENSOR, PARAMETERS, "images.grad.div_(self.scaler.get_scale())", 0),
        (TENSOR, PARAMETERS, "own.grad.div_(self.scaler.get_scale())", 0),
        (TENSOR, "[*model.parameters(), self.noise]", "self.noise.grad.data /= self.scaler.get_scale()", 1),
        (f"torch.nn.Parameter({TENSOR})", PARAMETERS, "self.noise.grad.data /= self.scaler.get_scale()", 1),
        ("model.noise", PARAMETERS, "self.noise.grad.data /= self.scaler.get_scale()", 1),
        (TENSOR, PARAMETERS, "self.model.noise.grad.data /= self.scaler.get_scale()", 1),
        (TENSOR, PARAMETERS, "self.model.fc.weight.grad /= self.scaler.get_scale()", 1),
    ],
)
def test_a_tensor_that_the_optimizer_does_not_have(made: str, given: str, divided: str, count: int) -> None:
    text = OWN.replace("MADE", made).replace("GIVEN", given).replace("DIVIDED", divided)
    assert sum("a second time" in each.message for each in amplint.check(text) if each.code == "AMP409") == count
