"""DQN on a grid with blocked moves; the lagged net never gets an optimizer."""
import copy
import random
from collections import deque

import torch
import torch.nn as nn

SIDE = 4
MOVES = [(0, 1), (0, -1), (1, 0), (-1, 0)]


def encode(cell):
    v = torch.zeros(SIDE * SIDE)
    v[cell[0] * SIDE + cell[1]] = 1.0
    return v


def allowed(cell):
    ok = [0 <= cell[0] + a < SIDE and 0 <= cell[1] + b < SIDE for a, b in MOVES]
    return torch.tensor(ok)


def step(cell, a):
    nxt = (cell[0] + MOVES[a][0], cell[1] + MOVES[a][1])
    done = nxt == (SIDE - 1, SIDE - 1)
    return nxt, (1.0 if done else -0.02), done


class Learner:
    def __init__(self):
        self.q = nn.Sequential(nn.Linear(SIDE * SIDE, 48), nn.ReLU(), nn.Linear(48, 4))
        self.lag = copy.deepcopy(self.q)
        self.opt = torch.optim.RMSprop(self.q.parameters(), lr=2e-3)
        self.memory = deque(maxlen=2000)

    @torch.no_grad()
    def act(self, cell, eps):
        ok = allowed(cell)
        if random.random() < eps:
            return random.choice(ok.nonzero().flatten().tolist())
        return int(self.q(encode(cell)).masked_fill(~ok, float("-inf")).argmax())

    def learn(self, n=48, gamma=0.95):
        s, a, r, s2, done = zip(*random.sample(self.memory, n))
        s2, a = list(s2), torch.tensor(a)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            q = self.q(torch.stack([encode(c) for c in s])).float().gather(1, a[:, None])[:, 0]
            with torch.no_grad():
                nxt = self.lag(torch.stack([encode(c) for c in s2])).float()
                nxt.masked_fill_(~torch.stack([allowed(c) for c in s2]), float("-inf"))
                goal = torch.tensor(r) + gamma * nxt.max(1).values * (1 - torch.tensor(done).float())
        loss = nn.functional.smooth_l1_loss(q, goal)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            for t, p in zip(self.lag.parameters(), self.q.parameters()):
                t.mul_(0.98).add_(p, alpha=0.02)
        return loss.item()


def main(episodes=60):
    torch.manual_seed(6)
    random.seed(6)
    agent, lengths = Learner(), []
    for ep in range(episodes):
        cell, done, t, loss = (0, 0), False, 0, float("nan")
        while not done and t < 40:
            a = agent.act(cell, max(0.05, 1 - ep / 30))
            nxt, r, done = step(cell, a)
            agent.memory.append((cell, a, r, nxt, done))
            cell, t = nxt, t + 1
            if len(agent.memory) >= 100 and t % 2 == 0:
                loss = agent.learn()
        lengths.append(t)
        if ep % 12 == 0:
            print(f"episode {ep} length {t} loss {loss:.5f}")
    print("first 10", sum(lengths[:10]) / 10, "last 10", sum(lengths[-10:]) / 10)


main()
