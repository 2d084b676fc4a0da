"""Point-cloud part labelling; per-class IoU is NaN for parts a validation split does not hold."""
import argparse
import warnings
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

PARTS = ["top", "leg", "arm", "back", "wheel"]


def chair(rng, points=96, arms=True):
    n = points // 4
    top = np.c_[rng.uniform(-1, 1, (n, 2)), rng.normal(0, .03, n)]
    leg = np.c_[rng.choice([-.9, .9], (n, 2)), rng.uniform(-1, 0, n)]
    arm = np.c_[rng.choice([-1., 1.], n), rng.uniform(-1, 1, n), rng.uniform(.3, .4, n)]
    back = np.c_[rng.uniform(-1, 1, n), np.full(n, 1.) + rng.normal(0, .02, n), rng.uniform(.1, 1, n)]
    parts = [top, leg, arm if arms else top + rng.normal(0, .02, top.shape), back]
    labels = np.repeat([0, 1, 2 if arms else 0, 3], n)
    a = rng.uniform(-.3, .3)
    rot = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    return (np.concatenate(parts) @ rot.T).astype(np.float32), labels


class PointNet(nn.Module):
    def __init__(self, classes, w=48):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(3, w), nn.ReLU(), nn.Linear(w, w), nn.ReLU())
        self.glob = nn.Linear(w, w)
        self.head = nn.Sequential(nn.Linear(2 * w, w), nn.ReLU(), nn.Linear(w, classes))

    def forward(self, p, valid):
        h = self.local(p)
        pooled = h.masked_fill(~valid.unsqueeze(-1), float("-inf")).amax(1)
        g = self.glob(pooled).unsqueeze(1).expand(-1, p.size(1), -1)
        return self.head(torch.cat([h, g], -1))


def iou_per_class(pred, true, k):
    pred, true = np.asarray(pred), np.asarray(true)
    out = np.full(k, np.nan)
    for c in range(k):
        inter = np.logical_and(pred == c, true == c).sum()
        union = np.logical_or(pred == c, true == c).sum()
        out[c] = inter / union if union else np.nan
    return out


def batch(rng, n, arms):
    pts, labs = zip(*(chair(rng, arms=arms) for _ in range(n)))
    p, y = torch.from_numpy(np.stack(pts)), torch.from_numpy(np.stack(labs))
    keep = torch.from_numpy(rng.random(y.shape) > 0.2)
    return p * keep.unsqueeze(-1), y.masked_fill(~keep, -100), keep


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=60)
    ap.add_argument("--lr", type=float, default=5e-3)
    a = ap.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    net = PointNet(len(PARTS))
    opt = torch.optim.Adam(net.parameters(), lr=a.lr)
    for it in range(a.iters):
        net.train()
        p, y, keep = batch(rng, 12, arms=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = net(p, keep)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 20 == 19:
            net.eval()
            with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
                p, y, keep = batch(rng, 12, arms=False)
                pred = net(p, keep).argmax(-1)
            iou = iou_per_class(pred[keep], y[keep], len(PARTS))
            best = float(np.nanmax(iou))
            print(f"it {it + 1} loss {loss.item():.3f} mIoU {np.nanmean(iou):.3f} best {best:.3f} "
                  + " ".join(f"{n}={v:.2f}" for n, v in zip(PARTS, iou)))


if __name__ == "__main__":
    main()
