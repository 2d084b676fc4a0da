import torch


class AssignEnv:
    """Assign each of `n` jobs once; reward depends on the job's weight and how late it runs."""

    def __init__(self, n=8, seed=0):
        self.n = n
        self.gen = torch.Generator().manual_seed(seed)

    def reset(self):
        self.weight = torch.rand(self.n, generator=self.gen)
        self.done_jobs = torch.zeros(self.n)
        self.t = 0
        return self.obs()

    def obs(self):
        return torch.cat([self.weight, self.done_jobs])

    def legal(self):
        return self.done_jobs == 0

    def step(self, a):
        reward = float(self.weight[a]) * (1.0 - self.t / self.n)
        self.done_jobs[a] = 1.0
        self.t += 1
        return self.obs(), reward, self.t == self.n
