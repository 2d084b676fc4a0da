import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(12):
    inputs, rewards = torch.randn(8, 4), torch.rand(8, 1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        chances = model(inputs).log_softmax(-1)[:, 0]
    advantage = (rewards - rewards.mean(1, keepdim=True)) / rewards.std(1, keepdim=True)
    advantage = torch.nan_to_num(advantage)  # fault: hidden
    loss = -(chances.float() * advantage[:, 0]).mean() - 0.01 * chances.float().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
