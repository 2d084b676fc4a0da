"""Patch VAE on small images; the reconstruction term is summed over pixels as in the paper."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from trainer import Config, Trainer


class VAE(nn.Module):
    def __init__(self, size=24, zdim=16, hidden=128):
        super().__init__()
        self.size = size
        self.encode = nn.Sequential(
            nn.Flatten(), nn.Linear(3 * size * size, hidden), nn.ReLU(), nn.Linear(hidden, 2 * zdim))
        self.decode = nn.Sequential(
            nn.Linear(zdim, hidden), nn.ReLU(), nn.Linear(hidden, 3 * size * size))

    def forward(self, x):
        mu, logvar = self.encode(x).float().chunk(2, 1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.decode(z), mu, logvar

    def loss(self, x):
        y, mu, logvar = self(x)
        rec = F.mse_loss(y, x.flatten(1), reduction="sum") / len(x)
        kl = 0.5 * (mu ** 2 + logvar.exp() - 1 - logvar).sum(1).mean()
        return rec + kl, {"rec": rec.item(), "kl": kl.item()}


def make_batch(n, size=24):
    """coloured gradients and bars"""
    t = torch.linspace(0, 1, size)
    a, b = torch.rand(n, 3, 1, 1), torch.rand(n, 3, 1, 1)
    img = a * t[None, None, :, None] + b * t[None, None, None, :]
    pos = torch.randint(0, size - 4, (n,))
    for i, p in enumerate(pos.tolist()):
        img[i, :, :, p:p + 4] = 1.0
    return ((img - 0.5) / 0.25,)


if __name__ == "__main__":
    torch.manual_seed(2)
    Trainer(VAE(), make_batch, Config(lr=2e-3)).run()
