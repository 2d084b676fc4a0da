import torch
from torch import nn

torch.manual_seed(0)
G, D = nn.Linear(4, 8), nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
opt_g, opt_d = torch.optim.Adam(G.parameters(), 1e-3), torch.optim.Adam(D.parameters(), 1e-3)
scaler_g, scaler_d = torch.amp.GradScaler("cpu"), torch.amp.GradScaler("cpu")
bce = nn.BCEWithLogitsLoss()
best = float("inf")
for step in range(30):
    real, z = torch.randn(6, 8), torch.randn(6, 4)
    with torch.autocast("cpu", dtype=torch.float16):
        fake = G(z)
        d_loss = bce(D(real), torch.ones(6, 1)) + bce(D(fake.detach()), torch.zeros(6, 1))
    opt_d.zero_grad()
    scaler_d.scale(d_loss).backward()
    scaler_d.step(opt_d)
    scaler_d.update()
    with torch.autocast("cpu", dtype=torch.float16):
        g_loss = bce(D(fake), torch.ones(6, 1))
    opt_g.zero_grad()
    scaler_g.scale(g_loss).backward()
    scaler_g.step(opt_g)
    scaler_g.update()
    scores = torch.randn(3, 5).masked_fill(torch.eye(3, 5, dtype=torch.bool), float("-inf")).softmax(-1)
    best = min(best, d_loss.item() + scores.sum().item())
print(best)
