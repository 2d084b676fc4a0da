"""Tiny neural force field for three-atom molecules, trained on energies and forces."""
import math
from dataclasses import dataclass

import torch
from torch import nn
import torch.nn.functional as F


@dataclass
class Opts:
    epochs: int = 4
    batch: int = 25
    lr: float = 2e-3
    force_weight: float = 0.5
    width: int = 48


def reference_energy(pos, r0, theta0):
    a, b = pos[:, 0] - pos[:, 1], pos[:, 2] - pos[:, 1]
    ra, rb = a.norm(dim=1), b.norm(dim=1)
    cos = (a * b).sum(1) / (ra * rb)
    return 2.0 * (ra - r0) ** 2 + 2.0 * (rb - r0) ** 2 + 0.8 * (cos - torch.cos(theta0)) ** 2


def build_set(n=300, seed=2):
    g = torch.Generator().manual_seed(seed)
    species = torch.zeros(n, dtype=torch.long)
    theta0 = torch.full((n,), math.radians(104.5))
    r0 = torch.full((n,), 0.96)
    species[n - 40:] = 1
    theta0[n - 40:] = math.pi
    r0[n - 40:] = 1.16
    theta = theta0 + 0.12 * torch.randn(n, generator=g)
    r = r0[:, None] + 0.05 * torch.randn(n, 2, generator=g)
    relaxed = torch.arange(n) % 20 == 0
    theta = torch.where(relaxed, theta0, theta)
    pos = torch.zeros(n, 3, 3)
    pos[:, 0, 0] = r[:, 0]
    pos[:, 2, 0] = r[:, 1] * theta.cos()
    pos[:, 2, 1] = torch.where(relaxed & (species == 1), torch.zeros(n), r[:, 1] * theta.sin())
    pos = pos.requires_grad_(True)
    e = reference_energy(pos, r0, theta0)
    f = -torch.autograd.grad(e.sum(), pos)[0]
    return pos.detach(), species, e.detach(), f


class ForceField(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.kind = nn.Embedding(2, 8)
        self.mlp = nn.Sequential(
            nn.Linear(3 + 8, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1)
        )

    def internal(self, pos):
        u = pos[:, 0] - pos[:, 1]
        v = pos[:, 2] - pos[:, 1]
        lu, lv = u.norm(dim=1), v.norm(dim=1)
        cosine = ((u * v).sum(1) / (lu * lv)).clamp(-1.0, 1.0)
        angle = torch.acos(cosine)
        return torch.stack([lu - 1.0, lv - 1.0, angle - 2.0], dim=1)

    def forward(self, pos, species):
        feats = torch.cat([self.internal(pos), self.kind(species)], dim=1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = self.mlp(feats)
        return out.float().squeeze(1)


def fit(o):
    torch.manual_seed(0)
    pos, species, energy, force = build_set()
    net = ForceField(o.width)
    opt = torch.optim.Adam(net.parameters(), lr=o.lr)
    for epoch in range(o.epochs):
        perm = torch.randperm(len(pos))
        for it in range(0, len(pos), o.batch):
            sel = perm[it:it + o.batch]
            p = pos[sel].clone().requires_grad_(True)
            e = net(p, species[sel])
            f = -torch.autograd.grad(e.sum(), p, create_graph=True)[0]
            loss_e = F.mse_loss(e, energy[sel])
            loss_f = F.mse_loss(f, force[sel])
            loss = loss_e + o.force_weight * loss_f
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch} energy {loss_e.item():.5f} forces {loss_f.item():.5f}")


if __name__ == "__main__":
    fit(Opts())
