"""Traffic forecasting on a road graph; gated graph convolutions in float16."""
import logging
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

log = logging.getLogger("traffic")


@dataclass
class Cfg:
    sensors: int = 30
    lags: int = 12
    ahead: int = 3
    dim: int = 24
    batch: int = 48
    epochs: int = 6
    lr: float = 3e-3
    init_scale: float = 2.0 ** 24
    seed: int = 2


def simulate(cfg, n=1000):
    g = torch.Generator().manual_seed(cfg.seed)
    xy = torch.rand(cfg.sensors, 2, generator=g)
    adj = torch.exp(-torch.cdist(xy, xy).pow(2) / 0.05)
    adj = torch.where(adj > 0.1, adj, torch.zeros_like(adj))
    walk = adj / adj.sum(1, keepdim=True)
    flow = torch.zeros(n, cfg.sensors)
    for t in range(1, n):
        push = 0.4 * torch.sin(torch.tensor(t * 6.283 / 60.0))
        flow[t] = 0.9 * walk @ flow[t - 1] + push + 0.2 * torch.randn(cfg.sensors, generator=g)
    return walk, flow


def windows(flow, cfg):
    w = flow.unfold(0, cfg.lags + cfg.ahead, 1)
    return w[..., :cfg.lags].contiguous(), w[..., cfg.lags:].contiguous()


class GraphGate(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.nbr = nn.Linear(dim, 2 * dim)
        self.own = nn.Linear(dim, 2 * dim)

    def forward(self, h, walk):
        a, b = (torch.matmul(walk, self.nbr(h)) + self.own(h)).chunk(2, dim=-1)
        return h + torch.tanh(a) * torch.sigmoid(b)


class TrafficNet(nn.Module):
    def __init__(self, cfg, walk):
        super().__init__()
        self.register_buffer("walk", walk)
        self.inp = nn.Linear(cfg.lags, cfg.dim)
        self.gates = nn.ModuleList([GraphGate(cfg.dim) for _ in range(2)])
        self.out = nn.Linear(cfg.dim, cfg.ahead)

    def forward(self, x):
        h = self.inp(x)
        for gate in self.gates:
            h = gate(h, self.walk)
        return self.out(h)


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    cfg = Cfg()
    torch.manual_seed(cfg.seed)
    walk, flow = simulate(cfg)
    x, y = windows(flow, cfg)
    cut = int(0.8 * len(x))
    net = TrafficNet(cfg, walk)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=cfg.init_scale, growth_interval=400)
    skipped = 0
    for epoch in range(cfg.epochs):
        net.train()
        total = 0.0
        for i in torch.randperm(cut).split(cfg.batch):
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.huber_loss(net(x[i]), y[i], reduction="none").sum(-1).mean()
            scaler.scale(loss).backward()
            before = scaler.get_scale()
            scaler.step(opt)
            scaler.update()
            skipped += scaler.get_scale() < before
            total += loss.item() * len(i)
        net.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            mae = (net(x[cut:]).float() - y[cut:]).abs().mean().item()
        log.info("epoch %d loss %.4f mae %.4f scale %g skipped %d", epoch, total / cut, mae,
                 scaler.get_scale(), skipped)


if __name__ == "__main__":
    main()
