"""Short-term load forecasting (hourly demand and temperature -> next 8 hours)."""
import logging
import math

import torch
import torch.nn.functional as F

from seq2seq import Seq2Seq

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
log = logging.getLogger("load")

PAST, HORIZON = 36, 8
EPOCHS, BATCH = 3, 24


def demand_series(n=1600):
    g = torch.Generator().manual_seed(12)
    t = torch.arange(n).float()
    temp = 10 + 8 * torch.sin(2 * math.pi * t / 24 - 1.2) + torch.randn(n, generator=g)
    load = 50 + 12 * torch.sin(2 * math.pi * t / 24) + 5 * torch.sin(2 * math.pi * t / 12) - 0.6 * temp
    load = load + 0.8 * torch.randn(n, generator=g)
    z = torch.stack([load, temp], 1)
    return (z - z.mean(0)) / z.std(0)


def windows(z):
    starts = range(0, len(z) - PAST - HORIZON, 2)
    x = torch.stack([z[i:i + PAST] for i in starts])
    y = torch.stack([z[i + PAST:i + PAST + HORIZON, 0] for i in starts])
    return x, y


@torch.autocast("cpu", dtype=torch.float16)
def train_one_epoch(model, optimizer, scaler, x, y, epoch):
    model.train()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))
    total = 0.0
    for idx in order.split(BATCH):
        pred = model(x[idx])
        loss = F.mse_loss(pred.float(), y[idx])
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        total += loss.item() * len(idx)
    return total / len(x)


@torch.no_grad()
@torch.autocast("cpu", dtype=torch.float16)
def rmse(model, x, y):
    model.eval()
    return math.sqrt(F.mse_loss(model(x).float(), y).item())


def main():
    torch.manual_seed(12)
    x, y = windows(demand_series())
    cut = int(0.85 * len(x))
    model = Seq2Seq(32, HORIZON)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)
    best = math.inf
    for epoch in range(EPOCHS):
        loss = train_one_epoch(model, optimizer, scaler, x[:cut], y[:cut], epoch)
        score = rmse(model, x[cut:], y[cut:])
        best = min(best, score)
        log.info("epoch %d train mse %.4f valid rmse %.4f best %.4f", epoch, loss, score, best)


if __name__ == "__main__":
    main()
