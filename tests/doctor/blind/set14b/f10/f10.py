import argparse

import torch
import torch.nn as nn
from torch.distributions import Categorical

from env import Corridor


def mlp(inputs, outputs, hidden=32):
    return nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(),
                         nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, outputs))


class Agent:
    def __init__(self, args):
        self.actor, self.critic = mlp(3, 2), mlp(3, 1)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=args.lr)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=2 * args.lr)
        self.gamma = args.gamma

    def value(self, obs):
        return self.critic(obs).squeeze(-1)

    @torch.no_grad()
    def collect(self, env, obs, horizon):
        keep = {k: [] for k in ("obs", "action", "log_prob", "reward", "done")}
        for _ in range(horizon):
            dist = Categorical(logits=self.actor(obs))
            action = dist.sample()
            nxt, reward, done = env.step(action)
            for k, v in zip(keep, (obs, action, dist.log_prob(action), reward, done)):
                keep[k].append(v)
            obs = nxt
        roll = {k: torch.stack(v) for k, v in keep.items()}
        ret, out = self.value(obs), []
        for r, d in zip(reversed(roll["reward"]), reversed(roll["done"])):
            ret = r + self.gamma * (1 - d) * ret
            out.append(ret)
        roll["ret"] = torch.stack(out[::-1])
        return roll, obs

    def update(self, roll):
        value = self.value(roll["obs"])
        adv = (roll["ret"] - value).detach()
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        policy_loss = -(roll["log_prob"] * adv).mean()
        value_loss = (roll["ret"] - value).square().mean()
        loss = policy_loss + 0.5 * value_loss
        self.actor_opt.zero_grad()
        self.critic_opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.actor.parameters(), 0.5)
        nn.utils.clip_grad_norm_(self.critic.parameters(), 0.5)
        self.actor_opt.step()
        self.critic_opt.step()
        return policy_loss.item(), value_loss.item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--updates", type=int, default=240)
    p.add_argument("--envs", type=int, default=32)
    p.add_argument("--horizon", type=int, default=16)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--gamma", type=float, default=0.97)
    args = p.parse_args()
    torch.manual_seed(2)
    env = Corridor(args.envs, seed=2)
    agent = Agent(args)
    obs = env.observe()
    window = []
    for u in range(args.updates):
        roll, obs = agent.collect(env, obs, args.horizon)
        pl, vl = agent.update(roll)
        ends = roll["reward"][roll["done"].bool()]
        window.append((ends > 0).float().mean().item() if len(ends) else 0.0)
        if (u + 1) % 40 == 0:
            print(f"update {u + 1:4d} policy loss {pl:+.4f} value loss {vl:.4f} "
                  f"success {sum(window[-40:]) / 40:.3f}")


if __name__ == "__main__":
    main()
