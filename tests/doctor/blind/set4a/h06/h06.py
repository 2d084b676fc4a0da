"""Physics-informed fit of a damped oscillator: Adam first, then LBFGS with a closure, bf16 for the data term."""
import math
import torch
import torch.nn as nn


class Field(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
        self.damping = nn.Parameter(torch.tensor(0.5))

    def forward(self, t):
        return self.net(t)


def truth(t):
    return torch.exp(-0.3 * t) * torch.cos(2 * t)


def residual(model, t):
    t = t.clone().requires_grad_(True)
    u = model(t)
    du = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
    ddu = torch.autograd.grad(du.sum(), t, create_graph=True)[0]
    omega2 = 4 + 0.09
    return ddu + 2 * model.damping * du + omega2 * u


def data_term(model, t, u):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pred = model(t)
    return (pred.float() - u).pow(2).mean()


def main():
    torch.manual_seed(0)
    model = Field()
    t_obs = torch.linspace(0, 4, 40)[:, None]
    u_obs = truth(t_obs) + 0.01 * torch.randn(40, 1)
    t_col = torch.linspace(0, 4, 60)[:, None]

    def objective():
        return data_term(model, t_obs, u_obs) + 0.01 * residual(model, t_col).pow(2).mean()

    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    for i in range(150):
        adam.zero_grad()
        loss = objective()
        loss.backward()
        adam.step()
        if i % 50 == 0:
            print(f"adam {i} {loss.item():.5f}")

    lbfgs = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=8, history_size=10)
    calls = 0

    def closure():
        nonlocal calls
        calls += 1
        lbfgs.zero_grad()
        loss = objective()
        loss.backward()
        return loss

    best = math.inf
    for i in range(10):
        loss = lbfgs.step(closure)
        best = min(best, loss.item())
        print(f"lbfgs {i} {loss.item():.5f} best {best:.5f} closures {calls}")
    print("damping", round(model.damping.item(), 3))


if __name__ == "__main__":
    main()
