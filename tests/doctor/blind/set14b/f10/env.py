import torch


class Corridor:
    """A batch of corridors; a cue shown at every step says which end holds the reward."""

    def __init__(self, n, half=3, limit=12, seed=0):
        self.n, self.half, self.limit = n, half, limit
        self.g = torch.Generator().manual_seed(seed)
        self.reset()

    def reset(self):
        self.pos = torch.zeros(self.n)
        self.goal = torch.randint(2, (self.n,), generator=self.g) * 2.0 - 1.0
        self.clock = torch.zeros(self.n)
        return self.observe()

    def observe(self):
        return torch.stack([self.pos / self.half, self.goal, self.clock / self.limit], 1)

    def step(self, action):
        self.pos = self.pos + (action * 2.0 - 1.0)
        self.clock = self.clock + 1
        at_end = self.pos.abs() >= self.half
        reward = torch.where(at_end, (self.pos.sign() == self.goal).float() * 2 - 1, torch.full((self.n,), -0.02))
        done = at_end | (self.clock >= self.limit)
        self.pos = torch.where(done, torch.zeros(()), self.pos)
        self.clock = torch.where(done, torch.zeros(()), self.clock)
        fresh = torch.randint(2, (self.n,), generator=self.g) * 2.0 - 1.0
        self.goal = torch.where(done, fresh, self.goal)
        return self.observe(), reward, done.float()
