"""REINFORCE on a small knapsack game with illegal-action masks (bfloat16)."""
import math

import torch
from torch import nn

ITEMS, ENVS = 8, 64


class Knapsack:
    """Pick items one by one; the last action (stop) is always legal."""

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)

    def reset(self):
        self.weight = 0.1 + 0.5 * torch.rand(ENVS, ITEMS, generator=self.g)
        self.value = torch.rand(ENVS, ITEMS, generator=self.g)
        self.taken = torch.zeros(ENVS, ITEMS, dtype=torch.bool)
        self.room = torch.ones(ENVS)
        self.done = torch.zeros(ENVS, dtype=torch.bool)
        return self.obs()

    def obs(self):
        x = torch.cat([self.weight, self.value, self.taken.float(), self.room[:, None]], 1)
        legal = (~self.taken) & (self.weight <= self.room[:, None]) & ~self.done[:, None]
        return x, torch.cat([legal, torch.ones(ENVS, 1, dtype=torch.bool)], 1)

    def step(self, a):
        stop = (a == ITEMS) | self.done
        idx = a.clamp(max=ITEMS - 1)[:, None]
        gain = self.value.gather(1, idx).squeeze(1).masked_fill(stop, 0.0)
        cost = self.weight.gather(1, idx).squeeze(1).masked_fill(stop, 0.0)
        self.taken.scatter_(1, idx, self.taken.gather(1, idx) | ~stop[:, None])
        self.room = self.room - cost
        self.done = stop
        return gain


class Policy(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3 * ITEMS + 1, hidden), nn.ReLU(),
                                 nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, ITEMS + 1))

    def forward(self, x, legal):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = self.net(x)
        return logits.float().masked_fill(~legal, -math.inf)


def entropy(logits):
    logp = logits.log_softmax(-1)
    return -torch.where(torch.isfinite(logp), logp.exp() * logp.clamp(min=-1e4), 0.0).sum(-1)


def episode(env, pi):
    x, legal = env.reset()
    logps, ents, gains, alive = [], [], [], []
    while not bool(env.done.all()):
        logits = pi(x, legal)
        a = torch.distributions.Categorical(logits=logits.detach(), validate_args=False).sample()
        alive.append((~env.done).float())
        logps.append(logits.log_softmax(-1).gather(1, a[:, None]).squeeze(1))
        ents.append(entropy(logits))
        gains.append(env.step(a))
        x, legal = env.obs()
    return torch.stack(logps), torch.stack(ents), torch.stack(gains), torch.stack(alive)


def main(iters=220):
    torch.manual_seed(66)
    env, pi = Knapsack(66), Policy()
    opt = torch.optim.Adam(pi.parameters(), lr=2e-3)
    baseline = None
    for it in range(iters):
        logps, ents, gains, alive = episode(env, pi)
        score = gains.sum(0)
        baseline = score.mean() if baseline is None else 0.9 * baseline + 0.1 * score.mean()
        togo = gains.flip(0).cumsum(0).flip(0)
        adv = togo - togo.mean(1, keepdim=True)
        loss = -(logps * adv * alive).sum(0).mean() - 0.01 * (ents * alive).sum(0).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(pi.parameters(), 1.0)
        opt.step()
        if it % 20 == 0 or it == iters - 1:
            print(f"it {it:3d} loss {loss.item():+.4f} value {score.mean():.3f} avg {baseline:.3f}")


if __name__ == "__main__":
    main()
