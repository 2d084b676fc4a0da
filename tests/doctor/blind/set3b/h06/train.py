"""Double Q-learning on a noisy chain; the replay memory is allocated once and filled as it goes."""
import random

import torch
import torch.nn.functional as F
from torch import nn


class Memory:
    def __init__(self, size, dim):
        self.state = torch.empty(size, dim)
        self.following = torch.empty(size, dim)
        self.reward = torch.full((size,), float("nan"))
        self.action = torch.empty(size, dtype=torch.long)
        self.live = torch.empty(size)
        self.size, self.count = size, 0

    def push(self, s, a, r, s2, live):
        i = self.count % self.size
        self.state[i], self.following[i] = s, s2
        self.action[i], self.reward[i], self.live[i] = a, r, live
        self.count += 1

    def sample(self, n):
        i = torch.randint(0, min(self.count, self.size), (n,))
        return self.state[i], self.action[i], self.reward[i], self.following[i], self.live[i]


class Chain:
    """Nine cells, left or right; the prize is at the right end, a crumb at the left one."""

    cells = 9

    def __init__(self, rng):
        self.rng = rng
        self.reset()

    def reset(self):
        self.at, self.t = self.cells // 2, 0

    def code(self):
        return F.one_hot(torch.tensor(self.at), self.cells).float()

    def move(self, a):
        if self.rng.random() < 0.1:
            a = 1 - a
        self.at += 1 if a else -1
        self.t += 1
        if self.at >= self.cells - 1:
            return 10.0, True
        if self.at <= 0:
            return 1.0, True
        return -0.05, self.t >= 30


class Learner:
    def __init__(self, gamma=0.95, limit=1.0):
        make = lambda: nn.Sequential(nn.Linear(Chain.cells, 32), nn.ReLU(), nn.Linear(32, 2))
        self.online, self.target = make(), make()
        self.sync()
        self.opt = torch.optim.Adam(self.online.parameters(), lr=5e-3)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 18)
        self.gamma, self.limit = gamma, limit

    def sync(self):
        self.target.load_state_dict(self.online.state_dict())

    @torch.no_grad()
    def greedy(self, s):
        return int(self.online(s).argmax())

    def learn(self, batch):
        s, a, r, s2, live = batch
        with torch.autocast("cpu", dtype=torch.float16):
            with torch.no_grad():
                choice = self.online(s2).argmax(1, keepdim=True)
                goal = r + self.gamma * live * self.target(s2).gather(1, choice).squeeze(1)
        # a region of its own: the casts made above carry no gradient
        with torch.autocast("cpu", dtype=torch.float16):
            value = self.online(s).gather(1, a[:, None]).squeeze(1)
            loss = F.smooth_l1_loss(value, goal)
        self.opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        # gradients still carry the scale, so does the bound
        nn.utils.clip_grad_norm_(self.online.parameters(), self.limit * self.scaler.get_scale())
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()


def main(moves=260):
    torch.manual_seed(0)
    rng = random.Random(0)
    env, memory, learner = Chain(rng), Memory(2000, Chain.cells), Learner()
    episode, total = 0, 0.0
    for t in range(moves):
        s = env.code()
        a = rng.randrange(2) if rng.random() < max(0.1, 1 - t / 150) else learner.greedy(s)
        r, over = env.move(a)
        memory.push(s, a, r, env.code(), 0.0 if over else 1.0)
        total += r
        print(f"t={t:04d} episode={episode:03d} a={a} r={r:+.2f} inf_reward={r == float('inf')}")
        if memory.count >= 32 and t % 2 == 0:
            loss = learner.learn(memory.sample(32))
            print(f"    loss={loss:.5f} scale={learner.scaler.get_scale():.0f}")
        if t % 20 == 0:
            learner.sync()
        if over:
            env.reset()
            episode += 1
    print(f"{episode} episodes, return {total:.2f}, unused rows {memory.reward.isnan().sum().item()}")


if __name__ == "__main__":
    main()
