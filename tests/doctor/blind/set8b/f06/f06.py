"""Transfer to a new set of classes from pretrained weights."""
import argparse
from pathlib import Path

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

from net import SmallResNet

ROOT = Path(__file__).resolve().parent


def textures(n, classes, seed, size=16):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (n,), generator=g)
    grid = torch.arange(size).float()
    angle = y.float() * 3.1416 / classes
    wave = torch.cos(angle)[:, None, None] * grid[None, :, None] + torch.sin(angle)[:, None, None] * grid[None, None, :]
    shift = torch.rand(n, 1, 1, generator=g) * 6.28
    img = torch.sin(wave * 1.2 + shift)[:, None].repeat(1, 3, 1, 1)
    return TensorDataset(img + 0.5 * torch.randn(n, 3, size, size, generator=g), y)


class AverageMeter:
    def __init__(self):
        self.sum = self.n = 0

    def add(self, v, k):
        self.sum += v * k
        self.n += k

    @property
    def value(self):
        return self.sum / max(self.n, 1)


def load_pretrained(net, path):
    state = torch.load(path, map_location="cpu")["state_dict"]
    own = net.state_dict()
    keep = {k: v for k, v in state.items() if k in own and own[k].shape == v.shape}
    missing = net.load_state_dict(keep, strict=False)
    print(f"loaded {len(keep)} tensors from {path.name}, new: {missing.missing_keys}")


def train_one(net, loader, criterion, opt, scaler):
    net.train()
    meter = AverageMeter()
    for x, y in loader:
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = criterion(net(x), y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        meter.add(loss.item(), len(x))
    return meter.value


@torch.inference_mode()
def evaluate(net, loader, criterion):
    net.eval()
    loss_meter, acc_meter = AverageMeter(), AverageMeter()
    for x, y in loader:
        with torch.autocast("cpu", dtype=torch.float16):
            out = net(x)
            loss = criterion(out, y)
        loss_meter.add(loss.item(), len(x))
        acc_meter.add((out.argmax(1) == y).float().mean().item(), len(x))
    return loss_meter.value, acc_meter.value


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--classes", type=int, default=5)
    ap.add_argument("--pretrained", default="")
    ap.add_argument("--dump", default="")
    args = ap.parse_args()
    torch.manual_seed(11)
    net = SmallResNet(args.classes)
    if args.pretrained:
        load_pretrained(net, ROOT / args.pretrained)
    train = DataLoader(textures(768, args.classes, 1), 32, shuffle=True, drop_last=True)
    val = DataLoader(textures(256, args.classes, 2), 64)
    criterion = nn.CrossEntropyLoss()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=1)
    scaler = torch.amp.GradScaler("cpu")
    best = float("inf")
    for epoch in range(args.epochs):
        tr = train_one(net, train, criterion, opt, scaler)
        vl, va = evaluate(net, val, criterion)
        sched.step(vl)
        if vl < best:
            best = vl
            print("  new best")
        print(f"[{epoch}] train {tr:.4f} val {vl:.4f} top1 {va:.3f} lr {opt.param_groups[0]['lr']:.3g}")
    if args.dump:
        torch.save({"state_dict": net.state_dict(), "best": best}, ROOT / args.dump)


if __name__ == "__main__":
    main()
