"""Q-learning for a token-placing puzzle with illegal moves; replay buffer and target network."""
import collections
import random
import torch
import torch.nn as nn
import torch.nn.functional as F

CELLS = 6
random.seed(0)
torch.manual_seed(0)
Step = collections.namedtuple("Step", "obs act rew nxt legal done")


class Board:
    """Fill the cells; cell i pays i / 5 when the cell to its left is already filled, else 0."""

    def reset(self):
        self.cells = [0.0] * CELLS
        return torch.tensor(self.cells)

    def legal(self):
        return torch.tensor(self.cells) == 0

    def step(self, a):
        rew = a / 5 if a == 0 or self.cells[a - 1] else 0.0
        self.cells[a] = 1.0
        return torch.tensor(self.cells), rew, all(self.cells)


def q_network():
    return nn.Sequential(nn.Linear(CELLS, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, CELLS))


class Agent:
    def __init__(self, gamma=0.95):
        self.q, self.target = q_network(), q_network()
        self.target.load_state_dict(self.q.state_dict())
        self.target.requires_grad_(False)
        self.opt = torch.optim.Adam(self.q.parameters(), lr=2e-3)
        self.scaler = torch.amp.GradScaler("cpu")
        self.buffer = collections.deque(maxlen=2000)
        self.gamma = gamma
        self.updates = 0

    @torch.no_grad()
    def act(self, obs, legal, eps):
        if random.random() < eps:
            return random.choice(legal.nonzero().flatten().tolist())
        return self.q(obs).masked_fill(~legal, float("-inf")).argmax().item()

    def learn(self, batch=48):
        if len(self.buffer) < 120:
            return None
        b = Step(*zip(*random.sample(self.buffer, batch)))
        obs, nxt, legal = torch.stack(b.obs), torch.stack(b.nxt), torch.stack(b.legal)
        act, rew, done = torch.tensor(b.act), torch.tensor(b.rew), torch.tensor(b.done)
        with torch.autocast("cpu", dtype=torch.float16):
            q = self.q(obs).gather(1, act[:, None]).squeeze(1)
            with torch.no_grad():
                best = self.target(nxt).float().masked_fill(~legal, float("-inf")).amax(1)
                goal = rew + self.gamma * torch.where(done, torch.zeros_like(best), best)
        loss = F.smooth_l1_loss(q.float(), goal)
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.updates += 1
        if self.updates % 15 == 0:
            self.target.load_state_dict(self.q.state_dict())
        return loss.item()


def main(episodes=110):
    env, agent, scores = Board(), Agent(), []
    for ep in range(episodes):
        obs, done, total = env.reset(), False, 0.0
        while not done:
            a = agent.act(obs, env.legal(), eps=max(0.05, 1 - ep / 60))
            nxt, rew, done = env.step(a)
            agent.buffer.append(Step(obs, a, rew, nxt, env.legal(), done))
            obs, total = nxt, total + rew
            if len(agent.buffer) % 2 == 0:
                loss = agent.learn()
        scores.append(total)
        if ep % 15 == 14 or ep == episodes - 1:
            shown = "buffer filling" if loss is None else f"loss {loss:.4f}"
            print(f"episode {ep + 1:3d} score {sum(scores[-15:]) / len(scores[-15:]):.2f} {shown}")


main()
