"""SIREN fit of a height map with mixed precision."""
import argparse
import math
import torch
import torch.nn as nn


class Sine(nn.Module):
    def __init__(self, i, o, w0=15.0, first=False):
        super().__init__()
        self.lin, self.w0 = nn.Linear(i, o), w0
        bound = 1 / i if first else math.sqrt(6 / i) / w0
        nn.init.uniform_(self.lin.weight, -bound, bound)

    def forward(self, x):
        return torch.sin(self.w0 * self.lin(x))


class Siren(nn.Module):
    def __init__(self, width=48, depth=2):
        super().__init__()
        self.body = nn.Sequential(Sine(2, width, first=True), *[Sine(width, width) for _ in range(depth)])
        self.last = nn.Linear(width, 1)
        nn.init.uniform_(self.last.weight, -0.002, 0.002)
        nn.init.zeros_(self.last.bias)

    def forward(self, x):
        return self.last(self.body(x)).squeeze(-1)


def height_map(side):
    """Relief in metres, below a millimetre high."""
    t = torch.linspace(-1, 1, side)
    y, x = torch.meshgrid(t, t, indexing="ij")
    z = 0.0008 * torch.sin(4 * x + 1) * torch.cos(3 * y) + 0.0004 * torch.cos(6 * x * y)
    return torch.stack([x, y], -1).view(-1, 2), z.reshape(-1)


class Fit:
    def __init__(self, args):
        self.args = args
        self.model = Siren()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=args.lr, eps=1e-12)
        self.scaler = torch.amp.GradScaler()
        self.xy, self.z = height_map(args.side)

    def step(self, idx):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            pred = self.model(self.xy[idx])
            loss = self.args.w_data * (pred.float() - self.z[idx]).pow(2).mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def relative_error(self):
        with torch.no_grad():
            err = self.model(self.xy) - self.z
        return (err.norm() / self.z.norm()).item()

    def run(self):
        for it in range(self.args.iters):
            idx = torch.randint(0, len(self.z), (self.args.batch,))
            loss = self.step(idx)
            if it % 25 == 0 or it == self.args.iters - 1:
                print(f"it {it} loss {loss:.3e} relative error {self.relative_error():.4f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=150)
    ap.add_argument("--batch", type=int, default=1024)
    ap.add_argument("--side", type=int, default=48)
    ap.add_argument("--w-data", type=float, default=1e-3)
    ap.add_argument("--lr", type=float, default=5e-4)
    args = ap.parse_args()
    torch.manual_seed(0)
    Fit(args).run()
