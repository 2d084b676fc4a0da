"""Matrix factorisation of ratings, trained by momentum SGD under bfloat16 autocast."""
from __future__ import annotations

import torch
from torch import nn


class Factors(nn.Module):
    def __init__(self, users: int, items: int, rank: int = 12):
        super().__init__()
        self.user = nn.Parameter(0.3 * torch.randn(users, rank))
        self.item = nn.Parameter(0.3 * torch.randn(items, rank))
        self.user_bias = nn.Parameter(torch.zeros(users))
        self.item_bias = nn.Parameter(torch.zeros(items))
        self.register_buffer("mean", torch.tensor(0.0))

    def forward(self) -> torch.Tensor:
        score = self.user @ self.item.T
        return score + self.user_bias[:, None] + self.item_bias[None, :] + self.mean


def ratings(users=90, items=70, rank=4, density=0.4, seed=0):
    g = torch.Generator().manual_seed(seed)
    u, v = torch.randn(users, rank, generator=g), torch.randn(items, rank, generator=g)
    table = (3.0 + 0.6 * (u @ v.T) + 0.2 * torch.randn(users, items, generator=g)).clamp(1, 5)
    return table, torch.rand(users, items, generator=g) < density


def warmup(peak, ramp):
    def lr(step):
        return peak * min(1.0, (step + 1) / ramp) ** 2
    return lr


def objective(pred, table, seen, model, reg):
    err = (pred.float() - table)[seen]
    return err.square().mean() + reg * (model.user.square().mean() + model.item.square().mean())


def train(steps=80, peak=90.0, ramp=40, reg=1e-3):
    torch.manual_seed(0)
    table, seen = ratings()
    model = Factors(*table.shape)
    model.mean.fill_(table[seen].mean())
    opt = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, warmup(peak, ramp))
    for step in range(steps):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            pred = model()
        loss = objective(pred, table, seen, model, reg)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 5 == 4:
            rmse = (pred.detach().float() - table)[~seen].square().mean().sqrt()
            print(f"{step + 1:3d} lr {sched.get_last_lr()[0]:7.3f} loss {loss.item():.4g} held-out rmse {rmse.item():.4g}")
    return model


if __name__ == "__main__":
    final = train()
    print("largest factor", max(final.user.abs().max().item(), final.item.abs().max().item()))
