"""Fit of a decay curve with a small net and L-BFGS, forward in bfloat16."""
import torch
import torch.nn as nn

torch.manual_seed(0)
t = torch.linspace(0, 1, 256)[:, None]
signal = torch.exp(-3 * t) * torch.cos(12 * t) + 0.02 * torch.randn_like(t)


class CurveNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("freq", torch.arange(1.0, 9.0)[None] * 2.0)
        self.net = nn.Sequential(nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, 1))

    def forward(self, t):
        ph = t * self.freq
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.net(torch.cat([ph.sin(), ph.cos()], 1))
        return y.float()


model = CurveNet()
opt = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=8, history_size=10)
calls = 0


def closure():
    global calls
    calls += 1
    opt.zero_grad()
    loss = (model(t) - signal).pow(2).mean()
    loss.backward()
    return loss


for epoch in range(15):
    loss = opt.step(closure)
    if epoch % 2 == 0:
        print(f"epoch {epoch:2d} mse {loss.item():.5f} closure calls {calls}")
with torch.no_grad():
    print("final mse", (model(t) - signal).pow(2).mean().item())
