import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                                    nn.Linear(width, 1))

    def forward(self, xt):
        return self.layers(xt)


def wave(n, seed):
    gen = torch.Generator().manual_seed(seed)
    xt = torch.rand(n, 2, generator=gen) * 2 - 1
    u = torch.sin(torch.pi * xt[:, :1]) * torch.cos(torch.pi * xt[:, 1:])
    return xt, u


class TwoStage:
    def __init__(self, args):
        self.args = args
        self.net = Net(args.width)
        self.x, self.u = wave(768, 0)
        self.test = wave(256, 1)

    def adam_stage(self):
        opt = torch.optim.Adam(self.net.parameters(), lr=self.args.lr)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
        loader = DataLoader(TensorDataset(self.x, self.u), 64, shuffle=True)
        for epoch in range(self.args.adam_epochs):
            total = 0.0
            for x, u in loader:
                opt.zero_grad()
                with torch.autocast("cpu", dtype=torch.float16):
                    loss = nn.functional.mse_loss(self.net(x), u)
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
                total += loss.item()
            print(f"adam {epoch} loss {total / len(loader):.5f} test {self.evaluate():.5f}")

    def lbfgs_stage(self):
        opt = torch.optim.LBFGS(self.net.parameters(), lr=1.0, max_iter=self.args.inner, history_size=20,
                                line_search_fn="strong_wolfe")
        calls = 0

        def closure():
            nonlocal calls
            calls += 1
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16, enabled=self.args.half_lbfgs):
                loss = nn.functional.mse_loss(self.net(self.x), self.u)
            loss.backward()
            return loss

        for it in range(self.args.lbfgs_steps):
            loss = opt.step(closure)
            print(f"lbfgs {it} loss {loss.item():.6f} calls {calls} test {self.evaluate():.6f}")

    @torch.no_grad()
    def evaluate(self):
        x, u = self.test
        return nn.functional.mse_loss(self.net(x), u).item()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--adam-epochs", type=int, default=5)
    p.add_argument("--lbfgs-steps", type=int, default=5)
    p.add_argument("--inner", type=int, default=10)
    p.add_argument("--width", type=int, default=48)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--half-lbfgs", action="store_true")
    args = p.parse_args()
    torch.manual_seed(2)
    stages = TwoStage(args)
    stages.adam_stage()
    stages.lbfgs_stage()
