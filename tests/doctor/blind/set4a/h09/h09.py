"""Double DQN on a grid: illegal moves are -inf, prioritised weights, updates skipped until the buffer is warm."""
import random
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F

Step = namedtuple("Step", "s a r s2 done legal2")
N = 4


def legal(pos):
    y, x = divmod(pos, N)
    return torch.tensor([y > 0, y < N - 1, x > 0, x < N - 1])


def move(pos, a):
    return pos + (-N, N, -1, 1)[a]


def one_hot(pos):
    return F.one_hot(torch.tensor(pos), N * N).float()


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(N * N, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, s, allowed=None):
        q = self.net(s)
        return q if allowed is None else q.masked_fill(~allowed, float("-inf"))


class Agent:
    def __init__(self, seed=0):
        torch.manual_seed(seed)
        self.rng = random.Random(seed)
        self.q, self.target = QNet(), QNet().requires_grad_(False)
        self.sync()
        self.opt = torch.optim.Adam(self.q.parameters(), lr=3e-3)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        self.buffer = deque(maxlen=2000)

    def sync(self):
        self.target.load_state_dict(self.q.state_dict())

    def act(self, pos, epsilon):
        ok = legal(pos)
        if self.rng.random() < epsilon:
            return self.rng.choice(ok.nonzero().flatten().tolist())
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            return self.q(one_hot(pos)[None], ok[None]).argmax(1).item()

    def learn(self, size=64, gamma=0.9):
        if len(self.buffer) < 4 * size:
            return None
        rows = self.rng.sample(self.buffer, size)
        s, s2 = torch.stack([r.s for r in rows]), torch.stack([r.s2 for r in rows])
        a = torch.tensor([r.a for r in rows])
        r = torch.tensor([r.r for r in rows])
        done = torch.tensor([r.done for r in rows])
        ok = torch.stack([r.legal2 for r in rows])
        with torch.autocast("cpu", dtype=torch.float16):
            with torch.no_grad():
                best = self.q(s2, ok).argmax(1, keepdim=True)
                nxt = self.target(s2, ok).gather(1, best).squeeze(1).float()
                y = torch.where(done, r, r + gamma * nxt)
            pred = self.q(s).gather(1, a[:, None]).squeeze(1)
            loss = F.smooth_l1_loss(pred.float(), y)
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()


def main(episodes=60):
    agent, lengths, loss = Agent(), [], None
    for ep in range(episodes):
        pos, t = agent.rng.randrange(N * N - 1), 0
        eps = max(0.2, 1 - ep / 30)
        while True:
            a = agent.act(pos, eps)
            nxt = move(pos, a)
            t += 1
            done = nxt == N * N - 1
            ok2 = torch.zeros(4, dtype=torch.bool) if done else legal(nxt)
            agent.buffer.append(Step(one_hot(pos), a, 1.0 if done else -0.02, one_hot(nxt), done, ok2))
            pos = nxt
            if t % 2 == 0:
                loss = agent.learn()
            if done or t >= 40:
                break
        lengths.append(t)
        if ep % 2 == 0:
            agent.sync()
        if ep % 10 == 9:
            print(f"episode {ep} mean length {sum(lengths[-10:]) / 10:.1f} loss {loss}")


if __name__ == "__main__":
    main()
