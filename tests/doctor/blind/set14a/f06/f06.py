import torch
import torch.nn.functional as F

from vqvae import VQVAE

torch.manual_seed(5)
STEPS, BATCH, BETA = 160, 32, 0.25


def textures(n):
    yy, xx = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    a = torch.rand(n, 1, 1) * 3.14
    f = torch.rand(n, 1, 1) * 0.6 + 0.3
    return torch.sin(f * (torch.cos(a) * xx + torch.sin(a) * yy))[:, None]


model = VQVAE()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(STEPS):
    x = textures(BATCH)
    rec, commit, ids = model(x)
    rec_loss = F.mse_loss(rec, x)
    loss = rec_loss + BETA * commit
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0 or step == STEPS - 1:
        used = ids.unique().numel()
        print(f"{step:4d} rec {rec_loss.item():.4f} commit {commit.item():.4f} codes used {used}")

model.eval()
with torch.no_grad():
    x = textures(128)
    rec, _, ids = model(x)
    print("eval mse %.4f, codes used %d" % (F.mse_loss(rec, x).item(), ids.unique().numel()))
