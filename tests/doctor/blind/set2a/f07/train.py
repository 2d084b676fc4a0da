"""Pointer decoder for packing a van: picks parcels one by one, REINFORCE with a moving baseline."""
import argparse

import torch
import torch.nn as nn
from torch.distributions import Categorical


def depot(seed, parcels):
    g = torch.Generator().manual_seed(seed)

    def draw(batch, crowded):
        size = 0.05 + 0.25 * torch.rand(batch, parcels, generator=g)
        if crowded:
            size = size + 0.1
        value = size * (0.5 + torch.rand(batch, parcels, generator=g))
        return torch.stack([size, value], -1)

    return draw


class Pointer(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(2, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.cell = nn.GRUCell(dim, dim)
        self.query, self.key = nn.Linear(dim + 1, dim), nn.Linear(dim, dim)
        self.first = nn.Parameter(torch.zeros(dim))

    def decoder(self, items):
        memory = self.enc(items)
        keys = self.key(memory)
        size = items[..., 0]
        batch = len(items)
        room = torch.ones(batch)
        taken = torch.zeros(size.shape, dtype=torch.bool)
        state = memory.mean(1)
        last = self.first.expand(batch, -1)

        def advance(choice=None):
            nonlocal room, taken, state, last
            if choice is not None:
                room = room - size.gather(1, choice[:, None]).squeeze(1)
                taken = taken.scatter(1, choice[:, None], True)
                last = memory[torch.arange(batch), choice]
            state = self.cell(last.to(state.dtype), state)
            q = self.query(torch.cat([state.float(), room[:, None]], 1))
            score = torch.einsum("bd,bnd->bn", q, keys) / keys.shape[-1] ** 0.5
            allowed = ~taken & (size <= room[:, None])
            return torch.where(allowed, score, float("-inf"))

        return advance


def rollout(model, items, picks):
    advance = model.decoder(items)
    logits, logp, gain = advance(), 0.0, 0.0
    for i in range(picks):
        dist = Categorical(logits=logits.float())
        choice = dist.sample()
        logp = logp + dist.log_prob(choice)
        gain = gain + items[..., 1].gather(1, choice[:, None]).squeeze(1)
        if i + 1 < picks:
            logits = advance(choice)
    return logp, gain


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--picks", type=int, default=3)
    ap.add_argument("--parcels", type=int, default=10)
    ap.add_argument("--crowded-from", type=int, default=30)
    args = ap.parse_args()
    torch.manual_seed(21)
    draw = depot(8, args.parcels)
    model = Pointer()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    baseline = None
    for step in range(args.steps):
        items = draw(32, step >= args.crowded_from)
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logp, gain = rollout(model, items, args.picks)
            baseline = gain.mean() if baseline is None else 0.9 * baseline + 0.1 * gain.mean()
            loss = -((gain - baseline) * logp).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        if step % 5 == 0:
            print(f"step {step} value {gain.mean():.4f} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
