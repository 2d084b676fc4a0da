"""A2C on a batch of 1-d 'dock the boat' environments. Actor and critic are separate nets."""
import argparse

import torch
import torch.nn as nn
from torch.distributions import Categorical


class Dock:
    """Push a boat to x = 0. Returns are in fuel units, so they are large."""

    def __init__(self, n, gen):
        self.n, self.gen = n, gen

    def reset(self):
        self.x = torch.rand(self.n, generator=self.gen) * 4 - 2
        self.v = torch.zeros(self.n)
        return torch.stack([self.x, self.v], 1)

    def step(self, a):
        self.v = 0.9 * self.v + 0.15 * (a.float() - 1)
        self.x = (self.x + self.v).clamp(-4, 4)
        reward = -10.0 * self.x.abs()
        return torch.stack([self.x, self.v], 1), reward


def mlp(out, hid=64):
    return nn.Sequential(nn.Linear(2, hid), nn.Tanh(), nn.Linear(hid, hid), nn.Tanh(), nn.Linear(hid, out))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=120)
    ap.add_argument("--envs", type=int, default=64)
    ap.add_argument("--horizon", type=int, default=16)
    ap.add_argument("--gamma", type=float, default=0.95)
    args = ap.parse_args()
    torch.manual_seed(2)
    torch.set_num_threads(1)
    env = Dock(args.envs, torch.Generator().manual_seed(2))
    actor, critic = mlp(3), mlp(1)
    a_opt = torch.optim.Adam(actor.parameters(), lr=4e-3)
    c_opt = torch.optim.Adam(critic.parameters(), lr=1e-2)
    # the two losses differ by four orders of magnitude: a scaler for each
    a_scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
    c_scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
    half = torch.float16
    for it in range(args.iters):
        s = env.reset()
        states, logps, ents, rewards = [], [], [], []
        for _ in range(args.horizon):
            with torch.autocast("cpu", dtype=half):
                logits = actor(s)
            dist = Categorical(logits=logits.float())
            a = dist.sample()
            states.append(s)
            logps.append(dist.log_prob(a))
            ents.append(dist.entropy())
            s, r = env.step(a)
            rewards.append(r)
        with torch.no_grad(), torch.autocast("cpu", dtype=half):
            ret = critic(s).squeeze(1).float() * 100
        returns = []
        for r in reversed(rewards):
            ret = r + args.gamma * ret
            returns.insert(0, ret)
        returns = torch.stack(returns)
        with torch.autocast("cpu", dtype=half):
            value = critic(torch.stack(states)).squeeze(-1)
        value = value.float() * 100  # critic works in hundreds
        critic_loss = (value - returns).square().mean()
        adv = (returns - value).detach()
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        actor_loss = -(torch.stack(logps) * adv).mean() - 0.01 * torch.stack(ents).mean()

        a_opt.zero_grad()
        c_opt.zero_grad()
        a_scaler.scale(actor_loss).backward()
        c_scaler.scale(critic_loss).backward()
        a_scaler.unscale_(a_opt)
        c_scaler.unscale_(c_opt)
        a_norm = nn.utils.clip_grad_norm_(actor.parameters(), 1.0)
        c_norm = nn.utils.clip_grad_norm_(critic.parameters(), 1e5)
        a_scaler.step(a_opt)
        c_scaler.step(c_opt)
        a_scaler.update()
        c_scaler.update()
        if it < 6 or it % 20 == 0 or it == args.iters - 1:
            print(f"it {it:3d} reward {torch.stack(rewards).mean():.2f} critic {critic_loss.item():.0f} "
                  f"norms {a_norm:.3g} {c_norm:.3g} scales {a_scaler.get_scale():g} {c_scaler.get_scale():g}")


if __name__ == "__main__":
    main()
