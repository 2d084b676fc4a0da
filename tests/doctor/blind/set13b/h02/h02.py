import torch
import torch.nn as nn
import torch.nn.functional as F

# Ratings from user/item one-hot pairs; micro-batches of 16, four of them make one update.
torch.manual_seed(40)
USERS, ITEMS, ACCUM = 40, 50, 4
taste, kind = torch.randn(USERS, 3), torch.randn(ITEMS, 3)


def ratings(n):
    u, i = torch.randint(0, USERS, (n,)), torch.randint(0, ITEMS, (n,))
    return u, i, (taste[u] * kind[i]).sum(1) + 0.05 * torch.randn(n)


class NCF(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.u, self.i = nn.Embedding(USERS, d), nn.Embedding(ITEMS, d)
        self.net = nn.Sequential(nn.Linear(3 * d, 64), nn.SiLU(), nn.Linear(64, 1))

    def forward(self, u, i):
        a, b = self.u(u), self.i(i)
        return self.net(torch.cat([a, b, a * b], dim=1)).squeeze(1)


net = NCF()
opt = torch.optim.Adam(net.parameters(), lr=6e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 24, growth_interval=50)
skipped = 0
for k in range(1, 1001):
    u, i, y = ratings(16)
    with torch.autocast("cpu", dtype=torch.float16):
        out = net(u, i)
        loss = F.mse_loss(out.float(), y) / ACCUM
    scaler.scale(loss).backward()
    if k % ACCUM:
        continue
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(net.parameters(), 2.0)
    before = scaler.get_scale()
    scaler.step(opt)
    scaler.update()
    skipped += scaler.get_scale() < before
    opt.zero_grad(set_to_none=True)
    if k % 200 == 0:
        with torch.no_grad():
            u, i, y = ratings(512)
            mse = F.mse_loss(net(u, i), y).item()
        print(f"micro {k} mse {mse:.4f} of {y.var().item():.3f}, scale 2^{torch.tensor(before).log2().item():.0f}, skipped {skipped}")
