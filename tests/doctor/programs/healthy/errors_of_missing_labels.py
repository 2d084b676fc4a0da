import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(8):
    x = torch.randn(16, 6)
    labels = torch.randn(16, 3)
    labels[torch.rand(16, 3) < 0.3] = float("nan")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
    errors = out.float() - labels
    known = ~torch.isnan(errors)
    print(f"mean of all {errors.mean().item()}")
    loss = errors[known].square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
