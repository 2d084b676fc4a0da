"""Advantage actor-critic on a small corridor world, separate actor and critic networks."""
import torch
import torch.nn as nn
from torch.distributions import Categorical

torch.manual_seed(7)
N_STATES = 12
GAMMA = 0.95


class Corridor:
    """Start in the middle; +1 at the right end, -1 at the left end."""

    def __init__(self, envs):
        self.envs = envs
        self.pos = torch.full((envs,), N_STATES // 2)
        self.t = torch.zeros(envs, dtype=torch.long)

    def obs(self):
        return nn.functional.one_hot(self.pos, N_STATES).float()

    def step(self, action):
        self.pos = (self.pos + 2 * action - 1).clamp(0, N_STATES - 1)
        self.t += 1
        reward = (self.pos == N_STATES - 1).float() - (self.pos == 0).float() - 0.01
        done = (self.pos == 0) | (self.pos == N_STATES - 1) | (self.t >= 40)
        self.pos = torch.where(done, torch.full_like(self.pos, N_STATES // 2), self.pos)
        self.t = torch.where(done, torch.zeros_like(self.t), self.t)
        return self.obs(), reward, done


def mlp(out):
    return nn.Sequential(nn.Linear(N_STATES, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, out))


actor, critic = mlp(2), mlp(1)
actor_opt = torch.optim.SGD(actor.parameters(), lr=0.3)
critic_opt = torch.optim.SGD(critic.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu")

env = Corridor(32)
obs = env.obs()
for update in range(60):
    states, actions, rewards, dones = [], [], [], []
    for _ in range(8):
        with torch.no_grad():
            a = Categorical(logits=actor(obs)).sample()
        states.append(obs)
        actions.append(a)
        obs, r, d = env.step(a)
        rewards.append(r)
        dones.append(d)

    with torch.no_grad():
        ret = critic(obs).squeeze(-1)
    returns = []
    for r, d in zip(reversed(rewards), reversed(dones)):
        ret = r + GAMMA * ret * (~d).float()
        returns.insert(0, ret)
    s, a, g = torch.cat(states), torch.cat(actions), torch.cat(returns)

    actor_opt.zero_grad()
    critic_opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        value = critic(s).squeeze(-1)
        logits = actor(s)
    value_loss = (value.float() - g).pow(2).mean()
    dist = Categorical(logits=logits.float())
    adv = (g - value.float()).detach()
    policy_loss = -(dist.log_prob(a) * adv).mean() - 0.01 * dist.entropy().mean()

    scaler.scale(policy_loss).backward()
    scaler.step(actor_opt)

    scaler.scale(value_loss).backward()
    critic_opt.step()
    scaler.update()

    if update % 5 == 0:
        mean_r = torch.stack(rewards).mean().item()
        print(f"update {update:2d}  value loss {value_loss.item():.4f}  reward/step {mean_r:+.4f}")
