import torch
import torch.nn as nn

from model import DistanceLoss, Folder, pairwise

KINDS, LENGTH = 6, 14


def chains(n, g):
    seq = torch.randint(KINDS, (n, LENGTH), generator=g)
    axes = torch.tensor([[1., 0, 0], [0, 1, 0], [0, 0, 1], [.7, .7, 0], [0, .7, .7], [.7, 0, -.7]])
    coords = axes[seq].cumsum(1)
    return seq, coords


class GradientGuard:
    """Cleans each gradient as soon as it is computed."""

    def __init__(self, model, limit):
        self.handles = [p.register_hook(lambda g: self.clean(g, limit)) for p in model.parameters()]

    @staticmethod
    def clean(grad, limit):
        return grad.nan_to_num(nan=0.0, posinf=limit, neginf=-limit).clamp(-limit, limit)

    def remove(self):
        for h in self.handles:
            h.remove()


def evaluate(model, seq, coords):
    model.eval()
    with torch.no_grad():
        off = (pairwise(model(seq)) - pairwise(coords)).abs().mean().item()
    model.train()
    return off


def main():
    torch.manual_seed(3)
    g = torch.Generator().manual_seed(3)
    seq, coords = chains(800, g)
    dist = pairwise(coords)
    cut = 640
    model, criterion = Folder(KINDS), DistanceLoss()
    guard = GradientGuard(model, limit=10.0)
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    sched = torch.optim.lr_scheduler.StepLR(opt, 4, 0.5)
    for epoch in range(10):
        total = 0.0
        for idx in torch.randperm(cut).split(32):
            loss = criterion(model(seq[idx]), dist[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        sched.step()
        print(f"epoch {epoch} loss {total / cut:.4f} "
              f"mean distance error {evaluate(model, seq[cut:], coords[cut:]):.4f}")
    guard.remove()


if __name__ == "__main__":
    main()
