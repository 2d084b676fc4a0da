import torch
import torch.nn as nn


class SpectrumVAE(nn.Module):
    def __init__(self, bins=512, hidden=96, latent=8):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(bins, hidden), nn.ELU(), nn.Linear(hidden, hidden), nn.ELU())
        self.mu = nn.Linear(hidden, latent)
        self.logvar = nn.Linear(hidden, latent)
        self.dec = nn.Sequential(nn.Linear(latent, hidden), nn.ELU(), nn.Linear(hidden, hidden), nn.ELU(), nn.Linear(hidden, bins))

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h).clamp(-8, 8)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.dec(z), mu, logvar
