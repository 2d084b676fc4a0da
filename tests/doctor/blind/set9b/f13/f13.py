import argparse

import torch
import torch.nn.functional as F
from torch import nn


class GridWorld:
    def __init__(self, envs, size=5, seed=0):
        self.n, self.size = envs, size
        self.gen = torch.Generator().manual_seed(seed)
        self.goal = torch.tensor([size - 1, size - 1])
        self.reset(torch.ones(envs, dtype=torch.bool))

    def reset(self, which):
        if not hasattr(self, "pos"):
            self.pos = torch.zeros(self.n, 2, dtype=torch.long)
            self.t = torch.zeros(self.n, dtype=torch.long)
        fresh = torch.randint(0, self.size - 1, (self.n, 2), generator=self.gen)
        self.pos = torch.where(which[:, None], fresh, self.pos)
        self.t = torch.where(which, torch.zeros_like(self.t), self.t)

    def obs(self):
        return torch.cat([F.one_hot(self.pos[:, 0], self.size), F.one_hot(self.pos[:, 1], self.size)], 1).float()

    def step(self, action):
        moves = torch.tensor([[0, 1], [0, -1], [1, 0], [-1, 0]])
        self.pos = (self.pos + moves[action]).clamp(0, self.size - 1)
        self.t += 1
        done = (self.pos == self.goal).all(1)
        reward = done.float() - 0.02
        over = done | (self.t >= 20)
        self.reset(over)
        return reward, over


class ActorCritic(nn.Module):
    def __init__(self, size, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2 * size, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.pi = nn.Linear(width, 4)
        self.v = nn.Linear(width, 1)

    def forward(self, obs):
        h = self.body(obs)
        return self.pi(h), self.v(h).squeeze(-1)


class PPO:
    def __init__(self, args):
        self.args = args
        self.env = GridWorld(args.envs)
        self.net = ActorCritic(self.env.size)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=args.lr, eps=1e-5)

    @torch.no_grad()
    def collect(self):
        rows = []
        for _ in range(self.args.horizon):
            obs = self.env.obs()
            logits, value = self.net(obs)
            dist = torch.distributions.Categorical(logits=logits)
            action = dist.sample()
            reward, over = self.env.step(action)
            rows.append((obs, action, dist.log_prob(action), value, reward, over.float()))
        obs, act, logp, val, rew, over = (torch.stack(c) for c in zip(*rows))
        nxt, adv, run = self.net(self.env.obs())[1], torch.zeros_like(rew), 0.0
        for t in reversed(range(len(rows))):
            delta = rew[t] + 0.97 * nxt * (1 - over[t]) - val[t]
            run = delta + 0.97 * 0.95 * (1 - over[t]) * run
            adv[t], nxt = run, val[t]
        flat = [x.flatten(0, 1) for x in (obs, act, logp, adv, adv + val)]
        return flat, rew.sum(0).mean().item()

    @torch.autocast("cpu", dtype=torch.bfloat16)
    def minibatch_losses(self, memory):
        obs, act, old, adv, ret = memory
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        for _ in range(self.args.inner):
            for idx in torch.randperm(len(obs)).split(self.args.minibatch):
                logits, value = self.net(obs[idx])
                dist = torch.distributions.Categorical(logits=logits.float())
                ratio = (dist.log_prob(act[idx]) - old[idx]).exp()
                clipped = ratio.clamp(1 - self.args.clip, 1 + self.args.clip)
                policy = -torch.minimum(ratio * adv[idx], clipped * adv[idx]).mean()
                yield policy + 0.5 * F.mse_loss(value.float(), ret[idx]) - 0.01 * dist.entropy().mean()

    def learn(self):
        for it in range(self.args.iterations):
            memory, score = self.collect()
            losses = []
            for loss in self.minibatch_losses(memory):
                self.opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
                self.opt.step()
                losses.append(loss.item())
            print(f"iter {it} return {score:.3f} loss {sum(losses) / len(losses):.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name, kind, value in [("iterations", int, 8), ("envs", int, 16), ("horizon", int, 64), ("inner", int, 3),
                              ("minibatch", int, 256), ("clip", float, 0.2), ("lr", float, 3e-3)]:
        parser.add_argument(f"--{name}", type=kind, default=value)
    args = parser.parse_args()
    torch.manual_seed(5)
    PPO(args).learn()
