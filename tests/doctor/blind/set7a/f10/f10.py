"""Advantage actor-critic on a 1-D corridor, separate networks, float16."""
import torch
import torch.nn as nn
from torch.distributions import Categorical

SIZE, HORIZON, GAMMA = 9, 20, 0.95


class Corridor:
    def __init__(self, n, gen):
        self.n, self.gen = n, gen

    def reset(self):
        self.pos = torch.randint(0, SIZE, (self.n,), generator=self.gen)
        return self.obs()

    def obs(self):
        return nn.functional.one_hot(self.pos, SIZE).float()

    def step(self, a):
        self.pos = (self.pos + 2 * a - 1).clamp(0, SIZE - 1)
        return self.obs(), (self.pos == SIZE - 1).float()


def mlp(out):
    return nn.Sequential(nn.Linear(SIZE, 32), nn.Tanh(), nn.Linear(32, out))


def rollout(env, actor):
    obs, acts, rews = [], [], []
    o = env.reset()
    for _ in range(HORIZON):
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            logits = actor(o)
        a = Categorical(logits=logits.float()).sample()
        obs.append(o)
        acts.append(a)
        o, r = env.step(a)
        rews.append(r)
    ret, run = [], torch.zeros(env.n)
    for r in reversed(rews):
        run = r + GAMMA * run
        ret.append(run)
    return torch.stack(obs), torch.stack(acts), torch.stack(ret[::-1])


def train(iters=60):
    torch.manual_seed(6)
    env = Corridor(16, torch.Generator().manual_seed(9))
    actor, critic = mlp(2), mlp(1)
    opt_a = torch.optim.SGD(actor.parameters(), lr=0.2)
    opt_c = torch.optim.SGD(critic.parameters(), lr=0.02)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    for it in range(iters):
        obs, acts, ret = rollout(env, actor)
        with torch.autocast("cpu", dtype=torch.float16):
            value = critic(obs).squeeze(-1)
            logits = actor(obs)
        value_loss = nn.functional.mse_loss(value.float(), ret)
        adv = ret - value.detach().float()
        dist = Categorical(logits=logits.float())
        policy_loss = -(dist.log_prob(acts) * adv).mean() - 0.01 * dist.entropy().mean()

        opt_a.zero_grad()
        opt_c.zero_grad()
        scaler.scale(policy_loss).backward()
        value_loss.backward()
        scaler.step(opt_a)
        scaler.step(opt_c)
        scaler.update()
        if it % 6 == 0 or it == iters - 1:
            print(f"it {it:3d} return {ret[0].mean().item():.3f} value loss {value_loss.item():.4f} "
                  f"mean value {value.float().mean().item():.4f}")


train()
