"""Largest distance from the origin in a set of detections, some sets empty."""
import argparse

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

from blocks import SetNet


class Detections(Dataset):
    def __init__(self, n, limit, seed):
        g = torch.Generator().manual_seed(seed)
        self.sets = []
        for _ in range(n):
            k = int(torch.randint(0, limit + 1, (1,), generator=g))
            pts = torch.randn(k, 2, generator=g)
            far = pts.norm(dim=1).max().item() if k else 0.0
            self.sets.append((pts, far))

    def __len__(self):
        return len(self.sets)

    def __getitem__(self, i):
        return self.sets[i]


def pad_sets(batch):
    width = max(1, max(len(p) for p, _ in batch))
    x = torch.full((len(batch), width, 2), float("nan"))
    keep = torch.zeros(len(batch), width, dtype=torch.bool)
    for row, (pts, _) in enumerate(batch):
        x[row, : len(pts)] = pts
        keep[row, : len(pts)] = True
    x = torch.where(keep[..., None], x, torch.zeros(()))
    return x, keep, torch.tensor([f for _, f in batch])


def smooth_root(v):
    safe = torch.where(v > 0, v, torch.ones_like(v))
    return torch.where(v > 0, safe.sqrt(), torch.zeros_like(v))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--limit", type=int, default=6)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Detections(1536, args.limit, 1), 32, shuffle=True, collate_fn=pad_sets)
    net = SetNet(2)
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr)
    worst_ever = float("-inf")
    for epoch in range(args.epochs):
        errors = []
        for x, keep, far in loader:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                pred = net(x, keep)
                loss = F.huber_loss(pred.float(), smooth_root(far))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            errors.append(loss.item())
        worst_ever = max(worst_ever, max(errors))
        print(f"epoch {epoch} loss {sum(errors) / len(errors):.5f} worst batch so far {worst_ever:.4f}")


if __name__ == "__main__":
    main()
