"""Adapting a pretrained species classifier to new classes (bf16)."""
import argparse
import logging

import torch
import torch.nn as nn
import torch.nn.functional as F

log = logging.getLogger("adapt")


class SpeciesNet(nn.Module):
    def __init__(self, inputs=40, width=64, classes=12):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(inputs, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
        self.classifier = nn.Linear(width, classes)

    def forward(self, x):
        return self.classifier(self.features(x))


class Measurements:
    def __init__(self, classes, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.centres = 1.2 * torch.randn(classes, 40, generator=self.gen)

    def __call__(self, n):
        y = torch.randint(len(self.centres), (n,), generator=self.gen)
        return self.centres[y] + torch.randn(n, 40, generator=self.gen), y


def pretrained():
    torch.manual_seed(0)
    net, data = SpeciesNet(), Measurements(12, 1)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(60):
        x, y = data(64)
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    log.info("source task loss %.3f", loss.item())
    return net


def configure(net, lr):
    for p in net.features.parameters():
        p.requires_grad_(False)
    groups = [
        {"params": list(net.features.parameters()), "lr": lr * 0.1},
        {"params": list(net.classifier.parameters()), "lr": lr},
    ]
    return torch.optim.AdamW(groups, weight_decay=1e-4)


def replace_head(net, classes):
    net.classifier = nn.Linear(net.classifier.in_features, classes)
    return net


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--classes", type=int, default=5)
    ap.add_argument("--lr", type=float, default=1e-2)
    ap.add_argument("--steps", type=int, default=60)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    net = pretrained()
    optimizer = configure(net, args.lr)
    net = replace_head(net, args.classes)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    data = Measurements(args.classes, 2)
    for step in range(args.steps):
        x, y = data(64)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = net(x)
            loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sched.step()
        if step % 10 == 0:
            log.info("step %d loss %.4f acc %.2f", step, loss.item(), (out.argmax(1) == y).float().mean())


if __name__ == "__main__":
    main()
