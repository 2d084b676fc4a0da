"""Soft actor-critic on a one-dimensional point mass."""
import argparse
import copy

import torch
import torch.nn.functional as F
from torch import nn

LOG_STD_MIN, LOG_STD_MAX = -5.0, 1.0


def mlp(i, o, h=64):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class Actor(nn.Module):
    def __init__(self, obs, act):
        super().__init__()
        self.net = mlp(obs, 2 * act)

    def forward(self, s):
        mu, log_std = self.net(s).chunk(2, dim=-1)
        log_std = log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)
        noise = torch.randn_like(mu)
        u = mu + log_std.exp() * noise
        a = torch.tanh(u)
        logp = -0.5 * noise.pow(2) - log_std - 0.919
        logp = logp - torch.log(1 - a.pow(2) + 1e-8)
        return a, logp.sum(-1)


class Critic(nn.Module):
    def __init__(self, obs, act):
        super().__init__()
        self.q1, self.q2 = mlp(obs + act, 1), mlp(obs + act, 1)

    def forward(self, s, a):
        x = torch.cat([s, a], -1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


class PointMass:
    """Position and velocity; the goal is far to the right, thrust is bounded."""

    def __init__(self, n):
        self.n = n
        self.s = torch.zeros(n, 2)
        self.t = 0

    def step(self, a):
        v = 0.9 * self.s[:, 1] + 0.1 * a[:, 0]
        x = self.s[:, 0] + 0.2 * v
        s, r = self.s, 4.0 * v - 0.05 * (x - 3).abs()
        self.s = torch.stack([x, v], -1)
        self.t += 1
        nxt = self.s
        if self.t % 40 == 0:
            self.s = 0.2 * torch.randn(self.n, 2)
        return s, r, nxt


def soft_update(target, online, tau):
    with torch.no_grad():
        for t, o in zip(target.parameters(), online.parameters()):
            t.lerp_(o, tau)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=400)
    ap.add_argument("--gamma", type=float, default=0.95)
    ap.add_argument("--alpha", type=float, default=0.02)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.manual_seed(1)
    actor, critic = Actor(2, 1), Critic(2, 1)
    target = copy.deepcopy(critic)
    a_opt = torch.optim.Adam(actor.parameters(), lr=args.lr)
    c_opt = torch.optim.Adam(critic.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    env, buffer = PointMass(8), []

    for it in range(args.steps):
        with torch.no_grad():
            a = actor(env.s)[0].float()
        s, r, s2 = env.step(a)
        buffer.append((s, a, r, s2))
        if it < 16:
            continue
        pick = torch.randint(max(0, len(buffer) - 400), len(buffer), (16,)).tolist()
        s, a, r, s2 = (torch.cat(x) for x in zip(*(buffer[i] for i in pick)))

        with torch.autocast("cpu", dtype=torch.float16):
            with torch.no_grad():
                a2, logp2 = actor(s2)
                y = r + args.gamma * (torch.min(*target(s2, a2)).float() - args.alpha * logp2.float())
            q1, q2 = critic(s, a)
            c_loss = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        c_opt.zero_grad()
        scaler.scale(c_loss).backward()
        scaler.step(c_opt)

        with torch.autocast("cpu", dtype=torch.float16):
            new_a, logp = actor(s)
            a_loss = (args.alpha * logp.float() - torch.min(*critic(s, new_a)).float()).mean()
        a_opt.zero_grad()
        scaler.scale(a_loss).backward()
        scaler.step(a_opt)
        scaler.update()
        soft_update(target, critic, 0.02)
        if it % 50 == 0 or it == args.steps - 1:
            print(f"{it:4d} reward {r.mean():7.3f} critic {c_loss.item():9.4f} actor {a_loss.item():8.4f} "
                  f"scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
