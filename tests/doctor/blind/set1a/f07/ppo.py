"""PPO on a small continuous-reward bandit walk, half precision policy."""
import argparse
from dataclasses import dataclass

import torch
import torch.nn as nn


class Walk:
    """The agent moves on a ring of 16 cells; reward rises near the goal cell."""

    def __init__(self, n=16, seed=0):
        self.n = n
        self.g = torch.Generator().manual_seed(seed)
        self.reset()

    def reset(self):
        self.pos = int(torch.randint(0, self.n, (1,), generator=self.g))
        self.goal = int(torch.randint(0, self.n, (1,), generator=self.g))
        self.t = 0
        return self.obs()

    def obs(self):
        o = torch.zeros(2 * self.n)
        o[self.pos] = 1
        o[self.n + self.goal] = 1
        return o

    def step(self, a):
        self.pos = (self.pos + (a - 1)) % self.n
        self.t += 1
        d = abs(self.pos - self.goal)
        d = min(d, self.n - d)
        done = d == 0 or self.t >= 20
        return self.obs(), 1.0 - d / (self.n / 2), done


class Policy(nn.Module):
    def __init__(self, obs=32, actions=3, hidden=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, actions)
        self.v = nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.body(x)
        return self.pi(h), self.v(h).squeeze(-1)


@dataclass
class Config:
    updates: int = 10
    horizon: int = 250
    epochs: int = 2
    minibatch: int = 64
    gamma: float = 0.95
    lam: float = 0.9
    clip: float = 0.2
    lr: float = 1e-3


def rollout(env, policy, obs, cfg):
    buf = {k: [] for k in ("obs", "act", "logp", "val", "rew", "done")}
    done = False
    while len(buf["rew"]) < cfg.horizon or not done:
        with torch.no_grad():
            logits, v = policy(obs.unsqueeze(0))
            dist = torch.distributions.Categorical(logits=logits)
            a = dist.sample()
        nxt, r, done = env.step(int(a))
        for k, val in zip(buf, (obs, a[0], dist.log_prob(a)[0], v[0], torch.tensor(r), torch.tensor(float(done)))):
            buf[k].append(val)
        obs = env.reset() if done else nxt
    with torch.no_grad():
        last = policy(obs.unsqueeze(0))[1][0]
    return {k: torch.stack(v) for k, v in buf.items()}, last, obs


def gae(b, last, cfg):
    adv = torch.zeros_like(b["rew"])
    run, nxt = 0.0, last
    for t in reversed(range(len(adv))):
        alive = 1.0 - b["done"][t]
        delta = b["rew"][t] + cfg.gamma * nxt * alive - b["val"][t]
        run = delta + cfg.gamma * cfg.lam * alive * run
        adv[t], nxt = run, b["val"][t]
    return adv, adv + b["val"]


def update(policy, opt, scaler, b, adv, ret, cfg):
    n, stats = len(adv), []
    for _ in range(cfg.epochs):
        perm = torch.randperm(n)
        for s in range(0, n, cfg.minibatch):
            idx = perm[s:s + cfg.minibatch]
            a = adv[idx]
            a = (a - a.mean()) / (a.std() + 1e-8)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits, v = policy(b["obs"][idx])
            dist = torch.distributions.Categorical(logits=logits.float())
            ratio = (dist.log_prob(b["act"][idx]) - b["logp"][idx]).exp()
            pg = -torch.min(ratio * a, ratio.clamp(1 - cfg.clip, 1 + cfg.clip) * a).mean()
            vl = 0.5 * (v.float() - ret[idx]).pow(2).mean()
            loss = pg + 0.5 * vl - 0.01 * dist.entropy().mean()
            opt.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            scaler.step(opt)
            scaler.update()
            stats.append(loss.item())
    return sum(stats) / len(stats)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--updates", type=int, default=20)
    ap.add_argument("--seed", type=int, default=3)
    ns = ap.parse_args()
    cfg = Config(updates=ns.updates)
    torch.manual_seed(ns.seed)
    env, policy = Walk(seed=ns.seed), Policy()
    opt = torch.optim.Adam(policy.parameters(), lr=cfg.lr)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    obs = env.reset()
    for u in range(cfg.updates):
        b, last, obs = rollout(env, policy, obs, cfg)
        adv, ret = gae(b, last, cfg)
        loss = update(policy, opt, scaler, b, adv, ret, cfg)
        print(f"update {u} reward/step {b['rew'].mean().item():.3f} steps {len(adv)} loss {loss:.4f}")


if __name__ == "__main__":
    main()
