"""Double DQN with a replay buffer on a noisy pendulum-like balancing task."""
import argparse
import collections
import copy
import random

import torch
from torch import nn


class Balance:
    """Keep an unstable second-order system near the origin with three pushes."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def reset(self):
        self.x, self.v, self.t = self.rng.uniform(-0.5, 0.5), self.rng.uniform(-0.3, 0.3), 0
        return self.state()

    def state(self):
        return [self.x, self.v, self.x * self.v, self.t / 40]

    def step(self, a):
        push = (a - 1) * 1.2
        self.v += 0.1 * (0.8 * self.x + push) + self.rng.gauss(0, 0.01)
        self.x += 0.1 * self.v
        self.t += 1
        fell = abs(self.x) > 1.0
        return self.state(), 1.0 - abs(self.x) - (5.0 if fell else 0.0), fell, fell or self.t >= 40


class Replay:
    def __init__(self, capacity, seed):
        self.data = collections.deque(maxlen=capacity)
        self.rng = random.Random(seed)

    def add(self, *item):
        self.data.append(item)

    def sample(self, n):
        s, a, r, s2, d = zip(*self.rng.sample(list(self.data), n))
        return (torch.tensor(s), torch.tensor(a), torch.tensor(r),
                torch.tensor(s2), torch.tensor(d, dtype=torch.float32))


def make_q():
    return nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))


class Agent:
    def __init__(self, args):
        self.q = make_q()
        self.target = copy.deepcopy(self.q)
        self.opt = torch.optim.SGD(self.q.parameters(), lr=args.lr, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=args.scale)
        self.gamma = args.gamma
        self.updates = 0

    @torch.no_grad()
    def act(self, state, eps, rng):
        if rng.random() < eps:
            return rng.randrange(3)
        return int(self.q(torch.tensor(state)).argmax())

    def learn(self, batch):
        s, a, r, s2, d = batch
        with torch.autocast("cpu", dtype=torch.float16):
            q = self.q(s).gather(1, a[:, None]).squeeze(1)
            with torch.no_grad():
                best = self.q(s2).argmax(1, keepdim=True)
                boot = self.target(s2).gather(1, best).squeeze(1)
            target = r + self.gamma * (1 - d) * boot.float()
            loss = nn.functional.smooth_l1_loss(q.float(), target)
        self.opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.opt.step()
        self.updates += 1
        if self.updates % 50 == 0:
            self.target.load_state_dict(self.q.state_dict())
        return loss.item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--episodes", type=int, default=80)
    p.add_argument("--lr", type=float, default=5e-3)
    p.add_argument("--gamma", type=float, default=0.9)
    p.add_argument("--scale", type=float, default=1024.0)
    p.add_argument("--seed", type=int, default=2)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    rng = random.Random(args.seed)
    env, buf, agent = Balance(args.seed), Replay(4000, args.seed), Agent(args)
    returns, losses = [], []
    for ep in range(args.episodes):
        s, done, total = env.reset(), False, 0.0
        eps = max(0.05, 1.0 - ep / 30)
        while not done:
            a = agent.act(s, eps, rng)
            s2, r, fell, done = env.step(a)
            buf.add(s, a, r, s2, fell)
            s, total = s2, total + r
            if len(buf.data) >= 64:
                losses.append(agent.learn(buf.sample(32)))
        returns.append(total)
        if (ep + 1) % 10 == 0:
            tail = losses[-100:]
            print(f"episode {ep + 1} return {sum(returns[-10:]) / 10:.3f} "
                  f"td {sum(tail) / max(1, len(tail)):.4f} eps {eps:.2f}")


if __name__ == "__main__":
    main()
