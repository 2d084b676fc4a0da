from dataclasses import dataclass

import torch

from problem import FourierMLP, exact, observations


@dataclass
class Plan:
    adam_steps: int = 150
    adam_lr: float = 5e-3
    lbfgs_rounds: int = 12
    points: int = 512
    amp: bool = True


class Solver:
    def __init__(self, plan, seed=0):
        self.plan = plan
        g = torch.Generator().manual_seed(seed)
        self.model = FourierMLP()
        self.x, self.t, self.u = observations(plan.points, g)
        self.scaler = torch.amp.GradScaler("cpu", enabled=plan.amp, init_scale=2.0 ** 10)

    def loss(self):
        with torch.autocast("cpu", dtype=torch.float16, enabled=self.plan.amp):
            pred = self.model(self.x, self.t)
        return (pred.float() - self.u).square().mean()

    @torch.no_grad()
    def error(self, n=50):
        x, t = torch.meshgrid(torch.linspace(0, 1, n), torch.linspace(0, 2, n), indexing="ij")
        x, t = x.reshape(-1, 1), t.reshape(-1, 1)
        ref = exact(x, t)
        return ((self.model(x, t) - ref).norm() / ref.norm()).item()

    def coarse(self):
        opt = torch.optim.Adam(self.model.parameters(), lr=self.plan.adam_lr)
        for step in range(self.plan.adam_steps):
            loss = self.loss()
            opt.zero_grad()
            self.scaler.scale(loss).backward()
            self.scaler.step(opt)
            self.scaler.update()
            if step % 50 == 0:
                print(f"adam  {step:4d}  loss {loss.item():.3e}  rel. error {self.error():.3e}")

    def refine(self):
        opt = torch.optim.LBFGS(self.model.parameters(), lr=1.0, max_iter=10,
                                history_size=20, line_search_fn="strong_wolfe")

        def closure():
            opt.zero_grad()
            loss = self.loss()
            self.scaler.scale(loss).backward()
            return loss

        for r in range(self.plan.lbfgs_rounds):
            loss = self.scaler.step(opt, closure=closure)
            self.scaler.update()
            print(f"lbfgs {r:4d}  loss {loss.item():.3e}  rel. error {self.error():.3e}")


if __name__ == "__main__":
    torch.manual_seed(0)
    solver = Solver(Plan())
    solver.coarse()
    solver.refine()
    print(f"final relative error {solver.error():.3e}")
