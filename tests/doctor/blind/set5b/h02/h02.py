"""Physics-informed fit of a damped oscillator: AdamW in bfloat16 first, then
LBFGS polishing in full precision."""
import contextlib
import math

import torch
import torch.nn as nn

OMEGA, DAMP = 6.0, 0.4


def exact(t):
    w = math.sqrt(OMEGA ** 2 - DAMP ** 2)
    return torch.exp(-DAMP * t) * (torch.cos(w * t) + DAMP / w * torch.sin(w * t))


class Field(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.a = nn.Linear(1, width)
        self.b = nn.Linear(width, width)
        self.c = nn.Linear(width, 1)

    def forward(self, t):
        h = torch.sin(4 * self.a(t))
        return self.c(torch.tanh(self.b(h)))


def objective(field, t, t_obs, y_obs, amp):
    ctx = torch.autocast("cpu", dtype=torch.bfloat16) if amp else contextlib.nullcontext()
    with ctx:
        data = nn.functional.mse_loss(field(t_obs).float(), y_obs)
    if amp:
        return data, torch.zeros(())
    t = t.requires_grad_(True)
    y = field(t)
    dy, = torch.autograd.grad(y.sum(), t, create_graph=True)
    ddy, = torch.autograd.grad(dy.sum(), t, create_graph=True)
    residual = ddy + 2 * DAMP * dy + OMEGA ** 2 * y
    return data, residual.pow(2).mean()


def main():
    torch.manual_seed(0)
    field = Field()
    t_obs = torch.linspace(0, 1.0, 24)[:, None]
    y_obs = exact(t_obs)
    t = torch.linspace(0, 1.4, 60)[:, None]

    adam = torch.optim.AdamW(field.parameters(), lr=5e-3)
    for step in range(150):
        data, _ = objective(field, t, t_obs, y_obs, amp=True)
        adam.zero_grad()
        data.backward()
        adam.step()
        if step % 50 == 0:
            print(f"adam {step:4d} data {data.item():.2e}")

    lbfgs = torch.optim.LBFGS(field.parameters(), lr=1.0, max_iter=12, history_size=20,
                              line_search_fn="strong_wolfe")
    calls = 0
    last = {}

    def closure():
        nonlocal calls
        calls += 1
        lbfgs.zero_grad()
        data, physics = objective(field, t.detach(), t_obs, y_obs, amp=False)
        loss = data + 1e-4 * physics
        loss.backward()
        last.update(data=data.item(), physics=physics.item())
        return loss

    for outer in range(6):
        loss = lbfgs.step(closure)
        print(f"lbfgs {outer} loss {loss.item():.2e} after {calls} evaluations, physics {last['physics']:.2e}")
    with torch.no_grad():
        err = (field(t) - exact(t)).abs().max()
    print(f"largest error {err:.4f}")


if __name__ == "__main__":
    main()
