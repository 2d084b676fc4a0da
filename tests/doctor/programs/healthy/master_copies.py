import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)).bfloat16()
weights = list(model.parameters())
masters = [each.detach().float().clone().requires_grad_(True) for each in weights]
optimizer = torch.optim.SGD(masters, lr=0.1)
for step in range(12):
    x = torch.randn(16, 8)
    loss = nn.functional.mse_loss(model(x.bfloat16()).float(), 3 * x[:, :1])
    loss.backward()
    for master, weight in zip(masters, weights):
        master.grad = weight.grad.float()
        weight.grad = None
    nn.utils.clip_grad_norm_(masters, 0.1)
    optimizer.step()
    with torch.no_grad():
        for master, weight in zip(masters, weights):
            weight.copy_(master)
