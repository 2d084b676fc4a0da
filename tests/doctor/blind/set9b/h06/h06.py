import argparse
import copy
import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Blobs(Dataset):
    def __init__(self, n=384, size=12, seed=0):
        gen = torch.Generator().manual_seed(seed)
        yy, xx = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
        c = torch.rand(n, 2, 1, 1, generator=gen) - 0.5
        self.x = 2 * torch.exp(-((xx - c[:, :1]) ** 2 + (yy - c[:, 1:]) ** 2) / 0.1) - 1

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i]


class EpsNet(nn.Module):
    def __init__(self, width=24, steps=50):
        super().__init__()
        self.time = nn.Embedding(steps, width)
        self.a = nn.Conv2d(1, width, 3, padding=1)
        self.b = nn.Conv2d(width, width, 3, padding=1)
        self.c = nn.Conv2d(width, width, 3, padding=1)
        self.d = nn.Conv2d(width, 1, 3, padding=1)
        self.norm = nn.GroupNorm(4, width)
        nn.init.zeros_(self.d.weight)

    def forward(self, x, t):
        h = torch.relu(self.a(x)) + self.time(t)[:, :, None, None]
        h = h + self.c(torch.relu(self.b(self.norm(h))))
        return self.d(torch.relu(h))


class Run:
    STEPS = 50

    def __init__(self, args):
        self.args = args
        self.net = EpsNet(steps=self.STEPS)
        self.ema = copy.deepcopy(self.net).eval().requires_grad_(False)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=args.lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 22, growth_interval=40)
        self.bar = torch.cumprod(1 - torch.linspace(1e-3, 0.1, self.STEPS), 0)
        self.epoch = 0

    def state(self):
        parts = {k: getattr(self, k).state_dict() for k in ("net", "ema", "opt", "scaler")}
        return {**parts, "epoch": self.epoch}

    def restore(self, state):
        for k in ("net", "ema", "opt", "scaler"):
            getattr(self, k).load_state_dict(state[k])
        self.epoch = state["epoch"]

    def loss(self, x):
        t = torch.randint(0, self.STEPS, (len(x),))
        a = self.bar[t].view(-1, 1, 1, 1)
        noise = torch.randn_like(x)
        with torch.autocast("cpu", dtype=torch.float16):
            out = self.net(a.sqrt() * x + (1 - a).sqrt() * noise, t)
        per = (out.float() - noise).square().flatten(1).mean(1)
        snr = a.flatten() / (1 - a.flatten())
        return (per * snr.clamp(max=5.0) / snr.clamp(max=5.0).mean()).mean()

    def train(self, loader, until):
        while self.epoch < until:
            total = 0.0
            for x in loader:
                loss = self.loss(x)
                self.opt.zero_grad()
                self.scaler.scale(loss).backward()
                self.scaler.step(self.opt)
                self.scaler.update()
                with torch.no_grad():
                    for e, p in zip(self.ema.parameters(), self.net.parameters()):
                        e.mul_(0.98).add_(p, alpha=0.02)
                total += loss.item()
            self.epoch += 1
            print(f"epoch {self.epoch} loss {total / len(loader):.4f} scale {self.scaler.get_scale():.0f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--lr", type=float, default=3e-3)
    args = p.parse_args()
    torch.manual_seed(4)
    loader = DataLoader(Blobs(), 32, shuffle=True)
    path = os.path.join(tempfile.mkdtemp(), "last.pt")
    first = Run(args)
    first.train(loader, args.epochs // 2)
    torch.save(first.state(), path)
    second = Run(args)
    second.restore(torch.load(path, weights_only=True))
    os.remove(path)
    second.train(loader, args.epochs)
