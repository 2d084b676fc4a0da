import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu")
for step in range(8):
    x = torch.randn(8, 4, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.float16):
        score = critic(x)
    (gradient,) = torch.autograd.grad(scaler.scale(score.float().sum()), x, create_graph=True)  # fault: protocol AMP414
    penalty = (gradient.norm(2, dim=1) - 1).pow(2).mean()
    loss = score.float().mean() + 10 * penalty
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
