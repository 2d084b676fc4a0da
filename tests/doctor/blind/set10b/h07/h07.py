"""Contrastive pre-training on two views of table rows; accumulated and clipped."""
import argparse
import logging

import torch
import torch.nn.functional as F
from torch import nn

log = logging.getLogger("contrast")


def rows(n, cols=20, groups=8, seed=0):
    g = torch.Generator().manual_seed(seed)
    basis = torch.randn(groups, 4, cols, generator=torch.Generator().manual_seed(123))
    y = torch.randint(0, groups, (n,), generator=g)
    code = 1.0 + torch.randn(n, 1, 4, generator=g)
    return 3.0 * torch.bmm(code, basis[y]).squeeze(1) + 0.3 * torch.randn(n, cols, generator=g), y


def corrupt(x, rate=0.2):
    other = x[torch.randperm(len(x))]
    return torch.where(torch.rand_like(x) < rate, other, x)


class Tower(nn.Module):
    def __init__(self, cols, width=96, out=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(cols, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.proj = nn.Linear(width, out)
        self.log_temp = nn.Parameter(torch.tensor(3.5))

    def forward(self, x):
        return F.normalize(self.proj(self.body(x)).float(), dim=-1)


def info_nce(a, b, log_temp):
    logits = (a @ b.t()).float() * log_temp.exp().clamp(max=100.0)
    target = torch.arange(len(a))
    return 0.5 * (F.cross_entropy(logits, target, reduction="sum")
                  + F.cross_entropy(logits.t(), target, reduction="sum"))


@torch.no_grad()
def match_rate(net, x):
    net.eval()
    g = torch.Generator().manual_seed(1)
    keep = torch.rand(x.shape, generator=g) >= 0.2
    other = x[torch.randperm(len(x), generator=g)]
    sim = net(x) @ net(torch.where(keep, x, other)).t()
    net.train()
    return (sim.argmax(1) == torch.arange(len(x))).float().mean().item()


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    ap = argparse.ArgumentParser()
    ap.add_argument("--updates", type=int, default=240)
    ap.add_argument("--micro", type=int, default=4)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--clip", type=float, default=1.0)
    args = ap.parse_args()
    torch.manual_seed(41)
    x, _ = rows(3000, seed=1)
    xv, _ = rows(200, seed=2)
    net = Tower(x.shape[1])
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    log.info("match rate at start %.3f", match_rate(net, xv))
    for update in range(1, args.updates + 1):
        opt.zero_grad(set_to_none=True)
        total = 0.0
        for _ in range(args.micro):
            xb = x[torch.randint(0, len(x), (args.batch,))]
            with torch.autocast("cpu", dtype=torch.float16):
                loss = info_nce(net(corrupt(xb)), net(xb), net.log_temp)
            scaler.scale(loss).backward()
            total += loss.item()
        scaler.unscale_(opt)
        norm = nn.utils.clip_grad_norm_(net.parameters(), args.clip)
        scaler.step(opt)
        scaler.update()
        if update % 40 == 0:
            log.info("update %d loss %.2f norm %.1f match %.3f scale %g", update, total, norm,
                     match_rate(net, xv), scaler.get_scale())


if __name__ == "__main__":
    main()
