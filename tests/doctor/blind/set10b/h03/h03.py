"""Tabular classifier in float16, then temperature calibration with LBFGS."""
import logging

import torch
import torch.nn.functional as F
from torch import nn

log = logging.getLogger("calibrate")
CONFIG = {"rows": 3000, "cols": 16, "classes": 5, "width": 96, "epochs": 12, "batch": 100,
          "lr": 2e-3, "seed": 18}


def make_table(c):
    g = torch.Generator().manual_seed(c["seed"])
    y = torch.randint(0, c["classes"], (c["rows"],), generator=g)
    centre = torch.randn(c["classes"], c["cols"], generator=g) * 0.7
    x = centre[y] + torch.randn(c["rows"], c["cols"], generator=g)
    flip = torch.rand(c["rows"], generator=g) < 0.1
    y = torch.where(flip, torch.randint(0, c["classes"], (c["rows"],), generator=g), y)
    return x, y


def network(c):
    return nn.Sequential(
        nn.Linear(c["cols"], c["width"]), nn.ReLU(),
        nn.Linear(c["width"], c["width"]), nn.ReLU(),
        nn.Linear(c["width"], c["classes"]),
    )


def fit(net, x, y, c):
    opt = torch.optim.Adam(net.parameters(), lr=c["lr"])
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
    for epoch in range(c["epochs"]):
        total = 0.0
        for i in torch.randperm(len(x)).split(c["batch"]):
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(net(x[i]), y[i])
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            total += loss.item() * len(i)
        log.info("epoch %2d loss %.4f", epoch, total / len(x))


def ece(logits, y, bins=10):
    conf, pred = logits.softmax(-1).max(-1)
    right = (pred == y).float()
    error = 0.0
    for b in range(bins):
        inside = (conf > b / bins) & (conf <= (b + 1) / bins)
        if inside.any():
            error += inside.float().mean() * (conf[inside].mean() - right[inside].mean()).abs()
    return float(error)


class Calibrator(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.log_t = nn.Parameter(torch.zeros(()))
        self.shift = nn.Parameter(torch.zeros(classes))

    def forward(self, logits):
        return logits / self.log_t.exp() + self.shift


def calibrate(logits, y, classes):
    cal = Calibrator(classes)
    opt = torch.optim.LBFGS(cal.parameters(), lr=0.5, max_iter=30, line_search_fn="strong_wolfe")

    def closure():
        opt.zero_grad()
        loss = F.cross_entropy(cal(logits), y)
        loss.backward()
        return loss

    for r in range(3):
        value = opt.step(closure)
        log.info("round %d nll %.4f T %.3f", r, value.item(), cal.log_t.exp().item())
    return cal


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(CONFIG["seed"])
    x, y = make_table(CONFIG)
    parts = [slice(0, 1800), slice(1800, 2400), slice(2400, 3000)]
    net = network(CONFIG)
    fit(net, x[parts[0]], y[parts[0]], CONFIG)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        held, test = net(x[parts[1]]).float(), net(x[parts[2]]).float()
    cal = calibrate(held, y[parts[1]], CONFIG["classes"])
    with torch.no_grad():
        fixed = cal(test)
    log.info("ece before %.4f after %.4f", ece(test, y[parts[2]]), ece(fixed, y[parts[2]]))


if __name__ == "__main__":
    main()
