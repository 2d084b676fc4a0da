"""Predict the next heading of tracked particles from their last K headings.

The head predicts a residual to the newest heading and starts at zero, so that
the untrained model is the 'keeps going straight' baseline.
"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def geodesic(pred, target):
    """Angle between unit vectors, radians."""
    cos = (pred * target).sum(-1)
    return torch.acos(cos.clamp(-1.0, 1.0))


def rotate(v, axis, ang):
    c, s = torch.cos(ang)[:, None], torch.sin(ang)[:, None]
    return v * c + torch.cross(axis, v, dim=-1) * s + axis * (axis * v).sum(-1, keepdim=True) * (1 - c)


def make_tracks(n, k, gen):
    axis = F.normalize(torch.randn(n, 3, generator=gen), dim=-1)
    v = torch.randn(n, 3, generator=gen)
    v = F.normalize(v - (v * axis).sum(-1, keepdim=True) * axis, dim=-1)
    omega = 0.3 * torch.rand(n, generator=gen)
    # a tenth of the particles fly along a field line and never turn
    straight = torch.rand(n, generator=gen) < 0.1
    omega[straight] = 0.0
    field = torch.zeros(int(straight.sum()), 3)
    field[:, 0] = 1.0
    v[straight] = field
    out = [v]
    for _ in range(k):
        out.append(rotate(out[-1], axis, omega))
    return torch.stack(out, 1)


class HeadingNet(nn.Module):
    def __init__(self, k, dim=64, heads=4, layers=2):
        super().__init__()
        self.inp = nn.Linear(3, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(1, k, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(dim, 3)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, past):
        h = self.enc(self.inp(past) + self.pos)
        delta = self.head(h[:, -1])
        return F.normalize(past[:, -1] + delta.float(), dim=-1)


class EMA:
    def __init__(self, model, decay=0.98):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model):
        for k, v in model.state_dict().items():
            self.shadow[k].lerp_(v, 1 - self.decay)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=80)
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("-k", type=int, default=8)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    gen = torch.Generator().manual_seed(0)
    tracks = make_tracks(2048, args.k, gen)
    model = HeadingNet(args.k)
    ema = EMA(model)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    warm = torch.optim.lr_scheduler.LinearLR(opt, 0.1, 1.0, total_iters=10)
    for step in range(args.steps):
        b = tracks[torch.randint(0, len(tracks), (args.batch,), generator=gen)]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            pred = model(b[:, :-1])
            loss = geodesic(pred, b[:, -1]).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        warm.step()
        ema.update(model)
        if step % 10 == 0:
            deg = torch.rad2deg(loss.detach()).item()
            print(f"step {step:3d} mean angle {deg:.3f} deg")


if __name__ == "__main__":
    main()
