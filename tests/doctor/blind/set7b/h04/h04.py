"""Calibrate a lens distortion field with LBFGS; the small correction network runs in bfloat16."""
import torch
from torch import nn

torch.manual_seed(6)
pts = torch.rand(200, 2) * 2 - 1
true_k = torch.tensor([0.18, -0.05])


def distort(p, k):
    r2 = (p * p).sum(1, keepdim=True)
    return p * (1 + k[0] * r2 + k[1] * r2 * r2)


seen = distort(pts, true_k) + 0.03 * torch.sin(3 * pts) + 1e-3 * torch.randn(200, 2)


class Calibration(nn.Module):
    def __init__(self):
        super().__init__()
        self.k = nn.Parameter(torch.zeros(2))
        self.corr = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 2))
        nn.init.zeros_(self.corr[2].weight)
        nn.init.zeros_(self.corr[2].bias)

    def forward(self, p):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            c = self.corr(p)
        return distort(p, self.k) + c.float()


model = Calibration()
opt = torch.optim.LBFGS(model.parameters(), lr=0.7, max_iter=8, history_size=10, line_search_fn="strong_wolfe")
evals = 0


def closure():
    global evals
    evals += 1
    opt.zero_grad()
    resid = (model(pts) - seen) * 100
    loss = torch.nn.functional.huber_loss(resid, torch.zeros_like(resid))
    loss.backward()
    return loss


for outer in range(6):
    loss = opt.step(closure)
    print(f"outer {outer} loss {loss.item():.4f} k {[round(v, 4) for v in model.k.tolist()]} evaluations {evals}")
