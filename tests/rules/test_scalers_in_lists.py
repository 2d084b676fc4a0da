"""A scaler for each of several models: what they have scaled is not unscaled by being two scalers' (AMP401)."""

from __future__ import annotations

import pytest

from amplint import check

TEXT = """\
import torch


def train(models, optimizers, loader, criterion):
    scalers = [torch.amp.GradScaler("cuda"), torch.amp.GradScaler("cuda")]
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            losses = [criterion(model(x), y) for model in models]
        for scaler, loss in zip(scalers, losses):
            scaler.scale(loss).backward()
{step}
"""
BY_NAMES = """\
        for model, optimizer, scaler in zip(models, optimizers, scalers):
            UNSCALE
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""
BY_NUMBER = """\
        for i, model in enumerate(models):
            UNSCALE
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scalers[i].step(optimizers[i])
            scalers[i].update()
            optimizers[i].zero_grad()
"""


def codes(step: str, unscale: str) -> set[str]:
    return {each.code for each in check(TEXT.format(step=step.replace("UNSCALE", unscale)))}


@pytest.mark.parametrize("step", [BY_NAMES, BY_NUMBER])
def test_the_clip_of_each_is_found(step: str) -> None:
    assert "AMP401" in codes(step, "pass")


@pytest.mark.parametrize(
    ("step", "unscale"), [(BY_NAMES, "scaler.unscale_(optimizer)"), (BY_NUMBER, "scalers[i].unscale_(optimizers[i])")]
)
def test_what_is_unscaled_before_is_right(step: str, unscale: str) -> None:
    assert not {code for code in codes(step, unscale) if code.startswith("AMP4")}


def test_two_scalers_of_a_gan_are_apart() -> None:
    """What is clipped is unscaled, whatever another scaler has scaled since."""
    text = """\
import torch


def train(generator, discriminator, opt_g, opt_d, loader):
    scaler_g, scaler_d = torch.amp.GradScaler("cuda"), torch.amp.GradScaler("cuda")
    for x in loader:
        opt_d.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss_d = discriminator(x).mean()
            loss_g = discriminator(generator(x)).mean()
        scaler_d.scale(loss_d).backward(retain_graph=True)
        scaler_d.unscale_(opt_d)
        torch.nn.utils.clip_grad_norm_(discriminator.parameters(), 1.0)
        scaler_d.step(opt_d)
        scaler_d.update()
        opt_g.zero_grad()
        scaler_g.scale(loss_g).backward()
        scaler_g.unscale_(opt_g)
        torch.nn.utils.clip_grad_norm_(generator.parameters(), 1.0)
        scaler_g.step(opt_g)
        scaler_g.update()
"""
    assert "AMP401" not in {each.code for each in check(text)}
