import argparse
import math
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


@dataclass
class Accumulator:
    """Collects micro batches; one optimizer step per `every` of them. Clips while the gradients are still
    scaled, with the bound scaled alike, so that no extra pass over the gradients is needed."""

    params: list
    opt: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    every: int
    max_norm: float
    seen: int = 0
    norms: list = field(default_factory=list)

    def __call__(self, loss):
        self.scaler.scale(loss / self.every).backward()
        self.seen += 1
        if self.seen % self.every:
            return False
        scale = self.scaler.get_scale()
        norm = nn.utils.clip_grad_norm_(self.params, self.max_norm * scale)
        self.norms.append(norm.item() / scale)
        self.scaler.step(self.opt)
        self.scaler.update()
        self.opt.zero_grad(set_to_none=True)
        return True


class Mixer(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.na, self.nb = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.a = nn.Sequential(nn.Linear(tokens, tokens * 2), nn.GELU(), nn.Linear(tokens * 2, tokens))
        self.b = nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))

    def forward(self, x):
        x = x + self.a(self.na(x).transpose(1, 2)).transpose(1, 2)
        return x + self.b(self.nb(x))


class Segmenter(nn.Module):
    def __init__(self, size=16, patch=4, dim=24, depth=2):
        super().__init__()
        n = (size // patch) ** 2
        self.patch = nn.Conv2d(1, dim, patch, patch)
        self.body = nn.ModuleList(Mixer(n, dim) for _ in range(depth))
        self.out = nn.ConvTranspose2d(dim, 1, patch, patch)
        self.side = size // patch

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        for block in self.body:
            x = checkpoint(block, x, use_reentrant=False)
        return self.out(x.transpose(1, 2).unflatten(2, (self.side, self.side)))


def dice(logits, mask):
    p = logits.float().sigmoid()
    inter, total = (p * mask).sum((1, 2, 3)), (p + mask).sum((1, 2, 3))
    return 1 - ((2 * inter + 1) / (total + 1)).mean()


def pictures(g, n):
    ys, xs = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    while True:
        c = 3 + 10 * torch.rand(n, 2, 1, 1, generator=g)
        r = 2 + 3 * torch.rand(n, 1, 1, generator=g)
        mask = ((xs - c[:, 0]) ** 2 + (ys - c[:, 1]) ** 2 < r ** 2).float()[:, None]
        yield mask * 0.8 + 0.4 * torch.randn(n, 1, 16, 16, generator=g), mask


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--updates", type=int, default=30)
    ap.add_argument("--accumulate", type=int, default=3)
    args = ap.parse_args()
    torch.manual_seed(120)
    model = Segmenter()
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
    sched = torch.optim.lr_scheduler.LinearLR(opt, 0.2, 1.0, total_iters=8)
    push = Accumulator(list(model.parameters()), opt, torch.amp.GradScaler("cpu", init_scale=2.0 ** 22), args.accumulate, 1.0)
    done, total = 0, 0.0
    for x, mask in pictures(torch.Generator().manual_seed(121), 12):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            loss = F.binary_cross_entropy_with_logits(logits.float(), mask) + dice(logits, mask)
        total += loss.item() / args.accumulate
        if push(loss):
            if math.isfinite(push.norms[-1]):
                sched.step()
            done += 1
            if done % 5 == 0 or done < 4:
                print(f"update {done} loss {total:.4f} norm {push.norms[-1]:.4f} scale {push.scaler.get_scale():g}")
            total = 0.0
        if done == args.updates:
            break


if __name__ == "__main__":
    main()
