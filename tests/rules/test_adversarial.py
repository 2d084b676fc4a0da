"""Adversarial training: a second backward on top of scaled gradients, scaled or not."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP403"}), isolated=True, suspicions=True)
TRAIN = """\
import torch

class CFG:
    apex = True
    unscale = False
    attack = True
    every = 1

def train(model, loader, criterion, optimizer, attack):
    scaler = torch.amp.GradScaler("cuda"{enabled})
    for step, (x, y) in enumerate(loader):
        with torch.autocast("cuda"):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
{unscale}
        if CFG.attack:
            attack.attack()
            with torch.autocast("cuda"):
                adversarial = criterion(model(x), y)
            {second}
            attack.restore()
        if (step + 1) % CFG.every == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""
PLAIN, SCALED = "adversarial.backward()", "scaler.scale(adversarial).backward()"
CLIP = "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
SOMETIMES = "        if CFG.unscale:\n            scaler.unscale_(optimizer)\n" + CLIP


def found(second: str, unscale: str = "", enabled: str = "") -> list[str]:
    text = TRAIN.format(second=second, unscale=unscale, enabled=enabled)
    return [each.confidence.value for each in check(text, "program.py", SETTINGS)]


@pytest.mark.parametrize("enabled", ["", ", enabled=CFG.apex"])
@pytest.mark.parametrize("unscale", ["", CLIP, SOMETIMES])
def test_a_second_backward_that_is_not_scaled_is_found(unscale: str, enabled: str) -> None:
    assert found(PLAIN, unscale, enabled) == ["certain"]


@pytest.mark.parametrize("flag", ["unscale_first", "unscale_gradients", "do_unscale"])
def test_a_flag_that_unscales_is_not_the_one_that_switches_the_scaler(flag: str) -> None:
    assert found(PLAIN, SOMETIMES.replace("CFG.unscale", f"CFG.{flag}"), ", enabled=CFG.apex") == ["certain"]


@pytest.mark.parametrize("enabled", ["", ", enabled=CFG.apex"])
@pytest.mark.parametrize("unscale", ["", CLIP, SOMETIMES])
def test_one_that_is_scaled_is_right(unscale: str, enabled: str) -> None:
    assert not found(SCALED, unscale, enabled)


@pytest.mark.parametrize("enabled", ["", ", enabled=CFG.apex"])
def test_a_plain_one_on_top_of_unscaled_gradients_is_right(enabled: str) -> None:
    assert not found(PLAIN, "        scaler.unscale_(optimizer)\n" + CLIP, enabled)


@pytest.mark.parametrize("flag", ["CFG.use_amp", "CFG.loss_scale", "CFG.fp16"])
def test_what_may_switch_the_scaler_off_excuses_a_plain_one(flag: str) -> None:
    assert not found(
        f"if {flag}:\n                {SCALED}\n            else:\n                {PLAIN}", enabled=", enabled=CFG.on"
    )
