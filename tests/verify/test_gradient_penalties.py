"""Inputs whose gradients are asked for: what a model makes of them hangs on its parameters, as with any batch."""

from __future__ import annotations

from itertools import product

import pytest

pytest.importorskip("torch")

import amplint
from amplint.verify.steps.verify import StepRow
from tests import some

HEAD = """
import torch
import torch.nn.functional as F
from torch.amp import GradScaler, autocast
"""
ATTACK = (
    HEAD
    + """
def train(model, loader, args):
    optimizer = OPTIMIZER
    scaler = GradScaler("cuda")
    for images, labels in loader:
        images.requires_grad = True
        with autocast("cuda", enabled=False):
            clean = F.cross_entropy(model(images), labels)
        GRADIENT
        with autocast("cuda"):
            loss = F.cross_entropy(model(images + args.eps * grad.sign()), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        CLIP
        scaler.step(optimizer)
        scaler.update()
"""
)
GRADIENTS = {
    "asked for": "grad = torch.autograd.grad(clean, images)[0]",
    "with a graph": "grad = torch.autograd.grad(clean, images, create_graph=True)[0].detach()",
    "scaled": "scaler.scale(clean).backward()\n        grad = images.grad.detach()",
    "left behind": "clean.backward()\n        grad = images.grad.detach().clone()\n        images.grad.zero_()",
}
# The penalty of a step of its own, every few iterations.
LAZY = (
    HEAD
    + """
def penalty(real_pred, real_img):
    (grad,) = torch.autograd.grad(outputs=real_pred.sum(), inputs=real_img, create_graph=True)
    return grad.pow(2).reshape(grad.shape[0], -1).sum(1).mean()


def train(args, loader, generator, discriminator, g_optim, d_optim):
    scaler = GradScaler("cuda", enabled=args.amp)
    for i, real_img in enumerate(loader):
        noise = torch.randn(args.batch, args.latent).cuda()
        with autocast("cuda", enabled=args.amp):
            real_pred = discriminator(real_img)
            fake_pred = discriminator(generator(noise).detach())
            d_loss = F.softplus(-real_pred).mean() + F.softplus(fake_pred).mean()
        d_optim.zero_grad()
        scaler.scale(d_loss).backward()
        CLIP
        scaler.step(d_optim)
        scaler.update()
        if i % args.d_reg_every == 0:
            real_img.requires_grad = True
            with autocast("cuda", enabled=False):
                real_pred = discriminator(real_img.float())
                r1_loss = PENALTY
            d_optim.zero_grad()
            scaler.scale(args.r1 / 2 * r1_loss * args.d_reg_every + 0 * real_pred[0]).backward()
            scaler.step(d_optim)
            scaler.update()
        with autocast("cuda", enabled=args.amp):
            g_loss = F.softplus(-discriminator(generator(noise))).mean()
        g_optim.zero_grad()
        scaler.scale(g_loss).backward()
        scaler.step(g_optim)
        scaler.update()
"""
)
PENALTIES = {
    "in a function": "penalty(real_pred, real_img)",
    "in place": "torch.autograd.grad(real_pred.sum(), real_img, create_graph=True)[0].pow(2).mean()",
    "with ones": "torch.autograd.grad(outputs=real_pred, inputs=real_img, grad_outputs=torch.ones_like(real_pred), "
    "create_graph=True)[0].norm(2)",
}
CLIPS = ["pass", "torch.nn.utils.clip_grad_norm_(WHOSE.parameters(), 1.0)"]


def row(text: str) -> StepRow:
    return next(each for each in amplint.verify(text) if each.name == "train")


def assert_only_a_clip_is_wrong(found: StepRow, clip: str) -> None:
    wrong = {each.shows for each in found.before.faults}
    if clip == "pass":
        assert (found.verdict, wrong) == ("clean", set()), found
    else:
        assert wrong >= {"gradient"}, found
        assert "exception" not in wrong


OPTIMIZERS = ("args.optimizer", "torch.optim.SGD(model.parameters(), lr=0.1)")


@pytest.mark.parametrize(
    ("how", "clip", "optimizer"),
    # Each pair with one optimizer; with AMPLINT_TEST_ALL=1 with both.
    [each for pair in product(GRADIENTS, CLIPS) for each in some([(*pair, one) for one in OPTIMIZERS], 1)],
)
def test_an_attack_leaves_the_step_what_it_is(how: str, clip: str, optimizer: str) -> None:
    text = ATTACK.replace("GRADIENT", GRADIENTS[how]).replace("OPTIMIZER", optimizer)
    found = row(text.replace("CLIP", clip.replace("WHOSE", "model")))
    assert_only_a_clip_is_wrong(found, clip)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("how", PENALTIES)
def test_a_penalty_of_its_own_step_is_right(how: str, clip: str) -> None:
    found = row(LAZY.replace("PENALTY", PENALTIES[how]).replace("CLIP", clip.replace("WHOSE", "discriminator")))
    assert_only_a_clip_is_wrong(found, clip)
