import sys

import torch
from torch import nn

ATOMS = 9


class Conformers:
    """Noisy copies of a few made-up ring molecules, with their energies."""

    def __init__(self, seed=13):
        self.g = torch.Generator().manual_seed(seed)
        angle = torch.arange(ATOMS) * 2 * torch.pi / ATOMS
        self.ring = torch.stack([angle.cos(), angle.sin(), 0.3 * (2 * angle).sin()], 1) * 1.5

    def __iter__(self):
        return self

    def __next__(self):
        stretch = 0.8 + 0.4 * torch.rand(16, 1, 1, generator=self.g)
        clean = self.ring * stretch
        noisy = clean + 0.15 * torch.randn(16, ATOMS, 3, generator=self.g)
        return noisy, clean


class Denoiser(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(ATOMS * 3, dim), nn.SiLU(), nn.Linear(dim, dim), nn.SiLU(),
                                 nn.Linear(dim, ATOMS * 3))

    def forward(self, pos):
        return pos + self.net(pos.flatten(1)).float().view_as(pos)


def distance_table(pos):
    gap = pos.unsqueeze(1) - pos.unsqueeze(2)
    d2 = gap.square().sum(-1)
    other = ~torch.eye(ATOMS, dtype=torch.bool)
    return torch.where(other, torch.sqrt(d2), torch.zeros_like(d2))


class Losses(dict):
    def total(self):
        return sum(self.values())


def compute_losses(out, clean):
    with torch.autocast("cpu", enabled=False):
        out = out.float()
        table, wanted = distance_table(out), distance_table(clean)
        return Losses(
            shape=nn.functional.smooth_l1_loss(table, wanted),
            centre=out.mean(1).pow(2).mean(),
        )


class Run:
    log_every = 8

    def __init__(self, model, steps):
        self.model, self.steps = model, steps
        self.opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
        self.scaler = torch.amp.GradScaler("cpu")
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, steps)
        self.trace = []

    def one(self, batch):
        noisy, clean = batch
        with torch.autocast("cpu", dtype=torch.float16):
            out = self.model(noisy)
            losses = compute_losses(out, clean)
        self.opt.zero_grad(set_to_none=True)
        self.scaler.scale(losses.total()).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.sched.step()
        return {k: v.item() for k, v in losses.items()}

    def __call__(self, data):
        for step, batch in zip(range(self.steps), data):
            self.trace.append(self.one(batch))
            if step % self.log_every == 0:
                print(step, " ".join(f"{k}={v:.5f}" for k, v in self.trace[-1].items()), f"scale={self.scaler.get_scale():g}")
        early = sum(t["shape"] for t in self.trace[:10])
        late = sum(t["shape"] for t in self.trace[-10:])
        return late / early


if __name__ == "__main__":
    torch.manual_seed(1)
    ratio = Run(Denoiser(), 64)(Conformers())
    print(f"late / early shape loss: {ratio:.3f}")
    if ratio > 0.9:
        sys.exit("no progress")
