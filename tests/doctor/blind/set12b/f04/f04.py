"""Energy regression for small molecules from pairwise distances."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    atoms: int = 6
    n_train: int = 128
    rbf: int = 12
    hidden: int = 32
    cutoff: float = 3.0
    lr: float = 2e-3
    epochs: int = 5


class PairNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.shift = nn.Parameter(torch.randn(cfg.atoms, 3) * 0.02)
        self.register_buffer("mu", torch.linspace(0.2, cfg.cutoff, cfg.rbf))
        self.cutoff = cfg.cutoff
        self.filt = nn.Sequential(
            nn.Linear(cfg.rbf, cfg.hidden), nn.SiLU(), nn.Linear(cfg.hidden, cfg.hidden)
        )
        self.read = nn.Sequential(nn.Linear(cfg.hidden, cfg.hidden), nn.SiLU(), nn.Linear(cfg.hidden, 1))

    def distances(self, pos):
        diff = pos[:, :, None] - pos[:, None, :]
        sq = diff.square().sum(-1)
        return torch.where(sq > 0, sq.sqrt(), torch.zeros_like(sq))

    def forward(self, pos):
        dist = self.distances(pos + self.shift)
        basis = torch.exp(-4 * (dist[..., None] - self.mu) ** 2)
        near = ((dist < self.cutoff) & (dist > 0)).float()
        msg = self.filt(basis) * near[..., None]
        return self.read(msg.sum(2)).sum(1).squeeze(-1)


def target_energy(pos):
    d = torch.pdist(pos[0]) if pos.dim() == 2 else torch.stack([torch.pdist(p) for p in pos])
    return (d.clamp(min=0.5).pow(-2) - 0.3 * torch.exp(-d)).sum(-1)


@torch.no_grad()
def evaluate(net, pos, energy):
    net.eval()
    mae = (net(pos) - energy).abs().mean().item()
    net.train()
    return mae


def train(cfg):
    torch.manual_seed(11)
    pos = torch.rand(cfg.n_train, cfg.atoms, 3) * 2
    energy = target_energy(pos)
    energy = (energy - energy.mean()) / energy.std()
    net = PairNet(cfg)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        for idx in torch.randperm(cfg.n_train).split(32):
            loss = nn.functional.mse_loss(net(pos[idx]), energy[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch}: train {loss.item():.4f}  mae {evaluate(net, pos, energy):.4f}")


if __name__ == "__main__":
    train(Config())
