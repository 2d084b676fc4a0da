"""Advantage actor-critic on a small contextual grid, fp16 autocast, two optimizers."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

torch.manual_seed(0)
N_ENV, HORIZON, GAMMA, ACTIONS = 32, 6, 0.9, 4


class Corridor:
    """Reward 1 when the action equals the arrow shown in the observation."""

    def __init__(self, n):
        self.n = n
        self.reset()

    def reset(self):
        self.arrow = torch.randint(0, ACTIONS, (self.n,))
        return self.obs()

    def obs(self):
        return torch.cat([F.one_hot(self.arrow, ACTIONS).float(), torch.randn(self.n, 4) * 0.3], 1)

    def step(self, a):
        r = (a == self.arrow).float()
        self.arrow = torch.randint(0, ACTIONS, (self.n,))
        return self.obs(), r


def mlp(out):
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, out))


class Agent:
    def __init__(self):
        self.actor, self.critic = mlp(ACTIONS), mlp(1)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=1e-2, eps=1e-5)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=1e-2, eps=1e-5)
        self.scaler = torch.amp.GradScaler("cpu")

    def rollout(self, env, obs):
        states, actions, rewards = [], [], []
        for _ in range(HORIZON):
            with torch.no_grad():
                a = Categorical(logits=self.actor(obs)).sample()
            nxt, r = env.step(a)
            states.append(obs), actions.append(a), rewards.append(r)
            obs = nxt
        return torch.stack(states), torch.stack(actions), torch.stack(rewards), obs

    def update(self, states, actions, rewards, last):
        with torch.no_grad():
            ret = self.critic(last).squeeze(-1)
        returns = []
        for r in reversed(rewards):
            ret = r + GAMMA * ret
            returns.insert(0, ret)
        returns = torch.stack(returns)

        self.actor_opt.zero_grad()
        self.critic_opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            value = self.critic(states).squeeze(-1)
            logits = self.actor(states)
        adv = (returns - value.float()).detach()
        dist = Categorical(logits=logits.float())
        actor_loss = -(dist.log_prob(actions) * adv).mean() - 0.001 * dist.entropy().mean()
        critic_loss = F.mse_loss(value.float(), returns)
        actor_loss.backward()
        self.scaler.scale(critic_loss).backward()
        self.scaler.step(self.actor_opt)
        self.scaler.step(self.critic_opt)
        self.scaler.update()
        return critic_loss.item()


env, agent = Corridor(N_ENV), Agent()
obs = env.reset()
for it in range(80):
    s, a, r, obs = agent.rollout(env, obs)
    vl = agent.update(s, a, r, obs)
    if it % 8 == 0:
        print(f"iter {it:3d} reward {r.mean().item():.3f} value loss {vl:.3f} scale {agent.scaler.get_scale():g}")
