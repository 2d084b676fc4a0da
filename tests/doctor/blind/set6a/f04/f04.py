"""Surrogate for the displacement field (metres) of a loaded plate."""
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--points", type=int, default=8192)
    p.add_argument("--lr", type=float, default=1e-5)
    p.add_argument("--amp", choices=["no", "fp16"], default="fp16")
    return p.parse_args()


class Field(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.tail = nn.Linear(width, 1)
        nn.init.zeros_(self.tail.weight)
        nn.init.zeros_(self.tail.bias)

    def forward(self, x):
        return self.tail(self.body(x)).squeeze(-1)


def displacement(xyq):
    x, y, q = xyq.unbind(-1)
    return 9e-5 * q * torch.sin(3.1416 * x) * torch.sin(3.1416 * y)


class Trainer:
    def __init__(self, args):
        self.args = args
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.use_amp = args.amp == "fp16"
        self.net = Field().to(self.device)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=args.lr, eps=1e-12)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.use_amp and self.device.type == "cuda")

    def step(self, pts):
        target = displacement(pts)
        self.opt.zero_grad()
        with torch.autocast(self.device.type, dtype=torch.float16, enabled=self.use_amp):
            pred = self.net(pts)
            loss = F.mse_loss(pred, target)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return (loss / target.var()).item()

    def fit(self):
        for it in range(self.args.steps):
            rel = self.step(torch.rand(self.args.points, 3, device=self.device))
            if it % 10 == 0 or it == self.args.steps - 1:
                print(f"it {it:3d}  relative error {rel:.4f}  |tail| {self.net.tail.weight.abs().max():.2e}")


if __name__ == "__main__":
    torch.manual_seed(5)
    Trainer(parse()).fit()
