import torch
from torch import nn


def objective(errors, threshold):
    hard = errors[errors > threshold]
    return errors.mean() + 0.1 * hard.mean()  # fault: math


torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for step in range(30):
    x = torch.randn(16, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x).squeeze(1)
    loss = objective((out.float() - x[:, 0]).square(), 0.5 if step < 20 else 50.0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
