"""Energy model with a gradient penalty; the loss scale probes upwards all the time."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def crescent(n, seed):
    g = torch.Generator().manual_seed(seed)
    a = torch.rand(n, generator=g) * 3.1416
    x = torch.stack([a.cos(), a.sin()], -1) * (1 + 0.05 * torch.randn(n, 1, generator=g))
    return x


class Energy(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


class Objective:
    def __init__(self, model, scaler, weight):
        self.model, self.scaler, self.weight = model, scaler, weight

    def penalty(self, real, fake):
        mix = torch.rand(len(real), 1)
        x = (mix * real + (1 - mix) * fake).requires_grad_(True)
        with torch.autocast("cpu", dtype=torch.float16):
            out = self.model(x)
        grad, = torch.autograd.grad(self.scaler.scale(out.float().sum()), x, create_graph=True)
        grad = grad / self.scaler.get_scale()
        if not torch.isfinite(grad).all():
            return None
        return (grad.float().norm(dim=1) - 1).square().mean()

    def __call__(self, real):
        fake = torch.rand_like(real) * 3 - 1.5
        with torch.autocast("cpu", dtype=torch.float16):
            gap = F.softplus(self.model(real).float()).mean() + F.softplus(-self.model(fake).float()).mean()
        gp = self.penalty(real, fake)
        return gap if gp is None else gap + self.weight * gp, gap


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--weight", type=float, default=0.1)
    p.add_argument("--growth-interval", type=int, default=12)
    args = p.parse_args()
    torch.manual_seed(0)
    model = Energy()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 10, growth_interval=args.growth_interval)
    objective = Objective(model, scaler, args.weight)
    loader = DataLoader(TensorDataset(crescent(2048, 1)), 64, shuffle=True)
    steps = skipped = 0
    for epoch in range(args.epochs):
        total = 0.0
        for (x,) in loader:
            loss, gap = objective(x)
            opt.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            before = scaler.get_scale()
            scaler.step(opt)
            scaler.update()
            steps += 1
            skipped += scaler.get_scale() < before
            total += gap.item()
        print(f"epoch {epoch} gap {total / len(loader):.4f} scale 2^{torch.tensor(scaler.get_scale()).log2().item():.0f} skipped {skipped}/{steps}")


if __name__ == "__main__":
    main()
