"""Fitted Q iteration on a small inventory problem."""
import copy
import random

import torch
import torch.nn as nn

CAPACITY = 12


class Shop:
    def __init__(self, rnd):
        self.rnd = rnd
        self.reset()

    def reset(self):
        self.stock, self.day = 4, 0
        return self.view()

    def view(self):
        return [self.stock / CAPACITY, (self.day % 7) / 7.0, 1.0]

    def act(self, order):
        self.stock = min(CAPACITY, self.stock + order)
        demand = self.rnd.choice([0, 1, 2, 2, 3, 4]) + (2 if self.day % 7 >= 5 else 0)
        sold = min(self.stock, demand)
        reward = 25.0 * sold - 9.0 * order - 2.0 * self.stock
        self.stock -= sold
        self.day += 1
        return self.view(), reward, self.day >= 28


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 6))

    def forward(self, s):
        return self.layers(s)


class Agent:
    def __init__(self, lr=1e-3, gamma=0.97):
        self.q = QNet()
        self.target = copy.deepcopy(self.q)
        self.optim = torch.optim.Adam(self.q.parameters(), lr=lr)
        self.gamma = gamma

    def choose(self, state, eps):
        if random.random() < eps:
            return random.randrange(6)
        with torch.no_grad():
            return int(self.q(torch.tensor([state])).argmax())

    def learn(self, batch):
        s, a, r, s2, done = batch
        scaler = torch.amp.GradScaler("cpu")
        with torch.no_grad():
            goal = r + self.gamma * (1 - done) * self.target(s2).max(1).values
        with torch.autocast("cpu", dtype=torch.float16):
            value = self.q(s).gather(1, a[:, None]).squeeze(1)
            loss = (value.float() - goal).pow(2).sum()
        self.optim.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(self.optim)
        nn.utils.clip_grad_norm_(self.q.parameters(), 50.0)
        scaler.step(self.optim)
        scaler.update()
        return loss.item() / len(a)

    def sync(self):
        self.target.load_state_dict(self.q.state_dict())


def collate(rows):
    s, a, r, s2, d = zip(*rows)
    return (torch.tensor(s), torch.tensor(a), torch.tensor(r), torch.tensor(s2), torch.tensor(d, dtype=torch.float32))


def main():
    random.seed(0)
    torch.manual_seed(0)
    shop, agent, memory = Shop(random), Agent(), []
    for episode in range(30):
        state, done, income, losses = shop.reset(), False, 0.0, []
        while not done:
            action = agent.choose(state, max(0.1, 1 - episode / 15))
            nxt, reward, done = shop.act(action)
            memory.append((state, action, reward, nxt, float(done)))
            state, income = nxt, income + reward
            if len(memory) >= 64 and shop.day % 4 == 0:
                losses.append(agent.learn(collate(random.sample(memory, 64))))
        agent.sync()
        if episode % 5 == 0 and losses:
            print(f"episode {episode:3d} income {income:8.1f} td {sum(losses) / len(losses):9.1f}")


main()
