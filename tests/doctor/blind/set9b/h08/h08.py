import argparse
from collections import deque

import torch
import torch.nn.functional as F
from torch import nn

from cartpole import BatchedCartPole


class MLP(nn.Module):
    def __init__(self, cin, cout, width=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(cin, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                                 nn.Linear(width, cout))

    def forward(self, x):
        return self.net(x)


class Agent:
    def __init__(self, args):
        self.args = args
        self.env = BatchedCartPole(args.envs)
        self.actor, self.critic = MLP(4, 2), MLP(4, 1)
        self.opts = {"actor": torch.optim.Adam(self.actor.parameters(), lr=args.lr),
                     "critic": torch.optim.Adam(self.critic.parameters(), lr=3 * args.lr)}
        self.scalers = {"actor": torch.amp.GradScaler("cpu", init_scale=2.0 ** 15, growth_interval=20),
                        "critic": torch.amp.GradScaler("cpu", init_scale=2.0 ** 15, growth_interval=20)}
        self.lengths = deque(maxlen=50)

    @torch.no_grad()
    def rollout(self):
        obs_l, act_l, rew_l, end_l = [], [], [], []
        obs = self.env.state.clone()
        for _ in range(self.args.horizon):
            logits = self.actor(obs)
            act = torch.distributions.Categorical(logits=logits).sample()
            nxt, end, lengths = self.env.step(act)
            self.lengths.extend(lengths)
            obs_l.append(obs)
            act_l.append(act)
            rew_l.append(torch.ones(self.args.envs))
            end_l.append(end.float())
            obs = nxt
        value = self.critic(obs).squeeze(-1)
        returns = []
        for rew, end in zip(reversed(rew_l), reversed(end_l)):
            value = rew + self.args.gamma * value * (1 - end)
            returns.append(value)
        flat = torch.stack(obs_l).flatten(0, 1), torch.stack(act_l).flatten(), torch.stack(returns[::-1]).flatten()
        return flat

    def update(self, name, module, loss):
        scaler, opt = self.scalers[name], self.opts[name]
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(module.parameters(), 10.0)
        scaler.step(opt)
        scaler.update()

    def learn(self):
        obs, act, ret = self.rollout()
        with torch.autocast("cpu", dtype=torch.float16):
            value = self.critic(obs).squeeze(-1)
            critic_loss = F.mse_loss(value, ret, reduction="sum") / self.args.envs
            logits = self.actor(obs)
        adv = ret - value.detach().float()
        adv = (adv - adv.mean()) / (adv.std() + 1e-5)
        dist = torch.distributions.Categorical(logits=logits.float())
        actor_loss = -(dist.log_prob(act) * adv).mean() - 0.005 * dist.entropy().mean()
        self.update("critic", self.critic, critic_loss)
        self.update("actor", self.actor, actor_loss)
        return critic_loss.item() * self.args.envs / len(ret)

    def run(self):
        for it in range(self.args.iterations):
            loss = self.learn()
            if it % 10 == 9:
                scales = "/".join(f"{s.get_scale():.0f}" for s in self.scalers.values())
                mean = sum(self.lengths) / max(len(self.lengths), 1)
                print(f"iter {it + 1} critic {loss:.3f} episode length {mean:.1f} scales {scales}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--iterations", type=int, default=120)
    p.add_argument("--envs", type=int, default=16)
    p.add_argument("--horizon", type=int, default=24)
    p.add_argument("--gamma", type=float, default=0.95)
    p.add_argument("--lr", type=float, default=2e-3)
    args = p.parse_args()
    torch.manual_seed(3)
    Agent(args).run()
