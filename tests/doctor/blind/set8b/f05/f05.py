"""Learns to visit points from left to right."""
import argparse

import torch
from torch.utils.data import DataLoader, Dataset

from model import PointerNet


class Tours(Dataset):
    def __init__(self, size, lo, hi, seed):
        g = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(size):
            n = int(torch.randint(lo, hi + 1, (1,), generator=g))
            pts = torch.rand(n, 2, generator=g)
            self.items.append((pts, pts[:, 0].argsort()))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def pad(batch):
    n = max(len(p) for p, _ in batch)
    pts = torch.zeros(len(batch), n, 2)
    order = torch.zeros(len(batch), n, dtype=torch.long)
    valid = torch.zeros(len(batch), n)
    for i, (p, o) in enumerate(batch):
        pts[i, : len(p)] = p
        order[i, : len(o)] = o
        valid[i, : len(p)] = 1
    return pts, valid, order


def tour_loss(logp, order, valid):
    picked = logp.gather(2, order[..., None]).squeeze(-1)
    return -(picked.float() * valid).sum() / valid.sum()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--min-points", type=int, default=4)
    p.add_argument("--max-points", type=int, default=7)
    p.add_argument("--batch", type=int, default=64)
    args = p.parse_args()
    torch.manual_seed(0)

    data = Tours(1280, args.min_points, args.max_points, 7)
    loader = DataLoader(data, args.batch, shuffle=True, collate_fn=pad)
    net = PointerNet()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for epoch in range(args.epochs):
        total, right, seen = 0.0, 0.0, 0.0
        for pts, valid, order in loader:
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logp = net(pts, valid, order)
                loss = tour_loss(logp, order, valid)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            total += loss.item()
            right += ((logp.argmax(-1) == order) * valid).sum().item()
            seen += valid.sum().item()
        print(f"epoch {epoch} nll {total / len(loader):.4f} next-step accuracy {right / seen:.3f}")


if __name__ == "__main__":
    main()
