"""AMP407: a model that is frozen, and of which parts are trained again before the optimizer is made."""

from __future__ import annotations

import pytest

import amplint

PROGRAM = """\
import torch


def main(unet, loader, names):
    unet.requires_grad_(False)
    AGAIN
    optimizer = torch.optim.AdamW([p for p in unet.parameters() if p.requires_grad])
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(unet(x).float(), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
NAMED = "for name, param in unet.named_parameters():\n    "


def found(again: str) -> list[str]:
    text = PROGRAM.replace("AGAIN", again.replace("\n", "\n    "))
    return [each.code for each in amplint.check(text, "train.py") if each.code == "AMP407"]


@pytest.mark.parametrize(
    "again",
    [
        f"{NAMED}for one in names:\n        if one in name:\n            param.requires_grad = True\n            break",
        f"{NAMED}if 'attn' in name:\n        param.requires_grad_(True)",
        f"{NAMED}if 'attn' in name:\n        param.requires_grad_()",
        f"{NAMED}param.requires_grad = any(each in name for each in names)",
        "unet.head.requires_grad_(True)",
        "for param in unet.head.parameters():\n    param.requires_grad = True",
        "unfreeze(unet, names)",
        "unet.add_adapter(names)",
    ],
)
def test_a_part_that_is_trained_again_has_gradients(again: str) -> None:
    assert not found(again)


@pytest.mark.parametrize(
    "again",
    [
        "pass",
        "unet.head.requires_grad_(False)",
        f"{NAMED}if 'attn' in name:\n        param.requires_grad = False",
        "print(sum(p.numel() for p in unet.parameters()))",
    ],
)
def test_a_model_that_stays_frozen_has_none(again: str) -> None:
    assert found(again) == ["AMP407"]
