import torch


class Replay:
    def __init__(self, size, obs_dim, gen):
        self.obs = torch.empty(size, obs_dim)
        self.next_obs = torch.empty(size, obs_dim)
        self.action = torch.empty(size, dtype=torch.long)
        self.reward = torch.empty(size)
        self.done = torch.empty(size, dtype=torch.bool)
        self.size, self.count, self.gen = size, 0, gen

    def push(self, o, a, r, n, d):
        m = len(o)
        idx = torch.arange(self.count, self.count + m) % self.size
        self.obs[idx], self.next_obs[idx] = o, n
        self.action[idx], self.reward[idx], self.done[idx] = a, r, d
        self.count += m

    def sample(self, batch):
        i = torch.randint(0, min(self.count, self.size), (batch,), generator=self.gen)
        return self.obs[i], self.action[i], self.reward[i], self.next_obs[i], self.done[i]
