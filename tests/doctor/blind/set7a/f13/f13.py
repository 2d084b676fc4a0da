"""Deep metric learning with a contrastive loss on euclidean distances (all pairs of a batch)."""
import torch
from torch import nn


def blobs(n, gen, classes=5, d=24):
    centre = torch.randn(classes, 4, generator=torch.Generator().manual_seed(77)) * 1.2
    lift = torch.randn(4, d, generator=torch.Generator().manual_seed(78))
    y = torch.randint(0, classes, (n,), generator=gen)
    z = centre[y] + 0.3 * torch.randn(n, 4, generator=gen)
    return torch.sin(z @ lift) + 0.1 * torch.randn(n, d, generator=gen), y


class Embedder(nn.Module):
    def __init__(self, d_in=24, d=64, out=12):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_in, d), nn.LayerNorm(d), nn.ReLU(), nn.Linear(d, d), nn.ReLU(), nn.Linear(d, out))

    def forward(self, x):
        return self.net(x)


def pairwise(e):
    diff = e.unsqueeze(0) - e.unsqueeze(1)
    return diff.pow(2).sum(-1).sqrt()


class ContrastiveLoss(nn.Module):
    def __init__(self, margin=1.0):
        super().__init__()
        self.margin = margin

    def forward(self, e, y):
        d = pairwise(e)
        same = (y.unsqueeze(0) == y.unsqueeze(1)).float()
        pull = same * d.pow(2)
        push = (1 - same) * (self.margin - d).clamp(min=0).pow(2)
        return (pull + push).mean()


class Guard:
    """Keeps an optimizer step sane."""

    def __init__(self, params, max_norm=1.0):
        self.params = list(params)
        self.max_norm = max_norm

    def __call__(self):
        for p in self.params:
            if p.grad is not None:
                torch.nan_to_num(p.grad, nan=0.0, posinf=0.0, neginf=0.0, out=p.grad)
        nn.utils.clip_grad_norm_(self.params, self.max_norm)


@torch.no_grad()
def recall_at_1(model, gen):
    x, y = blobs(120, gen)
    e = model(x)
    d = torch.cdist(e, e)
    d.fill_diagonal_(1e4)
    return (y[d.argmin(1)] == y).float().mean().item()


def main():
    torch.manual_seed(1)
    gen = torch.Generator().manual_seed(2)
    model = Embedder()
    criterion = ContrastiveLoss()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)
    guard = Guard(model.parameters())
    for step in range(80):
        x, y = blobs(40, gen)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            e = model(x)
        loss = criterion(e.float(), y)
        opt.zero_grad()
        loss.backward()
        guard()
        opt.step()
        if step % 10 == 0:
            print(f"step {step:3d} loss {loss.item():.4f} r@1 {recall_at_1(model, gen):.3f}")


main()
