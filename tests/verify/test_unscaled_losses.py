"""A float16 loss that no scaler scales, in a step that has a scaler for another loss."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import amplint
from amplint.verify.steps.verify import StepRow

HEAD = """
import torch
import torch.nn.functional as F
from torch.amp import autocast

def train(model, optimizer, loader, args, norm):
    scaler = torch.amp.GradScaler("cuda")
    for images, target in loader:
"""
STEP = """
        optimizer.zero_grad()
        with autocast("cuda"):
            loss = F.cross_entropy(model(images), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
ATTACK = """
        images.requires_grad = True
        with autocast("cuda"DTYPE):
            clean = F.cross_entropy(model(images), target)
        BACKWARD
        images = (images + 0.1 * images.grad.sign()).detach()
"""
FLOAT16 = "gradients of a float16 loss that nothing scales may become 0: it depends on how small your gradients are"


def row(body: str, head: str = HEAD) -> StepRow:
    (found,) = amplint.verify(head + body + STEP)
    return found


def attack(backward: str, dtype: str = "") -> str:
    return ATTACK.replace("BACKWARD", backward).replace("DTYPE", dtype)


UNSCALED = {
    "an attack": attack("clean.backward()"),
    "a part of the loss": attack("(clean / 4).backward()"),
    "a function": attack("torch.autograd.backward([clean])"),
    "in a helper": attack("compute(clean)"),
    "gradients that are returned": """
        images.requires_grad_()
        with autocast("cuda"):
            clean = F.cross_entropy(model(images), target)
        grad = torch.autograd.grad(clean, images)[0]
        images = (images + 0.1 * grad.sign()).detach()
""",
    "several attacks": """
        for _ in range(3):
            images.requires_grad_()
            with autocast("cuda"):
                clean = F.cross_entropy(model(images), target)
            (grad,) = torch.autograd.grad(clean, [images])
            images = (images + 0.1 * grad.sign()).detach()
""",
}
HELPER = "\ndef compute(loss):\n    loss.backward()\n"
SCALED = {
    "by the scaler": attack("scaler.scale(clean).backward()"),
    "by the scaler, before a part of it": attack("(scaler.scale(clean) / 4).backward()"),
    "by hand": attack("(clean * scaler.get_scale()).backward()"),
    "in bfloat16": attack("clean.backward()", ", dtype=torch.bfloat16"),
    "in float32": attack("clean.backward()", ", enabled=False"),
    "by its gradients": """
        images.requires_grad_()
        with autocast("cuda"):
            clean = F.cross_entropy(model(images), target)
        grad = torch.autograd.grad(scaler.scale(clean), images)[0]
        images = (images + 0.1 * grad.sign()).detach()
""",
}


@pytest.mark.parametrize("name", UNSCALED)
def test_a_float16_loss_without_a_scale_is_not_called_right(name: str) -> None:
    found = row(UNSCALED[name], HELPER + HEAD)
    assert found.verdict == "not checkable", found
    assert FLOAT16 in found.reason


@pytest.mark.parametrize("name", SCALED)
def test_what_is_scaled_or_not_float16_is_right(name: str) -> None:
    found = row(SCALED[name])
    assert (found.verdict, found.reason) == ("clean", ""), found


def test_it_is_not_confirmed_by_a_fix_of_something_else() -> None:
    text = HEAD.replace("torch.amp.GradScaler(", "torch.cuda.amp.GradScaler(").replace('"cuda"', "")
    found = row(UNSCALED["an attack"], text)
    assert [(each.code, each.fixed) for each in found.findings] == [("AMP102", True)]
    assert (found.verdict, FLOAT16 in found.reason) == ("not checkable", True)


def test_where_the_dtype_is_out_of_sight_it_says_so() -> None:
    found = row(attack("clean.backward()", ", dtype=args.dtype"))
    assert found.verdict == "clean"
    assert "the dtype of the region; float16 needs a scaler, and one of the losses is not scaled" in found.reason
