import torch
import torch.nn as nn
import torch.nn.functional as F


class VAE(nn.Module):
    def __init__(self, size=16, latent=8, c=16):
        super().__init__()
        self.c, self.s = c, size // 4
        self.enc = nn.Sequential(
            nn.Conv2d(1, c, 4, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(c, c * 2, 4, stride=2, padding=1), nn.ReLU(), nn.Flatten(),
        )
        flat = c * 2 * self.s * self.s
        self.mu = nn.Linear(flat, latent)
        self.logvar = nn.Linear(flat, latent)
        self.fc = nn.Linear(latent, flat)
        self.dec = nn.Sequential(
            nn.ConvTranspose2d(c * 2, c, 4, stride=2, padding=1), nn.ReLU(),
            nn.ConvTranspose2d(c, 1, 4, stride=2, padding=1),
        )

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        h = F.relu(self.fc(z)).view(-1, self.c * 2, self.s, self.s)
        return self.dec(h), mu, logvar


def elbo(logits, x, mu, logvar):
    rec = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return rec, kl
