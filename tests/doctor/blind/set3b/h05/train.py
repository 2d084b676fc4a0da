"""Sparse expert routing (top-2) for piecewise regression, in bfloat16. Exit code 3: target not reached."""
import argparse
import logging
import sys

import torch
import torch.nn.functional as F
from torch import nn

log = logging.getLogger("route")
NOT_REACHED = 3


class Router(nn.Module):
    def __init__(self, dim, experts, k):
        super().__init__()
        self.gate = nn.Linear(dim, experts)
        self.k = k

    def forward(self, x):
        score = self.gate(x)
        if self.training:
            score = score + 0.1 * torch.randn_like(score)
        kth = score.topk(self.k, dim=-1).values[..., -1:]
        return score.masked_fill(score < kth, float("-inf")).float().softmax(-1)


class Mixture(nn.Module):
    def __init__(self, dim=6, hidden=12, experts=5, k=2):
        super().__init__()
        self.router = Router(dim, experts, k)
        self.w1 = nn.Parameter(torch.randn(experts, dim, hidden) / dim ** 0.5)
        self.w2 = nn.Parameter(torch.randn(experts, hidden, 1) / hidden ** 0.5)

    def forward(self, x):
        share = self.router(x)
        h = torch.relu(torch.einsum("bd,edh->ebh", x, self.w1))
        y = torch.bmm(h, self.w2).squeeze(-1).T
        return (share * y).sum(-1), share


def balance(share):
    load = share.mean(0)
    return share.shape[1] * (load * load).sum()


def sample(n, gen):
    x = torch.randn(n, 6, generator=gen)
    y = torch.where(x[:, 0] > 0, x[:, 1] * 2 - x[:, 2], x[:, 3].abs() + x[:, 4])
    return x, y


def nearest(model, x, y, tries):
    """Smallest error among some subsets, starting from infinity."""
    best = float("inf")
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        for part in range(tries):
            out, _ = model(x[part::tries])
            best = min(best, F.mse_loss(out, y[part::tries]).item())
    return best


def main(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=100)
    ap.add_argument("--target", type=float, default=0.02)
    args = ap.parse_args(argv)
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(name)s: %(message)s")
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    model = Mixture()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    held = sample(256, gen)
    best = float("inf")
    for step in range(1, args.steps + 1):
        x, y = sample(64, gen)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out, share = model(x)
            loss = F.mse_loss(out, y) + 0.01 * balance(share)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 20 == 0:
            model.eval()
            best = min(best, nearest(model, *held, tries=4))
            model.train()
            log.info("step %d loss %.4f best %.4f", step, loss.item(), best)
        if best < args.target:
            return 0
    return NOT_REACHED


if __name__ == "__main__":
    sys.exit(main())
