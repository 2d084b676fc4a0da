"""A small ensemble of rating predictors whose members run side by side."""
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn

USERS, ITEMS, MEMBERS = 120, 80, 3


def ratings(n, g):
    u, i = torch.randint(USERS, (n,), generator=g), torch.randint(ITEMS, (n,), generator=g)
    p, q = torch.randn(USERS, 4, generator=g), torch.randn(ITEMS, 4, generator=g)
    score = 3 + 0.6 * (p[u] * q[i]).sum(1) + 0.1 * torch.randn(n, generator=g)
    return u, i, score.clamp(1, 5)


class Member(nn.Module):
    def __init__(self, dim=16, hidden=48):
        super().__init__()
        self.user, self.item = nn.Embedding(USERS, dim), nn.Embedding(ITEMS, dim)
        self.mlp = nn.Sequential(nn.Linear(3 * dim, hidden), nn.ReLU(),
                                 nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, u, i):
        a, b = self.user(u), self.item(i)
        return 3 + self.mlp(torch.cat([a, b, a * b], 1)).squeeze(-1)


class Ensemble(nn.Module):
    def __init__(self, members):
        super().__init__()
        self.members = nn.ModuleList(Member() for _ in range(members))
        self.pool = ThreadPoolExecutor(max_workers=members)

    def forward(self, u, i):
        return torch.stack(list(self.pool.map(lambda m: m(u, i), self.members)))


class Trainer:
    def __init__(self, model, lr=6e-3):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
        self.cache_bytes = 0

    def step(self, u, i, y):
        with torch.autocast("cpu", dtype=torch.float16):
            pred = self.model(u, i)
        self.cache_bytes = pred.numel() * pred.element_size()
        loss = (pred - y).float().square().mean()
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()

    @torch.no_grad()
    def rmse(self, u, i, y):
        with torch.autocast("cpu", dtype=torch.float16):
            pred = self.model(u, i)
        return (pred.float().mean(0) - y).square().mean().sqrt().item()


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(6)
    u, i, y = ratings(7200, g)
    cut = 6400
    trainer = Trainer(Ensemble(MEMBERS))
    for epoch in range(6):
        losses = [trainer.step(u[b], i[b], y[b]) for b in torch.randperm(cut).split(200)]
        print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f} "
              f"rmse {trainer.rmse(u[cut:], i[cut:], y[cut:]):.4f} "
              f"prediction buffer {trainer.cache_bytes} bytes")
    trainer.model.pool.shutdown()


if __name__ == "__main__":
    main()
