"""Linear probe of a pretrained sensor network for gestures."""
import argparse
import math

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

from backbone import adapt, pretrained


def gestures(n=900, length=64, classes=4, seed=3):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=g)
    t = torch.linspace(0, 1, length)
    freq = (2 + 3 * y).float()[:, None, None]
    phase = torch.rand(n, 6, 1, generator=g) * math.tau
    x = torch.sin(math.tau * freq * t + phase) + 0.5 * torch.randn(n, 6, length, generator=g)
    return TensorDataset(x, y)


class Session:
    def __init__(self, args):
        self.args = args
        self.net = pretrained(args.seed)
        self.optimizer = torch.optim.AdamW(self.net.head.parameters(), lr=args.lr)
        self.net = adapt(self.net, classes=4)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
        data = gestures()
        g = torch.Generator().manual_seed(args.seed)
        tr, va = random_split(data, [700, 200], generator=g)
        self.train_loader = DataLoader(tr, args.batch, shuffle=True, generator=g)
        self.val_loader = DataLoader(va, 100)

    def amp(self):
        return torch.autocast("cpu", dtype=torch.float16)

    def fit(self):
        for epoch in range(self.args.epochs):
            self.net.train()
            total = 0.0
            for x, y in self.train_loader:
                self.net.zero_grad(set_to_none=True)
                with self.amp():
                    loss = F.cross_entropy(self.net(x), y)
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
                total += loss.item() * len(y)
            print(f"epoch {epoch} loss {total / 700:.4f} accuracy {self.accuracy():.3f}")

    @torch.no_grad()
    def accuracy(self):
        self.net.eval()
        right = 0
        for x, y in self.val_loader:
            with self.amp():
                right += (self.net(x).argmax(1) == y).sum().item()
        return right / 200


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=1)
    Session(parser.parse_args()).fit()
