"""Instance embedding for pseudo-stereo matching; accumulation over an uneven number of batches."""
import argparse
import contextlib

import torch
import torch.nn as nn
import torch.nn.functional as F


class Embedder(nn.Module):
    def __init__(self, dim=16, w=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, w, 3, stride=2, padding=1), nn.BatchNorm2d(w), nn.ReLU(),
            nn.Conv2d(w, 2 * w, 3, stride=2, padding=1), nn.BatchNorm2d(2 * w), nn.ReLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(8 * w, dim),
        )

    def forward(self, x):
        return F.normalize(self.net(x).float(), dim=1)


def info_nce(a, b, tau=0.1):
    logits = a @ b.t() / tau
    target = torch.arange(len(a))
    return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target))


def pairs(n, g):
    base = F.interpolate(torch.randn(n, 1, 4, 4, generator=g), size=16, mode="bilinear", align_corners=False)
    left = base + 0.15 * torch.randn(base.shape, generator=g)
    right = torch.roll(base, 1, dims=3) + 0.15 * torch.randn(base.shape, generator=g)
    return left, right


class Accumulator:
    """Owns the optimizer and scaler; `flush` applies what has been gathered."""

    def __init__(self, model, optimizer, every, clip):
        self.model, self.optimizer, self.every, self.clip = model, optimizer, every, clip
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 15)
        self.pending = 0
        self.updates = 0

    def backward(self, loss):
        self.scaler.scale(loss / self.every).backward()
        self.pending += 1
        if self.pending == self.every:
            self.flush()

    def flush(self):
        if self.pending == 0:
            return
        if self.pending < self.every:
            for p in self.model.parameters():
                p.grad.mul_(self.every / self.pending)
        if self.clip:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        self.pending = 0
        self.updates += 1


def main(opt):
    torch.manual_seed(opt.seed)
    g = torch.Generator().manual_seed(opt.seed)
    model = Embedder()
    optimizer = torch.optim.SGD(model.parameters(), lr=opt.lr, momentum=0.9, nesterov=True)
    acc = Accumulator(model, optimizer, opt.every, opt.clip)
    amp = torch.autocast("cpu", dtype=torch.float16) if opt.amp else contextlib.nullcontext()
    for epoch in range(opt.epochs):
        clip_now = opt.clip if epoch < opt.clip_epochs else 0.0
        acc.clip = clip_now
        total = 0.0
        for _ in range(opt.batches):
            left, right = pairs(opt.batch_size, g)
            with amp:
                za, zb = model(left), model(right)
            loss = info_nce(za, zb)
            acc.backward(loss)
            total += loss.item()
        acc.flush()
        hit = ((za @ zb.t()).argmax(1) == torch.arange(len(za))).float().mean()
        print(f"epoch {epoch} loss {total / opt.batches:.4f} recall@1 {hit:.3f} updates {acc.updates} clip {clip_now} scale {acc.scaler.get_scale():g}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batches", type=int, default=11)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--every", type=int, default=4)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--clip-epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--amp", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args())
