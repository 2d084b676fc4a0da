import argparse

import torch

from net import CountNet, poisson_deviance
from stabilize import attach

p = argparse.ArgumentParser()
p.add_argument("--iters", type=int, default=70)
p.add_argument("--regions", type=int, default=150)
p.add_argument("--lr", type=float, default=2e-3)
p.add_argument("--raw", action="store_true", help="no gradient hooks")
args = p.parse_args()

torch.manual_seed(8)
n = args.regions
pos = torch.rand(n, 2)
dist = torch.cdist(pos, pos)
nb = dist.topk(6, largest=False).indices
dst = torch.arange(n).repeat_interleave(6)
src = nb.flatten()
w = torch.randn(5)


def month():
    x = torch.randn(n, 5)
    around = x[src].view(n, 6, 5).mean(1)
    lam = torch.exp(0.5 * (x @ w) + (around @ w)).clamp(max=60)
    return x, torch.poisson(lam)


model = CountNet(5)
if not args.raw:
    attach(model)
opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
ema = None
for it in range(args.iters):
    x, count = month()
    with torch.autocast("cpu", dtype=torch.float16):
        rate = model(x, src, dst)
        loss = poisson_deviance(rate, count)
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    gn = torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    scaler.step(opt)
    scaler.update()
    ema = loss.item() if ema is None else 0.9 * ema + 0.1 * loss.item()
    if it % 7 == 0:
        print(f"iter {it:3d}  deviance {ema:8.4f}  |g| {gn.item():.3f}  scale {scaler.get_scale():g}")

with torch.no_grad():
    x, count = month()
    rate = model(x, src, dst)
    err = (rate - count).abs().mean() / (count.mean() - count).abs().mean()
print(f"relative error {err.item():.3f}")
