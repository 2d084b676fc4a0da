import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(40):
    x = torch.randn(512, 8)
    with torch.autocast("cpu", dtype=torch.float16):
        output = model(x * 1e-3)
    loss = nn.functional.mse_loss(output.float(), 1e-3 * x[:, :1])
    optimizer.zero_grad()
    loss.backward()  # fault: underflow AMP207
    optimizer.step()
