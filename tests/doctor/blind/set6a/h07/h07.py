"""DQN on a 1-D chase task: replay warm-up, target net, invalid moves masked with -inf, bf16."""
import random
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F

random.seed(0)
torch.manual_seed(0)
WIDTH, ACTIONS, GAMMA = 9, 3, 0.9


class Chase:
    def reset(self):
        self.me, self.goal, self.t = random.randrange(WIDTH), random.randrange(WIDTH), 0
        return self.obs()

    def obs(self):
        return torch.tensor([self.me / WIDTH, self.goal / WIDTH, (self.me - self.goal) / WIDTH, 1.0])

    def legal(self):
        return torch.tensor([self.me > 0, True, self.me < WIDTH - 1])

    def step(self, a):
        self.me += a - 1
        self.t += 1
        done = self.me == self.goal or self.t >= 12
        return self.obs(), (1.0 if self.me == self.goal else -0.05), done


def q_net():
    return nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, ACTIONS))


def masked(q, legal):
    return q.float().masked_fill(~legal, float("-inf"))


def learn(online, target, opt, memory):
    s, l, a, r, s2, l2, d = map(torch.stack, zip(*random.sample(memory, 64)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        q = online(s)
        with torch.no_grad():
            best = masked(online(s2), l2).argmax(1, keepdim=True)
            q_next = masked(target(s2), l2).gather(1, best).squeeze(1)
    y = r + GAMMA * (1 - d) * q_next
    q_sa = q.float().gather(1, a[:, None]).squeeze(1)
    loss = F.smooth_l1_loss(q_sa, y)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(online.parameters(), 5.0)
    opt.step()
    return loss.item()


online, target = q_net(), q_net()
target.load_state_dict(online.state_dict())
target.requires_grad_(False)
opt = torch.optim.Adam(online.parameters(), lr=2e-3)
memory, env = deque(maxlen=3000), Chase()
wins, loss, updates = deque(maxlen=60), float("nan"), 0
for episode in range(260):
    s, done = env.reset(), False
    while not done:
        legal = env.legal()
        if random.random() < max(0.1, 1 - episode / 150):
            a = random.choice(legal.nonzero().flatten().tolist())
        else:
            with torch.no_grad():
                a = int(masked(online(s), legal).argmax())
        s2, r, done = env.step(a)
        hit = r > 0
        memory.append((s, legal, torch.tensor(a), torch.tensor(r), s2, env.legal(), torch.tensor(float(done))))
        s = s2
    wins.append(hit)
    if len(memory) < 400:
        continue
    for _ in range(2):
        loss = learn(online, target, opt, memory)
        updates += 1
        if updates % 40 == 0:
            target.load_state_dict(online.state_dict())
    if episode % 30 == 0:
        print(f"episode {episode} wins {sum(wins) / len(wins):.2f} loss {loss:.4f}")
print("last 60 episodes", sum(wins) / len(wins))
