import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

DEFAULTS = {"steps": 80, "batch": 64, "peak_lr": 3.0, "momentum": 0.9, "emb_lr": 1e-3, "seed": 0}


def config():
    p = argparse.ArgumentParser()
    for k, v in DEFAULTS.items():
        p.add_argument("--" + k.replace("_", "-"), type=type(v), default=v)
    p.add_argument("--precision", default="fp16", choices=["fp16", "fp32"])
    return p.parse_args()


class Material(nn.Module):
    """Predicts a stress-strain curve from an alloy id and process parameters."""

    def __init__(self, n_alloys, d=16, width=64, n_out=20):
        super().__init__()
        self.alloy = nn.Embedding(n_alloys, d)
        self.body = nn.Sequential(
            nn.Linear(d + 6, width), nn.LeakyReLU(0.1),
            nn.Linear(width, width), nn.LeakyReLU(0.1),
            nn.Linear(width, n_out))

    def forward(self, idx, proc):
        return self.body(torch.cat([self.alloy(idx), proc], -1))


class MixedOptimizer:
    """AdamW for the table, SGD with momentum for the dense part."""

    def __init__(self, model, cfg):
        self.parts = {
            "table": torch.optim.AdamW(model.alloy.parameters(), lr=cfg.emb_lr),
            "dense": torch.optim.SGD(model.body.parameters(), lr=1.0, momentum=cfg.momentum, nesterov=True),
        }
        warm = cfg.steps // 2

        def shape(i):
            f = i / warm if i < warm else 0.5 * (1 + math.cos(math.pi * (i - warm) / (cfg.steps - warm)))
            return cfg.peak_lr * max(f, 1e-3)

        self.sched = torch.optim.lr_scheduler.LambdaLR(self.parts["dense"], shape)

    def zero_grad(self):
        for o in self.parts.values():
            o.zero_grad()

    def step(self, scaler):
        for o in self.parts.values():
            scaler.step(o)
        scaler.update()
        self.sched.step()

    @property
    def lr(self):
        return self.sched.get_last_lr()[0]


def sample(gen, truth, n):
    idx = torch.randint(0, 30, (n,), generator=gen)
    proc = torch.randn(n, 6, generator=gen)
    e = torch.linspace(0, 1, 20)
    k, m, y = truth[idx].unbind(-1)
    stiff = k + proc[:, 0] * 0.5
    curve = stiff[:, None] * torch.tanh(3 * e / (0.2 + m[:, None].abs())) + y[:, None] * e + 0.3 * proc[:, 1:2]
    return idx, proc, curve


def main():
    cfg = config()
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed + 1)
    truth = torch.randn(30, 3, generator=gen)
    model = Material(30)
    opts = MixedOptimizer(model, cfg)
    half = cfg.precision == "fp16"
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=half)
    for step in range(cfg.steps):
        idx, proc, curve = sample(gen, truth, cfg.batch)
        opts.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16, enabled=half):
            pred = model(idx, proc)
            loss = F.mse_loss(pred, curve)
        scaler.scale(loss).backward()
        opts.step(scaler)
        if step % 4 == 0:
            print(f"step {step:3d} lr {opts.lr:.3f} mse {loss.item():.5g} scale {scaler.get_scale():g}")
    assert math.isfinite(loss.item()), "training diverged"


if __name__ == "__main__":
    main()
