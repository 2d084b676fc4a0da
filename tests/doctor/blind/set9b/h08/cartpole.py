import torch


class BatchedCartPole:
    def __init__(self, n, seed=0):
        self.gen = torch.Generator().manual_seed(seed)
        self.state = self.fresh(n)
        self.age = torch.zeros(n, dtype=torch.long)

    def fresh(self, n):
        return torch.rand(n, 4, generator=self.gen) * 0.1 - 0.05

    def step(self, action):
        x, v, th, w = self.state.unbind(1)
        force = torch.where(action == 1, 10.0, -10.0)
        cos, sin = th.cos(), th.sin()
        tmp = (force + 0.05 * w ** 2 * sin) / 1.1
        acc_th = (9.8 * sin - cos * tmp) / (0.5 * (4 / 3 - 0.1 * cos ** 2 / 1.1))
        acc_x = tmp - 0.05 * acc_th * cos / 1.1
        dt = 0.02
        self.state = torch.stack([x + dt * v, v + dt * acc_x, th + dt * w, w + dt * acc_th], 1)
        self.age += 1
        end = (self.state[:, 0].abs() > 2.4) | (self.state[:, 2].abs() > 0.21) | (self.age >= 200)
        lengths = self.age[end].tolist()
        if end.any():
            self.state[end] = self.fresh(int(end.sum()))
            self.age[end] = 0
        return self.state.clone(), end, lengths
