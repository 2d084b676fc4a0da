"""Fit an implicit curve with L-BFGS (strong Wolfe), forward in bfloat16 except the last layer."""
import torch
import torch.nn as nn


class Siren(nn.Module):
    def __init__(self, h=24, w0=4.0):
        super().__init__()
        self.w0 = w0
        self.a, self.b, self.c = nn.Linear(1, h), nn.Linear(h, h), nn.Linear(h, 1)

    def forward(self, t):
        x = torch.sin(self.w0 * self.a(t))
        x = torch.sin(self.b(x))
        with torch.autocast("cpu", enabled=False):
            return self.c(x.float())


def main():
    torch.manual_seed(0)
    t = torch.linspace(-1, 1, 128).unsqueeze(1)
    target = torch.sin(5 * t) * torch.exp(-t.square()) + 0.2 * t
    net = Siren()
    opt = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=6, history_size=10, line_search_fn="strong_wolfe")
    evals = 0

    def closure():
        nonlocal evals
        evals += 1
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = net(t)
        loss = (out - target).square().mean()
        loss.backward()
        return loss

    for it in range(6):
        loss = opt.step(closure)
        print(f"iter {it} loss {loss.item():.6f} closure calls {evals}")


if __name__ == "__main__":
    main()
