import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

from trainer import Trainer


class VAE(nn.Module):
    def __init__(self, zdim=8, width=64):
        super().__init__()
        self.enc = nn.Sequential(nn.Flatten(), nn.Linear(144, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.mu, self.logvar = nn.Linear(width, zdim), nn.Linear(width, zdim)
        self.dec = nn.Sequential(nn.Linear(zdim, width), nn.ReLU(), nn.Linear(width, 144))

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h).clamp(-8, 8)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z).view_as(x), mu, logvar


def digits(n):
    """Seven-segment digits with jitter."""
    seg = {"t": (1, slice(3, 9)), "m": (5, slice(3, 9)), "b": (10, slice(3, 9))}
    codes = ["tbLlRr", "Rr", "tmbRl", "tmbRr", "mLRr", "tmbLr", "tmbLlr", "tRr", "tmbLlRr", "tmbLRr"]
    x = torch.zeros(n, 1, 12, 12)
    for i in range(n):
        img = x[i, 0]
        for c in codes[i % 10]:
            if c in seg:
                img[seg[c]] = 1
            else:
                img[slice(1, 6) if c.isupper() else slice(5, 11), 2 if c in "Ll" else 9] = 1
    return torch.stack([torch.roll(v, int(torch.randint(-1, 2, ())), -1) for v in x])


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--precision", default="16-mixed", choices=["32", "16-mixed", "bf16-mixed"])
    ap.add_argument("--epochs", type=int, default=10)
    args = ap.parse_args()
    torch.manual_seed(8)
    loader = DataLoader(TensorDataset(digits(480)), batch_size=48, shuffle=True)
    model = VAE()
    trainer = Trainer(model, torch.optim.AdamW(model.parameters(), lr=2e-3), args.precision)
    trainer.fit(loader, args.epochs)
    trainer.teardown()
    print("best loss %.3f" % min(trainer.history))
