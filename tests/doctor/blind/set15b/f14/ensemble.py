"""Probabilistic ensemble dynamics model (PETS style) for a damped pendulum."""
import argparse
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn
import torch.nn.functional as F


def rollouts(n, gen, dt=0.05):
    th = (torch.rand(n, generator=gen) * 2 - 1) * 3.14
    om = torch.randn(n, generator=gen) * 2
    u = torch.rand(n, generator=gen) * 4 - 2
    acc = -9.8 * th.sin() - 0.2 * om + u
    om2 = om + dt * acc
    th2 = th + dt * om2
    s = torch.stack([th.sin(), th.cos(), om / 3, u / 2], 1)
    ds = torch.stack([(th2 - th), (om2 - om)], 1) * 4
    return s, ds + 0.02 * torch.randn(n, 2, generator=gen)


class Dynamics(nn.Module):
    def __init__(self, hid=96):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, hid), nn.SiLU(), nn.Linear(hid, hid), nn.SiLU(), nn.Linear(hid, 4))
        self.max_logvar = nn.Parameter(torch.full((2,), 0.5))
        self.min_logvar = nn.Parameter(torch.full((2,), -6.0))

    def forward(self, s):
        out = self.net(s)
        mu, lv = out.chunk(2, -1)
        lv = self.max_logvar - F.softplus(self.max_logvar - lv)
        lv = self.min_logvar + F.softplus(lv - self.min_logvar)
        return mu, lv, out.dtype


class Ensemble:
    def __init__(self, n, lr, workers):
        self.models = [Dynamics() for _ in range(n)]
        self.opts = [torch.optim.Adam(m.parameters(), lr=lr) for m in self.models]
        self.pool = ThreadPoolExecutor(workers)

    @staticmethod
    def nll(model, s, ds):
        mu, lv, dtype = model(s)
        mu, lv = mu.float(), lv.float()
        nll = ((mu - ds).square() * torch.exp(-lv) + lv).mean()
        bound = 0.01 * (model.max_logvar.sum() - model.min_logvar.sum())
        return nll + bound, dtype

    def step(self, batches, amp_dtype):
        with torch.autocast("cpu", dtype=amp_dtype):
            jobs = [self.pool.submit(self.nll, m, s, ds) for m, (s, ds) in zip(self.models, batches)]
            results = [j.result() for j in jobs]
        for opt, (loss, _) in zip(self.opts, results):
            opt.zero_grad()
            loss.backward()
            opt.step()
        return [r[0].item() for r in results], results[0][1]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--members", type=int, default=3)
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--amp", choices=["bfloat16", "float16"], default="bfloat16")
    a = p.parse_args()
    torch.manual_seed(3)
    torch.set_num_threads(1)
    gen = torch.Generator().manual_seed(3)
    s, ds = rollouts(4000, gen)
    ens = Ensemble(a.members, 2e-3, a.workers)
    for step in range(a.steps):
        batches = []
        for _ in range(a.members):
            i = torch.randint(0, len(s), (a.batch,), generator=gen)
            batches.append((s[i], ds[i]))
        losses, dtype = ens.step(batches, getattr(torch, a.amp))
        if step % 40 == 0:
            print(f"step {step:3d} nll {' '.join(f'{v:+.3f}' for v in losses)} activations {dtype}")
    ens.pool.shutdown()


if __name__ == "__main__":
    main()
