"""Overfit one small set of digits-like images first, to see that the pipeline works."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Patchify(nn.Module):
    def __init__(self, patch, dim):
        super().__init__()
        self.proj = nn.Conv2d(1, dim, patch, stride=patch)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.token = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.channel = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.token(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel(self.n2(x))


class Mixer(nn.Module):
    def __init__(self, dim=32, depth=2, classes=6):
        super().__init__()
        self.patch = Patchify(4, dim)
        self.blocks = nn.Sequential(*[MixerBlock(16, dim) for _ in range(depth)])
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        return self.head(self.blocks(self.patch(x)).mean(dim=1))


def synthetic(n, classes, seed):
    g = torch.Generator().manual_seed(seed)
    protos = torch.randn(classes, 1, 16, 16, generator=g)
    y = torch.randint(0, classes, (n,), generator=g)
    return protos[y] + 0.7 * torch.randn(n, 1, 16, 16, generator=g), y


def batches(x, y, size):
    for i in range(0, len(x), size):
        yield x[i:i + size], y[i:i + size]


def run_epochs(model, data, optimizer, scaler, args):
    x, y = data
    for epoch in range(args.epochs):
        tic, losses = time.perf_counter(), []
        for xb, yb in batches(x, y, args.batch_size):
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(xb), yb)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        wnorm = torch.stack([p.detach().norm() for p in model.parameters()]).norm().item()
        print(f"epoch {epoch:2d} loss {sum(losses) / len(losses):.5f} |w| {wnorm:.4f} scale {scaler.get_scale():g} ({time.perf_counter() - tic:.2f}s)")


def evaluate(model, data):
    model.eval()
    with torch.no_grad():
        out = model(data[0])
    return (out.argmax(1) == data[1]).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--no-amp", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    model = Mixer()
    data = synthetic(128, 6, seed=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", enabled=not args.no_amp)
    with torch.autocast("cpu", dtype=torch.float16, enabled=not args.no_amp):
        run_epochs(model, data, optimizer, scaler, args)
    print(f"train accuracy {evaluate(model, data):.3f}")


if __name__ == "__main__":
    main()
