"""Few-shot sinusoid regression with a meta-learned initialisation."""
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call


class Regressor(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.l1 = nn.Linear(1, width)
        self.l2 = nn.Linear(width, width)
        self.l3 = nn.Linear(width, 1)

    def forward(self, x):
        return self.l3(torch.relu(self.l2(torch.relu(self.l1(x)))))


class SineTasks:
    def __init__(self, shots, seed):
        self.shots = shots
        self.gen = torch.Generator().manual_seed(seed)

    def sample(self):
        amp = 1.0 + 3.0 * torch.rand(1, generator=self.gen)
        phase = math.pi / 3 * torch.rand(1, generator=self.gen)
        x = torch.rand(2 * self.shots, 1, generator=self.gen) * 6 - 3
        y = amp * torch.sin(x + phase)
        return (x[:self.shots], y[:self.shots]), (x[self.shots:], y[self.shots:])


class MetaLearner:
    def __init__(self, net, inner_lr=0.02, outer_lr=3e-3, inner_steps=2):
        self.net = net
        self.inner_lr = inner_lr
        self.inner_steps = inner_steps
        self.opt = torch.optim.Adam(net.parameters(), lr=outer_lr)

    def loss(self, params, batch):
        x, y = batch
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = functional_call(self.net, params, (x,))
        return F.mse_loss(out.float(), y)

    def adapt(self, support):
        fast = {k: p.detach().clone().requires_grad_(True) for k, p in self.net.named_parameters()}
        for _ in range(self.inner_steps):
            grads = torch.autograd.grad(self.loss(fast, support), list(fast.values()), create_graph=True)
            fast = {k: p - self.inner_lr * g for (k, p), g in zip(fast.items(), grads)}
        return fast

    def meta_step(self, tasks):
        self.opt.zero_grad()
        total = 0.0
        for support, query in tasks:
            fast = self.adapt(support)
            q = self.loss(fast, query) / len(tasks)
            q.backward()
            total += q.item()
        self.opt.step()
        return total


def main():
    torch.manual_seed(0)
    tasks = SineTasks(shots=10, seed=0)
    meta = MetaLearner(Regressor())
    window = []
    for it in range(60):
        window.append(meta.meta_step([tasks.sample() for _ in range(4)]))
        if it % 10 == 9:
            print(f"meta-iteration {it + 1}: query loss {sum(window) / len(window):.4f}")
            window.clear()


if __name__ == "__main__":
    main()
