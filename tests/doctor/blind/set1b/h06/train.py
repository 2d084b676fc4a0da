import argparse
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Mixer(nn.Module):
    def __init__(self, tokens=16, dim=32, depth=3, classes=8):
        super().__init__()
        self.embed = nn.Linear(16, dim)
        self.layers = nn.ModuleList()
        for _ in range(depth):
            self.layers.append(nn.ModuleDict({
                "n1": nn.LayerNorm(dim),
                "tok": nn.Sequential(nn.Linear(tokens, 32), nn.GELU(), nn.Linear(32, tokens)),
                "n2": nn.LayerNorm(dim),
                "ch": nn.Sequential(nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, dim)),
            }))
        self.head = nn.Linear(dim, classes)

    def forward(self, img):
        x = F.unfold(img, 4, stride=4).transpose(1, 2)
        x = self.embed(x)
        for l in self.layers:
            x = x + l["tok"](l["n1"](x).transpose(1, 2)).transpose(1, 2)
            x = x + l["ch"](l["n2"](x))
        return self.head(x.mean(1))


def dataset(n, seed):
    gen = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 8, (n,), generator=gen)
    base = torch.randn(8, 1, 16, 16, generator=torch.Generator().manual_seed(77))
    return TensorDataset(base[y] + 1.2 * torch.randn(n, 1, 16, 16, generator=gen), y)


class Run:
    def __init__(self, args):
        self.args = args
        self.model = Mixer()
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=args.lr)
        self.scaler = torch.amp.GradScaler("cpu", growth_interval=200)
        self.loader = DataLoader(dataset(480, 0), batch_size=args.micro, shuffle=True, num_workers=args.workers,
                                 generator=torch.Generator().manual_seed(0))
        self.val = DataLoader(dataset(200, 1), batch_size=100)
        self.epoch = 0

    def save(self, path):
        torch.save({"model": self.model.state_dict(), "opt": self.opt.state_dict(),
                    "scaler": self.scaler.state_dict(), "epoch": self.epoch}, path)

    def load(self, path):
        ck = torch.load(path, weights_only=True)
        self.model.load_state_dict(ck["model"])
        self.opt.load_state_dict(ck["opt"])
        self.scaler.load_state_dict(ck["scaler"])
        self.epoch = ck["epoch"]

    def train_epoch(self):
        self.model.train()
        acc = self.args.accumulate
        total, norms = 0.0, []
        self.opt.zero_grad(set_to_none=True)
        for i, (x, y) in enumerate(self.loader):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(self.model(x).float(), y) / acc
            self.scaler.scale(loss).backward()
            total += loss.item() * acc
            if (i + 1) % acc == 0 or i + 1 == len(self.loader):
                limit = self.args.max_norm * self.scaler.get_scale()
                norms.append(nn.utils.clip_grad_norm_(self.model.parameters(), limit).item() / self.scaler.get_scale())
                self.scaler.step(self.opt)
                self.scaler.update()
                self.opt.zero_grad(set_to_none=True)
        self.epoch += 1
        return total / len(self.loader), max(norms)

    @torch.inference_mode()
    def accuracy(self):
        self.model.eval()
        hits = 0
        for x, y in self.val:
            with torch.autocast("cpu", dtype=torch.float16):
                hits += (self.model(x).argmax(1) == y).sum().item()
        return hits / 200


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--micro", type=int, default=16)
    ap.add_argument("--accumulate", type=int, default=4)
    ap.add_argument("--max-norm", type=float, default=0.5)
    ap.add_argument("--lr", type=float, default=4e-3)
    ap.add_argument("--workers", type=int, default=0)
    args = ap.parse_args()
    torch.manual_seed(0)
    path = os.path.join(tempfile.mkdtemp(), "ck.pt")
    run = Run(args)
    for _ in range(args.epochs // 2):
        loss, norm = run.train_epoch()
        print(f"epoch {run.epoch} loss {loss:.4f} largest norm {norm:.3f} acc {run.accuracy():.3f}")
    run.save(path)
    run = Run(args)
    run.load(path)
    while run.epoch < args.epochs:
        loss, norm = run.train_epoch()
        print(f"epoch {run.epoch} loss {loss:.4f} largest norm {norm:.3f} acc {run.accuracy():.3f} scale {run.scaler.get_scale():g}")


if __name__ == "__main__":
    main()
