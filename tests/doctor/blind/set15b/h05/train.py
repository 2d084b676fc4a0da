import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

import molecules


class Interaction(nn.Module):
    def __init__(self, d, n_rbf):
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(n_rbf, d), nn.SiLU(), nn.Linear(d, d))
        self.inp, self.out = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, h, rbf, pair):
        w = self.filter(rbf) * pair[..., None]
        msg = (w * self.inp(h)[:, None]).sum(2) / 4
        return h + self.out(F.silu(msg))


class SchNetLite(nn.Module):
    def __init__(self, d=32, n_rbf=16):
        super().__init__()
        self.emb = nn.Embedding(molecules.SPECIES, d)
        self.register_buffer("centres", torch.linspace(0.0, 8.0, n_rbf))
        self.blocks = nn.ModuleList(Interaction(d, n_rbf) for _ in range(2))
        self.head = nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.Linear(d, 1))

    def geometry(self, pos, real):
        """Distances in float32. The diagonal is 0: the clamp keeps sqrt and log finite."""
        with torch.autocast("cpu", enabled=False):
            d2 = (pos[:, :, None] - pos[:, None]).square().sum(-1)
            d = d2.clamp(min=1e-6).sqrt()
            rbf = torch.exp(-2.0 * (d[..., None] - self.centres) ** 2)
            rbf = rbf + 0.05 * torch.log(d2.clamp(min=1e-6))[..., None]
            eye = torch.eye(pos.size(1), dtype=torch.bool)
            pair = (real[:, :, None] & real[:, None] & ~eye).float()
        return rbf, pair

    def forward(self, z, pos, real):
        h = self.emb(z)
        rbf, pair = self.geometry(pos, real)
        for b in self.blocks:
            h = b(h, rbf, pair)
        atom = self.head(h).squeeze(-1)
        # totals reach -1e7 meV, out of reach for half: base and sum stay in float32
        with torch.autocast("cpu", enabled=False):
            base = (molecules.ATOM_ENERGY[z] * real).sum(1)
            bond = 100.0 * (atom.float() * real).sum(1)
        return base, bond


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=150)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--lr", type=float, default=4e-3)
    args = ap.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    z, pos, real, total = molecules.make(800, 8, seed=1)
    pos.requires_grad_(True)  # forces are wanted at the end
    model = SchNetLite()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    print(f"total energy from {total.min():.3e} to {total.max():.3e} meV")
    for step in range(args.steps):
        i = torch.randint(0, 700, (args.batch,))
        with torch.autocast("cpu", dtype=torch.float16):
            base, bond = model(z[i], pos[i].detach(), real[i])
            residual = (total[i] - base.double()).float()
            loss = F.huber_loss(bond / 100, residual / 100)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        sched.step()
        if step % 25 == 0 or step == args.steps - 1:
            with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
                base, bond = model(z[700:], pos[700:], real[700:])
            mae = ((base.double() + bond.double()) - total[700:]).abs().mean()
            print(f"step {step:3d} loss {loss.item():.4f} val MAE {mae:.1f} meV (prediction {base[0] + bond[0]:.1f})")
    base, bond = model(z[700:], pos[700:], real[700:])
    force = -torch.autograd.grad(bond.sum(), pos)[0][700:]
    print(f"forces finite: {bool(torch.isfinite(force).all())}, largest {force.norm(dim=-1).max():.1f} meV/A")


if __name__ == "__main__":
    main()
