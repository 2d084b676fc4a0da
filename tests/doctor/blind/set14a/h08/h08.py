"""PPO on a small grid world with illegal moves masked out, reward up to a few hundred."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

MOVES = torch.tensor([[-1, 0], [1, 0], [0, -1], [0, 1], [0, 0]])


class GridWorld:
    def __init__(self, n, size=5, horizon=16):
        self.n, self.size, self.horizon = n, size, horizon
        self.pos, self.goal = torch.zeros(n, 2, dtype=torch.long), torch.zeros(n, 2, dtype=torch.long)
        self.t = torch.zeros(n, dtype=torch.long)
        self.reset(torch.ones(n, dtype=torch.bool))

    def reset(self, which):
        k = int(which.sum())
        self.pos[which] = torch.randint(0, self.size, (k, 2))
        self.goal[which] = torch.randint(0, self.size, (k, 2))
        self.t[which] = 0

    def observe(self):
        s = F.one_hot(torch.cat([self.pos, self.goal], 1), self.size).flatten(1).float()
        nxt = self.pos[:, None] + MOVES
        legal = ((nxt >= 0) & (nxt < self.size)).all(-1)
        return s, legal

    def step(self, a):
        self.pos += MOVES[a]
        self.t += 1
        hit = (self.pos == self.goal).all(1)
        done = hit | (self.t >= self.horizon)
        reward = hit.float() * 300.0 - 5.0
        self.reset(done)
        return reward, done


class ActorCritic(nn.Module):
    def __init__(self, size=5, h=64):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4 * size, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, len(MOVES)))
        self.critic = nn.Sequential(nn.Linear(4 * size, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 1))
        nn.init.zeros_(self.actor[-1].weight)

    def forward(self, s, legal):
        return self.actor(s).masked_fill(~legal, -torch.inf), self.critic(s)[:, 0]


def entropy(logp):
    return -torch.where(logp > -torch.inf, logp.exp() * logp.masked_fill(logp == -torch.inf, 0.0), 0.0).sum(-1)


def rollout(env, net, T, gamma=0.97, lam=0.95):
    keys = "s legal a logp v r done".split()
    mem = {k: [] for k in keys}
    running, finished = torch.zeros(env.n), torch.full((T, env.n), float("nan"))
    with torch.no_grad():
        for t in range(T):
            s, legal = env.observe()
            logits, v = net(s, legal)
            dist = Categorical(logits=logits, validate_args=False)
            a = dist.sample()
            r, done = env.step(a)
            running += r
            finished[t, done] = running[done]
            running[done] = 0
            for k, x in zip(keys, (s, legal, a, dist.log_prob(a), v, r, done.float())):
                mem[k].append(x)
        last = net(*env.observe())[1]
    mem = {k: torch.stack(x) for k, x in mem.items()}
    adv, acc = torch.zeros(T, env.n), torch.zeros(env.n)
    for t in reversed(range(T)):
        nxt = last if t == T - 1 else mem["v"][t + 1]
        live = 1 - mem["done"][t]
        acc = mem["r"][t] + gamma * nxt * live - mem["v"][t] + gamma * lam * live * acc
        adv[t] = acc
    mem["ret"], mem["adv"] = adv + mem["v"], (adv - adv.mean()) / (adv.std() + 1e-8)
    return {k: x.flatten(0, 1) for k, x in mem.items()}, finished


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--updates", type=int, default=36)
    ap.add_argument("--envs", type=int, default=32)
    ap.add_argument("--clip", type=float, default=0.2)
    ap.add_argument("--target-kl", type=float, default=0.03)
    args = ap.parse_args()
    torch.manual_seed(4)
    env, net = GridWorld(args.envs), ActorCritic()
    opt = torch.optim.Adam([{"params": net.actor.parameters(), "lr": 3e-3},
                            {"params": net.critic.parameters(), "lr": 5e-3}], eps=1e-5)
    for u in range(args.updates):
        m, finished = rollout(env, net, T=32)
        for epoch in range(4):
            for idx in torch.randperm(len(m["a"])).split(256):
                logits, v = net(m["s"][idx], m["legal"][idx])
                logp_all = logits.log_softmax(-1)
                logp = logp_all.gather(1, m["a"][idx, None])[:, 0]
                ratio = (logp - m["logp"][idx]).exp()
                adv = m["adv"][idx]
                pi_loss = -torch.min(ratio * adv, ratio.clamp(1 - args.clip, 1 + args.clip) * adv).mean()
                v_loss = F.mse_loss(v, m["ret"][idx])
                loss = pi_loss + 0.5 * v_loss - 0.01 * entropy(logp_all).mean()
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.actor.parameters(), 0.5)
                opt.step()
            kl = (m["logp"][idx] - logp.detach()).mean().item()
            if kl > args.target_kl:
                break
        if u % 3 == 0 or u == args.updates - 1:
            print(f"update {u:2d} loss {loss.item():.1f} value {v_loss.item():.1f} kl {kl:.4f} epochs {epoch + 1} "
                  f"return {finished.nanmean().item():.1f} last row {finished[-1].nanmean().item():.1f}")


if __name__ == "__main__":
    main()
