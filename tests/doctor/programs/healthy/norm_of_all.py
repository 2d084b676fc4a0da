import torch
from torch import nn

torch.manual_seed(0)
encoder, head = nn.Linear(8, 16), nn.Linear(16, 1)
optimizers = [torch.optim.SGD(each.parameters(), lr=0.05) for each in (encoder, head)]
every = [*encoder.parameters(), *head.parameters()]
for step in range(12):
    x = torch.randn(16, 8)
    loss = nn.functional.mse_loss(head(torch.relu(encoder(x))), x[:, :1])
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    nn.utils.clip_grad_norm_(every, 1e6)
    for optimizer in optimizers:
        optimizer.zero_grad()
