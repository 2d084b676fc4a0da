import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(8)


def rings(n):
    a = torch.rand(n) * 6.2832
    r = torch.where(torch.rand(n) < 0.5, 1.0, 2.0) + 0.05 * torch.randn(n)
    return torch.stack([r * a.cos(), r * a.sin()], dim=1)


class BatchSpread(nn.Module):
    """Appends how much the batch varies as one more feature (against mode collapse)."""

    def forward(self, h):
        spread = h.std(dim=0).mean()
        return torch.cat([h, spread.expand(h.size(0), 1)], dim=1)


class Critic(nn.Module):
    def __init__(self, w=48):
        super().__init__()
        self.a = nn.Sequential(nn.Linear(2, w), nn.LeakyReLU(0.2), nn.Linear(w, w), nn.LeakyReLU(0.2))
        self.spread = BatchSpread()
        self.b = nn.Linear(w + 1, 1)

    def forward(self, x):
        return self.b(self.spread(self.a(x))).squeeze(1)


class Generator(nn.Module):
    def __init__(self, z=8, w=48):
        super().__init__()
        self.z = z
        self.net = nn.Sequential(nn.Linear(z, w), nn.ReLU(), nn.Linear(w, w), nn.ReLU(), nn.Linear(w, 2))

    def forward(self, n):
        return self.net(torch.randn(n, self.z))


real = rings(1025)
loader = DataLoader(TensorDataset(real), batch_size=64, shuffle=True)
G, D = Generator(), Critic()
opt_g = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.5, 0.9))
opt_d = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.5, 0.9))

for epoch in range(6):
    for (x,) in loader:
        n = x.size(0)
        fake = G(n)
        d_loss = F.softplus(-D(x)).mean() + F.softplus(D(fake.detach())).mean()
        opt_d.zero_grad()
        d_loss.backward()
        opt_d.step()

        g_loss = F.softplus(-D(G(n))).mean()
        opt_g.zero_grad()
        g_loss.backward()
        opt_g.step()
    with torch.no_grad():
        r = G(512).norm(dim=1)
    print(f"epoch {epoch} d {d_loss.item():.3f} g {g_loss.item():.3f} radius {r.mean().item():.3f}")
