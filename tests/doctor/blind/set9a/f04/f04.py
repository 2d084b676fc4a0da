"""Prototypical networks on episodes of synthetic grey-scale glyphs."""
import argparse

import torch
from torch import nn

from episodes import EpisodeSampler, GlyphBank, proto_loss


class Backbone(nn.Module):
    def __init__(self, width=32, dim=64):
        super().__init__()
        def stage(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2))
        self.features = nn.Sequential(stage(1, width), stage(width, width))
        self.project = nn.Linear(width * 16, dim)
        self.gain = nn.Parameter(torch.tensor(4.0))

    def forward(self, x):
        z = self.project(self.features(x).flatten(1))
        return self.gain * z


def train(args):
    torch.manual_seed(args.seed)
    bank = GlyphBank(classes=20, per_class=20)
    sampler = EpisodeSampler(bank, args.way, args.shot, args.query)
    net = Backbone()
    groups = [{"params": [p for n, p in net.named_parameters() if n != "gain"]},
              {"params": [net.gain], "lr": args.gain_lr}]
    opt = torch.optim.Adam(groups, lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
    window = []
    for it in range(1, args.episodes + 1):
        support, query, target = sampler.draw()
        opt.zero_grad(set_to_none=True)
        with torch.autocast(device_type="cpu", dtype=torch.float16):
            z = net(torch.cat([support, query]))
            zs, zq = z[: len(support)], z[len(support):]
            loss, acc = proto_loss(zs, zq, target, args.way, args.temperature)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        scaler.step(opt)
        scaler.update()
        window.append((loss.item(), acc))
        if it % 25 == 0:
            l, a = (sum(v) / len(window) for v in zip(*window))
            print(f"episode {it:4d}  loss {l:.4f}  acc {a:.3f}  scale {scaler.get_scale():g}")
            window.clear()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--episodes", type=int, default=150)
    ap.add_argument("--way", type=int, default=5)
    ap.add_argument("--shot", type=int, default=3)
    ap.add_argument("--query", type=int, default=5)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--gain-lr", type=float, default=0.5)
    ap.add_argument("--temperature", type=float, default=2000.0)
    ap.add_argument("--seed", type=int, default=0)
    train(ap.parse_args())


if __name__ == "__main__":
    main()
