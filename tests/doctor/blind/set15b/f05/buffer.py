import torch


class Replay:
    def __init__(self, size, obs_dim, n_act, seed=0):
        self.s = torch.zeros(size, obs_dim)
        self.s2 = torch.zeros(size, obs_dim)
        self.a = torch.zeros(size, dtype=torch.long)
        self.r = torch.zeros(size)
        self.d = torch.zeros(size)
        self.legal2 = torch.zeros(size, n_act, dtype=torch.bool)
        self.size, self.n = size, 0
        self.gen = torch.Generator().manual_seed(seed)

    def add(self, s, a, r, s2, d, legal2):
        i = self.n % self.size
        self.s[i], self.a[i], self.r[i] = s, a, r
        self.s2[i], self.d[i], self.legal2[i] = s2, float(d), legal2
        self.n += 1

    def sample(self, b):
        i = torch.randint(0, min(self.n, self.size), (b,), generator=self.gen)
        return self.s[i], self.a[i], self.r[i], self.s2[i], self.d[i], self.legal2[i]
