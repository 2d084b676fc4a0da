import torch
from torch import nn
from torch.distributions import Categorical


def act(policy, state, allowed):
    logits = policy(state).float().masked_fill(~allowed, float("-inf"))
    return Categorical(logits=logits).sample()  # fault: mask


torch.manual_seed(0)
policy = nn.Linear(4, 3)
for step in range(20):
    allowed = torch.rand(5, 3) > 0.3
    if step == 12:
        allowed[2] = False
    with torch.autocast("cpu", dtype=torch.bfloat16):
        action = act(policy, torch.randn(5, 4), allowed)
