"""Neural potential for a small cluster, fitted to reference forces (mixed precision)."""
from dataclasses import dataclass
import torch
import torch.nn as nn


@dataclass
class Config:
    atoms: int = 4
    batch: int = 32
    steps: int = 200
    lr: float = 3e-3
    seed: int = 0


def morse(pos):
    i, j = torch.triu_indices(pos.size(1), pos.size(1), offset=1)
    r = (pos[:, i] - pos[:, j]).norm(dim=-1)
    return ((1 - torch.exp(-(r - 1.5))) ** 2).sum(1, keepdim=True)


def sample(cfg, n):
    base = torch.tensor([[0., 0., 0.], [1.6, 0., 0.], [0., 1.6, 0.], [0., 0., 1.6]])
    pos = (base + 0.15 * torch.randn(n, cfg.atoms, 3)).requires_grad_(True)
    f = -torch.autograd.grad(morse(pos).sum(), pos)[0]
    return pos.detach(), f.detach()


class Potential(nn.Module):
    def __init__(self, atoms, hidden=48):
        super().__init__()
        i, j = torch.triu_indices(atoms, atoms, offset=1)
        self.register_buffer("i", i)
        self.register_buffer("j", j)
        self.net = nn.Sequential(nn.Linear(len(i), hidden), nn.SiLU(),
                                 nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def forward(self, pos):
        r = (pos[:, self.i] - pos[:, self.j]).norm(dim=-1)
        return self.net(r - 1.5).float()


class Fitter:
    def __init__(self, cfg):
        self.cfg = cfg
        self.model = Potential(cfg.atoms)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=128.0, growth_interval=1000)

    def forces(self, pos):
        pos = pos.clone().requires_grad_(True)
        with torch.autocast("cpu", dtype=torch.float16):
            energy = self.model(pos)
        grad, = torch.autograd.grad(self.scaler.scale(energy.sum()), pos, create_graph=True)
        return -grad.float()

    def step(self):
        pos, ref = sample(self.cfg, self.cfg.batch)
        self.opt.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(self.forces(pos), ref)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()

    def check(self):
        """Force error in float32, as molecular dynamics will use the model."""
        pos, ref = sample(self.cfg, 128)
        pos.requires_grad_(True)
        f = -torch.autograd.grad(self.model(pos).sum(), pos)[0]
        return (f - ref).abs().mean().item(), ref.abs().mean().item()


if __name__ == "__main__":
    cfg = Config()
    torch.manual_seed(cfg.seed)
    fit = Fitter(cfg)
    for s in range(cfg.steps):
        loss = fit.step()
        if s % 25 == 0 or s == cfg.steps - 1:
            mae, mag = fit.check()
            print(f"{s:4d} loss {loss:10.4f} force MAE {mae:.4f} (mean |F| {mag:.4f}) "
                  f"scale {fit.scaler.get_scale():g}")
