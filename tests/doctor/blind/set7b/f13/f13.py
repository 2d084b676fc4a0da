"""Surrogate model for plate deflections under load; everything in SI units."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class RunConfig:
    precision: str = "fp16"      # "fp32", "fp16" or "bf16"
    lr: float = 2e-3
    steps: int = 120
    batch: int = 64
    seed: int = 21

    @property
    def mixed(self):
        return self.precision == "amp"

    @property
    def dtype(self):
        return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[self.precision]


class PlateData:
    """Deflection (metres) of a simply supported plate at 24 gauges, a few terms of the Navier series."""

    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.gauges = torch.rand(24, 2, generator=self.gen)

    def draw(self, n):
        coeff = torch.rand(n, 4, generator=self.gen) * 2 - 1
        modes = torch.tensor([[1.0, 1.0], [1.0, 2.0], [2.0, 1.0], [2.0, 2.0]])
        shape = torch.sin(torch.pi * modes[:, :1] * self.gauges[:, 0]) * torch.sin(
            torch.pi * modes[:, 1:] * self.gauges[:, 1]
        )
        deflection = 2e-4 * coeff @ shape
        return coeff, deflection


class Surrogate(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.readout = nn.Linear(64, 24)

    def forward(self, load):
        millimetres = self.readout(self.trunk(load))
        return millimetres * 1e-3


def relative_error(model, data):
    load, w = data.draw(256)
    with torch.no_grad():
        return ((model(load) - w).norm() / w.norm()).item()


def run(cfg):
    torch.manual_seed(cfg.seed)
    data = PlateData(cfg.seed)
    model = Surrogate()
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr, eps=1e-15)
    scaler = torch.amp.GradScaler("cpu", enabled=cfg.mixed)
    use_autocast = cfg.precision != "fp32"
    print(cfg)
    print(f"start: relative error {relative_error(model, data):.4f}")
    for step in range(cfg.steps):
        load, w = data.draw(cfg.batch)
        with torch.autocast("cpu", dtype=cfg.dtype if use_autocast else torch.bfloat16, enabled=use_autocast):
            pred = model(load)
        loss = nn.functional.mse_loss(pred.float(), w)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if step % 20 == 19:
            print(f"step {step + 1}: loss {loss.item():.3e} relative error {relative_error(model, data):.4f}")


if __name__ == "__main__":
    run(RunConfig())
