"""MLP-Mixer style classifier, SGD with the linear scaling rule, bf16."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F


class MixerLayer(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.token = nn.Sequential(nn.Linear(tokens, 32), nn.ReLU(), nn.Linear(32, tokens))
        self.channel = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, dim))

    def forward(self, x):
        x = x + self.token(x.transpose(1, 2)).transpose(1, 2)
        return x + self.channel(x)


class Mixer(nn.Module):
    def __init__(self, tokens=9, dim=24, classes=6):
        super().__init__()
        self.stem = nn.Linear(12, dim)
        self.layers = nn.Sequential(MixerLayer(tokens, dim), MixerLayer(tokens, dim))
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        return self.head(self.layers(self.stem(x)).mean(1))


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--base-lr", type=float, default=0.1, help="for a batch of 256")
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--accum", type=int, default=2)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--warmup", type=int, default=15)
    p.add_argument("--amp", type=int, default=1)
    return p.parse_args()


def build_optimizer(model, args):
    world = args.batch_size * args.accum
    lr = args.base_lr * world / 2.56
    opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / args.warmup))
    return opt, sched


def main():
    args = get_args()
    torch.manual_seed(7)
    protos = torch.randn(6, 9, 12)
    labels = torch.randint(0, 6, (1536,))
    images = protos[labels] + torch.randn(1536, 9, 12)
    net = Mixer()
    opt, sched = build_optimizer(net, args)
    for epoch in range(args.epochs):
        order = torch.randperm(len(images))
        total = 0.0
        for k, idx in enumerate(order.split(args.batch_size)):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bool(args.amp)):
                loss = F.cross_entropy(net(images[idx]), labels[idx])
            (loss / args.accum).backward()
            total += loss.item()
            if (k + 1) % args.accum == 0:
                opt.step()
                sched.step()
                opt.zero_grad()
        print(f"epoch {epoch} loss {total / (k + 1):.4g} lr {sched.get_last_lr()[0]:.3f}")


if __name__ == "__main__":
    main()
