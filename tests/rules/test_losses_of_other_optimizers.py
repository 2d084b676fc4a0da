"""AMP410 and AMP402 where a loss reaches one of two optimizers, or other code computes the gradients of one."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

GAN = """\
import torch
from helpers import set_requires_grad


def train(net_g, net_d, loader, criterion, k):
    opt_g = torch.optim.Adam(net_g.parameters())
    opt_d = torch.optim.Adam(net_d.parameters())
    scaler = torch.amp.GradScaler("cuda")
    opt_g.zero_grad()
    opt_d.zero_grad()
    for i, (x, y) in enumerate(loader):
        THAW
        with torch.autocast("cuda"):
            loss_d = criterion(net_d(y), net_d(net_g(x).detach())) / k
        scaler.scale(loss_d).backward()
        if (i + 1) % k == 0:
            scaler.step(opt_d)
            opt_d.zero_grad()
        FREEZE
        with torch.autocast("cuda"):
            loss_g = criterion(net_d(net_g(x)), y) / k
        scaler.scale(loss_g).backward()
        if (i + 1) % k == 0:
            scaler.step(opt_g)
            scaler.update()
            opt_g.zero_grad()
"""
LOOP = "for p in net_d.parameters():\n            p.requires_grad = {}"
ACTOR = """\
import torch


class Trainer:
    def __init__(self, actor, critic):
        self.actor, self.critic = torch.compile(actor), torch.compile(critic)
        self.actor_opt = torch.optim.Adam(self.actor.parameters())
        self.critic_opt = torch.optim.Adam(self.critic.parameters())

    def fit(self, loader):
        scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            with torch.autocast("cuda"):
                experience = self.make(x)
                loss = self.actor_loss(self.actor(experience.x), experience.old)
            scaler.scale(loss).backward()
            scaler.step(self.actor_opt)
            self.actor_opt.zero_grad()
            with torch.autocast("cuda"):
                value = self.critic_loss(self.critic(experience.x), TARGET)
            scaler.scale(value).backward()
            scaler.step(self.critic_opt)
            self.critic_opt.zero_grad()
            scaler.update()
"""


def found(text: str) -> list[str]:
    return [each.code for each in check(text) if each.code == "AMP410"]


@pytest.mark.parametrize(
    ("thaw", "freeze"),
    [
        (LOOP.format(True), LOOP.format(False)),
        ("net_d.requires_grad_(True)", "net_d.requires_grad_(False)"),
        ("net_d.requires_grad_()", "net_d.requires_grad_(False)"),
        ("set_requires_grad(net_d, True)", "set_requires_grad(net_d, False)"),
        ("set_requires_grad([net_d], True)", "set_requires_grad([net_d], False)"),
    ],
)
def test_a_frozen_discriminator_gets_no_gradients(thaw: str, freeze: str) -> None:
    assert not found(GAN.replace("THAW", thaw).replace("FREEZE", freeze))
    assert found(GAN.replace("THAW", thaw).replace("FREEZE", "pass"))
    assert found(GAN.replace("THAW", thaw).replace("FREEZE", thaw))
    assert found(GAN.replace("THAW", thaw).replace("FREEZE", freeze.replace("net_d", "net_g")))


def test_one_that_is_frozen_sometimes_may_get_them() -> None:
    freeze = "if i > 10:\n            net_d.requires_grad_(False)"
    assert found(GAN.replace("THAW", "net_d.requires_grad_(True)").replace("FREEZE", freeze))


def test_which_model_an_unseen_method_runs_can_not_be_told() -> None:
    assert not found(ACTOR.replace("TARGET", "experience.reward"))
    assert found(ACTOR.replace("TARGET", "self.actor(x)"))


HEAD = """\
import torch

def step(model, optimizer, head, head_optimizer, scaler, x, y):
    features = model(x)
    grad = CALL
    features.backward(scaler.scale(grad))
    scaler.step(optimizer)
    scaler.update()
    head_optimizer.step()
    optimizer.zero_grad()
    head_optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("call", "codes"),
    [
        ("head.forward_backward(features, y, head_optimizer)", []),
        ("head.forward_backward(features, y, optimizer=head_optimizer)", []),
        ("head.forward_backward(features, y, optimizer)", ["AMP402"]),
        ("head.loss(features, y)", ["AMP402"]),
    ],
)
def test_code_out_of_sight_computes_the_gradients_of_the_optimizer_that_it_gets(call: str, codes: list[str]) -> None:
    found = check(HEAD.replace("CALL", call), settings=Settings(frozenset({"AMP402"}), isolated=True))
    assert [each.code for each in found] == codes
