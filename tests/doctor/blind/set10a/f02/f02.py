"""Advantage actor critic on a windy grid, with a categorical policy."""
import argparse

import torch
from torch import nn


class WindyGrid:
    """A batch of small grid worlds; reach the goal cell before time runs out."""

    MOVES = torch.tensor([[0, 1], [1, 0], [0, -1], [-1, 0], [0, 0], [1, 1]])

    def __init__(self, n, size=6, horizon=12, seed=0):
        self.n, self.size, self.horizon = n, size, horizon
        self.gen = torch.Generator().manual_seed(seed)
        self.pos = self.goal = None

    def reset(self):
        self.t = 0
        self.pos = torch.randint(self.size, (self.n, 2), generator=self.gen)
        self.goal = torch.randint(self.size, (self.n, 2), generator=self.gen)
        return self.observe()

    def observe(self):
        onehot = lambda v: nn.functional.one_hot(v, self.size).flatten(1)
        return torch.cat([onehot(self.pos), onehot(self.goal)], 1).float()

    def step(self, action):
        self.t += 1
        before = (self.pos - self.goal).abs().sum(1)
        self.pos = (self.pos + self.MOVES[action]).clamp(0, self.size - 1)
        gust = torch.rand(self.n, generator=self.gen) < 0.05
        self.pos[gust, 1] = (self.pos[gust, 1] - 1).clamp(min=0)
        after = (self.pos - self.goal).abs().sum(1)
        reward = (before - after).float() + (after == 0).float()
        return self.observe(), reward, self.t >= self.horizon


class ActorCritic(nn.Module):
    def __init__(self, obs=24, hidden=64, actions=6, temperature=0.25):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh(),
                                   nn.Linear(hidden, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, actions)
        self.v = nn.Linear(hidden, 1)
        self.temperature = temperature

    def forward(self, obs):
        h = self.trunk(obs)
        return torch.softmax(self.pi(h) / self.temperature, -1), self.v(h).squeeze(-1)


def rollout(env, net):
    obs, done = env.reset(), False
    traj = {"obs": [], "act": [], "rew": []}
    while not done:
        with torch.no_grad():
            probs, _ = net(obs)
        act = torch.multinomial(probs, 1).squeeze(1)
        traj["obs"].append(obs)
        traj["act"].append(act)
        obs, rew, done = env.step(act)
        traj["rew"].append(rew)
    return {k: torch.stack(v) for k, v in traj.items()}


def discounted(rewards, gamma):
    out, acc = torch.zeros_like(rewards), torch.zeros_like(rewards[0])
    for t in reversed(range(len(rewards))):
        acc = rewards[t] + gamma * acc
        out[t] = acc
    return out


def policy_entropy(probs):
    return -(probs * torch.log(probs + 1e-8)).sum(-1).mean()


def train(args):
    torch.manual_seed(args.seed)
    env, net = WindyGrid(args.envs, seed=args.seed), ActorCritic()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    history = []
    for it in range(args.iters):
        traj = rollout(env, net)
        ret = discounted(traj["rew"], args.gamma)
        obs, act, ret = traj["obs"].flatten(0, 1), traj["act"].flatten(), ret.flatten()
        with torch.autocast("cpu", dtype=torch.float16):
            probs, value = net(obs)
            adv = (ret - value.float()).detach()
            adv = (adv - adv.mean()) / (adv.std() + 1e-5)
            picked = probs.gather(1, act[:, None]).squeeze(1)
            pg = -(torch.log(picked.clamp(min=1e-4)).float() * adv).mean()
            entropy = policy_entropy(probs)
            vf = nn.functional.mse_loss(value.float(), ret)
            loss = pg + 0.5 * vf - args.ent_coef * entropy
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        scaler.step(opt)
        scaler.update()
        history.append(traj["rew"].sum(0).mean().item())
        if it % 10 == 0 or it == args.iters - 1:
            print(f"iter {it:3d} return {history[-1]:.3f} pg {pg.item():.4f} vf {vf.item():.4f} "
                  f"entropy {entropy.item():.4f} scale {scaler.get_scale():g}")
    return history


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=150)
    p.add_argument("--envs", type=int, default=64)
    p.add_argument("--lr", type=float, default=8e-3)
    p.add_argument("--gamma", type=float, default=0.9)
    p.add_argument("--ent-coef", type=float, default=0.01)
    p.add_argument("--seed", type=int, default=3)
    train(p.parse_args())
