import torch
from torch import nn


class Walk:
    def __init__(self):
        self.generator = torch.Generator().manual_seed(3)
        self.at = torch.zeros(16, 4)

    def step(self, move):
        self.at = 0.5 * self.at + move + torch.randn(16, 4, generator=self.generator)
        return self.at


def play(walk, policy, steps):
    kept = []
    for _ in range(steps):
        chances = torch.softmax(policy(walk.at) * 12, dim=-1)
        entropy = -(chances * torch.log(chances)).sum(-1)  # fault: underflow AMP501
        walk.step(torch.nn.functional.one_hot(chances.argmax(-1), 4).float())
        kept.append(entropy)
    return torch.stack(kept)


torch.manual_seed(0)
walk, policy = Walk(), nn.Linear(4, 4)
optimizer = torch.optim.SGD(policy.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for _ in range(12):
    with torch.autocast("cpu", dtype=torch.float16):
        entropies = play(walk, policy, 3)
    loss = entropies.float().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
