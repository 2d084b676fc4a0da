import torch


class Corridor:
    """Many copies of a point on a line which has to be kept near the middle."""

    obs_dim, n_actions = 3, 3

    def __init__(self, copies, gen):
        self.n, self.gen = copies, gen
        self.reset()

    def reset(self):
        self.x = 2 * torch.rand(self.n, generator=self.gen) - 1
        self.v = torch.zeros(self.n)
        self.wind = 0.1 * torch.randn(self.n, generator=self.gen)
        return self.obs()

    def obs(self):
        return torch.stack([self.x, self.v, self.wind], -1)

    def step(self, action):
        push = (action.float() - 1) * 0.25
        self.v = 0.8 * self.v + push + self.wind
        self.x = (self.x + 0.2 * self.v).clamp(-2, 2)
        reward = 1.0 - self.x.abs()
        return self.obs(), reward
