#!/usr/bin/env python3
# First-order meta-learning on sine waves; validation adapts from averaged meta-weights.
import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--meta-steps", type=int, default=150)
parser.add_argument("--tasks", type=int, default=4)
parser.add_argument("--inner-steps", type=int, default=3)
parser.add_argument("--inner-lr", type=float, default=0.02)
parser.add_argument("--meta-lr", type=float, default=3e-3)
parser.add_argument("--decay", type=float, default=0.95)
args = parser.parse_args()
torch.manual_seed(23)


class Wave:
    def __init__(self):
        self.amp = 1.0 + 2.0 * torch.rand(1)
        self.shift = 1.0 * torch.rand(1)

    def draw(self, k=16):
        x = 6.0 * torch.rand(k, 1) - 3.0
        return x, self.amp * torch.sin(x + self.shift)


class Average(nn.Module):
    """Running average of a model's weights; early steps count fully, so that no warm-up is needed."""

    def __init__(self, model, decay):
        super().__init__()
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def update(self, model):
        w = (1.0 - self.decay) / (1.0 - self.decay ** self.seen)
        for mine, other in zip(self.model.parameters(), model.parameters()):
            mine.lerp_(other, w)
        self.seen += 1


def adapt(model, task, steps, lr):
    fast = copy.deepcopy(model).requires_grad_(True)
    for _ in range(steps):
        x, y = task.draw()
        grads = torch.autograd.grad(F.mse_loss(fast(x), y), list(fast.parameters()))
        with torch.no_grad():
            for p, g in zip(fast.parameters(), grads):
                p -= lr * g
    return fast


def validate(model, n=8):
    losses = []
    for _ in range(n):
        task = Wave()
        fast = adapt(model, task, args.inner_steps, args.inner_lr)
        with torch.no_grad():
            x, y = task.draw(64)
            losses.append(F.mse_loss(fast(x), y).item())
    return sum(losses) / n


meta = nn.Sequential(nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1))
average = Average(meta, args.decay)
opt = torch.optim.Adam(meta.parameters(), lr=args.meta_lr)
for step in range(1, args.meta_steps + 1):
    opt.zero_grad()
    total = 0.0
    for _ in range(args.tasks):
        task = Wave()
        fast = adapt(meta, task, args.inner_steps, args.inner_lr)
        x, y = task.draw()
        query = F.mse_loss(fast(x), y)
        grads = torch.autograd.grad(query, list(fast.parameters()))
        for p, g in zip(meta.parameters(), grads):
            p.grad = g / args.tasks if p.grad is None else p.grad + g / args.tasks
        total += query.item() / args.tasks
    opt.step()
    average.update(meta)
    if step % 25 == 0:
        print(f"step {step} query loss {total:.4f} validation {validate(average.model):.4f}")
