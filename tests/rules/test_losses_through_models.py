"""AMP407: which parameters a loss reaches that comes through another model, and is one of several results of it."""

from __future__ import annotations

import textwrap

import pytest

from amplint import check
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP407"}), isolated=True, target_torch="2.4")
PROGRAM = """\
import torch
from torch import nn
from nets import Actor, Critic

def main(batches):
    actor, critic = Actor(), Critic()
    critic_optimizer = torch.optim.Adam(critic.parameters())
    optimizer = torch.optim.Adam(actor.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for x, y in batches:
        with torch.autocast("cuda"):
{loss}
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
"""
# What the critic makes of the actor's output, and of what nothing of the actor is in.
FORMS = [
    "q1, q2 = critic(x, {given})\nloss = -critic.value(q1).mean()",
    "q1, q2 = critic(x, {given})\nloss = -critic.value(torch.minimum(q1, q2)).mean()",
    "(q1, h), q2 = critic(x, {given})\nloss = -critic.value(q2).mean() - q1.mean()",
    "q1, *others = critic(x, {given})\nscore = critic.value(q1)\nloss = -score.mean()",
    "h = critic.look(x)\nq1, q2 = critic(h, {given})\nloss = -critic.value(q1).mean()",
    "q1, q2 = critic(x, {given})\nq1, q2 = critic.value(q1), critic.value(q2)\nloss = -torch.minimum(q1, q2).mean()",
]


def found(loss: str) -> list[str]:
    text = PROGRAM.format(loss=textwrap.indent(loss, " " * 12))
    return [each.code for each in check(text, settings=SETTINGS)]


@pytest.mark.parametrize("form", FORMS)
def test_one_of_several_results(form: str) -> None:
    assert found(form.format(given="actor(x)")) == []
    assert found(form.format(given="y")) == ["AMP407"]
    assert found(form.format(given="actor(x).detach()")) == ["AMP407"]


@pytest.mark.parametrize(
    "loop",
    [
        "loss = 0.0\nfor q in critic(x, {given}):\n    loss = loss - critic.value(q).mean()",
        "for q in critic(x, {given}):\n    loss = -critic.value(q).mean()",
        "for q, weight in zip(critic(x, {given}), [1, 2]):\n    loss = -critic.value(q).mean() * weight",
    ],
)
def test_a_loop_over_the_results(loop: str) -> None:
    assert found(loop.format(given="actor(x)")) == []


def test_a_loop_over_data() -> None:
    assert found("for part in x:\n    loss = -critic.value(part).mean()") == ["AMP407"]


def test_a_result_that_is_overwritten() -> None:
    assert found("q1, q2 = critic(x, actor(x))\nq1, q2 = critic(x, y)\nloss = critic.value(q1).mean()") == ["AMP407"]
    assert found("h = actor(x)\nq1, q2 = critic.split(h)\nh = y\nloss = critic.value(q1).mean()") == []
