"""CNN surrogate: load map on a plate -> deflection field (metres)."""
import argparse
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F


class Surrogate(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, ch, 5, padding=2), nn.GELU(),
            nn.Conv2d(ch, ch, 5, padding=2), nn.GELU(),
            nn.Conv2d(ch, ch, 5, padding=2), nn.GELU(),
        )
        self.out = nn.Conv2d(ch, 1, 1)
        nn.init.normal_(self.out.weight, std=1e-4)
        nn.init.zeros_(self.out.bias)

    def forward(self, q):
        return self.out(self.body(q))


def smooth(x, k=9, rounds=3):
    for _ in range(rounds):
        x = F.avg_pool2d(x, k, stride=1, padding=k // 2)
    return x


def sample(n, size, g):
    q = torch.zeros(n, 1, size, size)
    for i in range(n):
        for _ in range(4):
            r, c = torch.randint(4, size - 8, (2,), generator=g).tolist()
            q[i, 0, r:r + 4, c:c + 4] += 1 + torch.rand(1, generator=g)
    return q, 3e-3 * smooth(q)


class Fit:
    def __init__(self, args):
        torch.manual_seed(args.seed)
        self.args = args
        self.device = torch.device(args.device)
        self.net = Surrogate().to(self.device)
        self.optim = torch.optim.Adam(self.net.parameters(), lr=args.lr, eps=1e-12)
        self.scaler = torch.amp.GradScaler()
        self.gen = torch.Generator().manual_seed(args.seed)

    def step(self):
        q, w = (t.to(self.device) for t in sample(self.args.batch, 24, self.gen))
        with torch.autocast(self.device.type, dtype=torch.float16):
            loss = F.mse_loss(self.net(q), w)
        self.optim.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optim)
        self.scaler.update()
        return loss.item()

    def save(self, path):
        torch.save({"net": self.net.state_dict(), "optim": self.optim.state_dict(),
                    "scaler": self.scaler.state_dict()}, path)

    def run(self):
        acc = []
        for i in range(1, self.args.steps + 1):
            acc.append(self.step())
            if i % 15 == 0:
                print(f"step {i:4d} rmse {(sum(acc) / len(acc)) ** 0.5 * 1e3:.4f} mm")
                acc = []
        self.save(os.path.join(tempfile.gettempdir(), "surrogate.pt"))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=90)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--lr", type=float, default=2e-4)
    ap.add_argument("--device", default="cpu")
    ap.add_argument("--seed", type=int, default=0)
    Fit(ap.parse_args()).run()
