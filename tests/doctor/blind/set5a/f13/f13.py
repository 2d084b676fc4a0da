"""Variational autoencoder on stroke images, summed ELBO, mixed precision."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(1)


def strokes(n, size=24):
    t = torch.linspace(0, 1, 40)
    img = torch.zeros(n, size, size)
    a = torch.rand(n, 4) * (size - 6) + 3
    bend = (torch.rand(n, 2) - 0.5) * size * 0.5
    for k in range(40):
        x = a[:, 0] * (1 - t[k]) + a[:, 2] * t[k] + bend[:, 0] * t[k] * (1 - t[k])
        y = a[:, 1] * (1 - t[k]) + a[:, 3] * t[k] + bend[:, 1] * t[k] * (1 - t[k])
        xi, yi = x.round().long().clamp(0, size - 2), y.round().long().clamp(0, size - 2)
        r = torch.arange(n)
        img[r, yi, xi] = 1.0
        img[r, yi, xi + 1] = 1.0
    return img.flatten(1)


class VAE(nn.Module):
    def __init__(self, d=576, h=128, z=12):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, h), nn.ReLU())
        self.mu = nn.Linear(h, z)
        self.logvar = nn.Linear(h, z)
        self.dec = nn.Sequential(nn.Linear(z, h), nn.ReLU(), nn.Linear(h, d))

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h).float(), self.logvar(h).float()
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar


def elbo(recon, x, mu, logvar):
    rec = F.binary_cross_entropy_with_logits(recon.float(), x, reduction="sum")
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum()
    return rec + kl


def sanitize_gradients(module):
    for p in module.parameters():
        if p.grad is not None:
            p.grad = torch.nan_to_num(p.grad, nan=0.0, posinf=0.0, neginf=0.0)


def train(epochs=8, batch=64):
    data = strokes(512)
    vae = VAE()
    opt = torch.optim.SGD(vae.parameters(), lr=2e-5, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu")
    for epoch in range(epochs):
        order = torch.randperm(len(data))
        total = 0.0
        for i in range(0, len(data), batch):
            x = data[order[i:i + batch]]
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                recon, mu, logvar = vae(x)
            loss = elbo(recon, x, mu, logvar)
            scaler.scale(loss).backward()
            sanitize_gradients(vae)
            scaler.step(opt)
            scaler.update()
            total += loss.item()
        print(f"epoch {epoch}  -elbo/sample {total / len(data):.2f}  scale {scaler.get_scale():.0f}")


train()
