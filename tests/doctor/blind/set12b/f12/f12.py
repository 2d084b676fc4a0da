"""Contrastive pretraining of two views in float16, then a look at retrieval."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Tower(nn.Module):
    def __init__(self, n_in, n_out=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, 32), nn.ReLU(), nn.Linear(32, n_out))

    def forward(self, x):
        return F.normalize(self.net(x).float(), dim=-1)


class PairModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = Tower(20), Tower(12)

    def forward(self, a, b):
        za, zb = self.left(a), self.right(b)
        return za @ zb.t() / 0.2


def make_pairs(n, mix_a, mix_b):
    z = torch.randn(n, 6)
    return z @ mix_a + 0.1 * torch.randn(n, 20), z @ mix_b + 0.1 * torch.randn(n, 12)


def clip_loss(sim):
    target = torch.arange(len(sim))
    return 0.5 * (F.cross_entropy(sim, target) + F.cross_entropy(sim.t(), target))


def top1(model, a, b):
    with torch.no_grad():
        return (model(a, b).argmax(1) == torch.arange(len(a))).float().mean().item()


def main(epochs=6, accumulate=4, weight=1e-7):
    # `weight` matches the loss to the other terms of the full objective
    torch.manual_seed(9)
    mix_a, mix_b = torch.randn(6, 20), torch.randn(6, 12)
    a, b = make_pairs(512, mix_a, mix_b)
    model = PairModel()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3, eps=1e-15)
    scaler = torch.amp.GradScaler()
    for epoch in range(epochs):
        opt.zero_grad(set_to_none=True)
        total = 0.0
        for i, idx in enumerate(torch.randperm(512).split(32)):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = clip_loss(model(a[idx], b[idx]))
            scaler.scale(loss * weight / accumulate).backward()
            total += loss.item()
            if (i + 1) % accumulate == 0:
                scaler.step(opt)
                scaler.update()
                opt.zero_grad(set_to_none=True)
        print(f"epoch {epoch} loss {total / 16:.4f} top1 {top1(model, a[:64], b[:64]):.3f}")


main()
