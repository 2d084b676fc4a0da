import torch


class Replay:
    def __init__(self, capacity, obs_dim):
        self.obs = torch.empty(capacity, obs_dim).fill_(float("nan"))
        self.nxt = torch.empty(capacity, obs_dim)
        self.act = torch.empty(capacity, dtype=torch.long)
        self.rew = torch.empty(capacity)
        self.end = torch.empty(capacity)
        self.capacity, self.size, self.head = capacity, 0, 0

    def push(self, o, a, r, n, end):
        i = self.head
        self.obs[i], self.nxt[i] = o, n
        self.act[i], self.rew[i], self.end[i] = a, r, end
        self.head = (i + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, n, g):
        i = torch.randint(0, self.size, (n,), generator=g)
        return self.obs[i], self.act[i], self.rew[i], self.nxt[i], self.end[i]
