"""Each group of samples gets advantages before the policy is updated a few times with them."""

import torch
from torch import nn


def advantages(rewards: torch.Tensor) -> torch.Tensor:
    centered = rewards - rewards.mean(1, keepdim=True)
    return centered / rewards.std(1, keepdim=True)  # fault: math


def objective(logits: torch.Tensor, actions: torch.Tensor, old: torch.Tensor, advantage: torch.Tensor) -> torch.Tensor:
    ratio = (logits.float().log_softmax(-1).gather(-1, actions) - old).exp()
    return -(ratio * advantage.unsqueeze(-1)).mean()


torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
for step in range(8):
    states = torch.randn(5, 3, 6)
    with torch.no_grad():
        old_logits = policy(states).log_softmax(-1)
    actions = torch.randint(4, (5, 3, 1))
    old = old_logits.gather(-1, actions)
    rewards = torch.arange(15.0).view(5, 3) if step < 5 else torch.ones(5, 3)
    weights = advantages(rewards)
    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = policy(states)
        loss = objective(logits, actions, old, weights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(step, loss.item())
