import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def two_moons(n=2000, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = torch.rand(n, generator=g) * 3.14159
    up = torch.rand(n, generator=g) < 0.5
    x = torch.where(up, torch.cos(t), 1 - torch.cos(t))
    y = torch.where(up, torch.sin(t), 0.5 - torch.sin(t))
    pts = torch.stack([x, y], 1) + 0.05 * torch.randn(n, 2, generator=g)
    return (pts - pts.mean(0)) / pts.std(0)


class Denoiser(nn.Module):
    def __init__(self, steps, hidden=128):
        super().__init__()
        self.temb = nn.Embedding(steps, 32)
        self.net = nn.Sequential(
            nn.Linear(2 + 32, hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, 2),
        )

    def forward(self, x, t):
        return self.net(torch.cat([x, self.temb(t)], dim=1))


class DDPM:
    def __init__(self, steps=100, lo=1e-4, hi=0.05):
        self.steps = steps
        self.beta = torch.linspace(lo, hi, steps)
        self.abar = torch.cumprod(1 - self.beta, 0)

    def q_sample(self, x0, t, noise):
        a = self.abar[t][:, None]
        return a.sqrt() * x0 + (1 - a).sqrt() * noise


def training_step(model, ddpm, x0, opt, scaler):
    t = torch.randint(0, ddpm.steps, (len(x0),))
    noise = torch.randn_like(x0)
    opt.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.float16):
        pred = model(ddpm.q_sample(x0, t, noise), t)
        loss = ((pred.float() - noise) ** 2).sum()
    scaler.scale(loss).backward()
    for p in model.parameters():
        if p.grad is not None:
            torch.nan_to_num(p.grad, nan=0.0, posinf=0.0, neginf=0.0, out=p.grad)
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(model.parameters(), 10.0)
    scaler.step(opt)
    scaler.update()
    return loss.item() / x0.numel()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--batch-size", type=int, default=100)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(two_moons()), args.batch_size, shuffle=True)
    ddpm = DDPM()
    model = Denoiser(ddpm.steps)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")
    for epoch in range(args.epochs):
        losses = [training_step(model, ddpm, x, opt, scaler) for (x,) in loader]
        print(f"epoch {epoch:2d} eps-mse {sum(losses) / len(losses):.4f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
