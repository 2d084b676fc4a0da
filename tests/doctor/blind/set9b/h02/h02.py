import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SkipAwareScheduler:
    def __init__(self, scheduler, scaler):
        self.scheduler = scheduler
        self.scaler = scaler
        self.last = scaler.get_scale()
        self.skipped = 0

    def step(self):
        now = self.scaler.get_scale()
        if now < self.last:
            self.skipped += 1
        else:
            self.scheduler.step()
        self.last = now


class DepthNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.GroupNorm(4, width), nn.SiLU(),
                                 nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(4, width), nn.SiLU())
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        return self.out(self.enc(x))


def scenes(n, seed, size=24):
    gen = torch.Generator().manual_seed(seed)
    low = torch.rand(n, 1, 4, 4, generator=gen)
    depth = nn.functional.interpolate(low, size=(size, size), mode="bilinear") * 120.0
    shade = torch.exp(-depth / 80.0)
    rgb = shade * torch.tensor([1.0, 0.8, 0.6]).view(1, 3, 1, 1)
    return TensorDataset(rgb + 0.02 * torch.randn(rgb.shape, generator=gen), depth)


def evaluate(model, loader):
    model.eval()
    err, n = 0.0, 0
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        for rgb, depth in loader:
            err += (model(rgb).float() * 20 - depth).abs().sum().item()
            n += depth.numel()
    model.train()
    return err / n


def main(args):
    torch.manual_seed(args.seed)
    train = DataLoader(scenes(160, 1), args.batch_size, shuffle=True)
    valid = DataLoader(scenes(32, 2), 16)
    model = DepthNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** args.log_scale, growth_interval=25)
    total = args.epochs * len(train)
    cosine = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 0.5 + 0.5 * math.cos(math.pi * min(s / total, 1)))
    scaler.scale(torch.zeros(1))
    scheduler = SkipAwareScheduler(cosine, scaler)
    for epoch in range(args.epochs):
        running = 0.0
        for rgb, depth in train:
            with torch.autocast("cpu", dtype=torch.float16):
                pred = model(rgb)
            loss = nn.functional.huber_loss(pred.float() * 20, depth, reduction="sum", delta=1.0) / len(rgb)
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            norm = nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            if not torch.isfinite(norm):
                print(f"  gradient norm {norm.item()} at scale {scaler.get_scale():.3g}")
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            running += loss.item()
        print(f"epoch {epoch} loss {running / len(train):.1f} mae {evaluate(model, valid):.2f} "
              f"scale {scaler.get_scale():.3g} skipped {scheduler.skipped}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--clip", type=float, default=1000.0)
    parser.add_argument("--log-scale", type=int, default=13)
    parser.add_argument("--seed", type=int, default=3)
    main(parser.parse_args())
