import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu")
for step in range(12):
    x = torch.randn(8, 4).requires_grad_()
    with torch.autocast("cpu", dtype=torch.float16):
        score = critic(x)
    total = score.sum()
    scaled = torch.autograd.grad(scaler.scale(total), x, create_graph=True)[0]  # fault: protocol AMP303
    gradient = scaled * (1.0 / scaler.get_scale())
    loss = score.float().mean() + 10 * ((gradient.square().sum(1) + 1e-12).sqrt() - 1).square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
