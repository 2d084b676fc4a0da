import argparse

import torch
import torch.nn as nn

from sensors import Scaler, sensor_data


class Net(nn.Module):
    def __init__(self, c, t, horizon, d=96):
        super().__init__()
        self.horizon = horizon
        self.inp = nn.Linear(2 * c * t, d)
        self.mid = nn.Linear(d, d)
        self.out = nn.Linear(d, c * horizon)
        self.drop = nn.Dropout(0.05)

    def forward(self, x):
        seen = ~torch.isnan(x)
        x = torch.cat([torch.nan_to_num(x, nan=0.0), seen.float()], 1)
        h = torch.relu(self.inp(x.flatten(1)))
        h = h + torch.relu(self.mid(self.drop(h)))
        return self.out(h).view(x.size(0), -1, self.horizon)


def masked_huber(pred, target, delta=1.0):
    ok = torch.isfinite(target)
    if not ok.any():
        return pred.sum() * 0.0
    return nn.functional.huber_loss(pred[ok].float(), target[ok], delta=delta)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dtype", default="bf16", choices=["bf16", "fp16"])
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--accum", type=int, default=2)
    args = ap.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x, y = sensor_data()
    scale = Scaler().fit(x)
    x, y = scale(x), scale(y)
    print(f"missing: input {torch.isnan(x).float().mean():.2f}, target {torch.isnan(y).float().mean():.2f}")
    train_x, train_y, val_x, val_y = x[:500], y[:500], x[500:], y[500:]

    model = Net(x.size(1), x.size(2), y.size(2))
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[args.dtype]
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, total_steps=args.epochs * 8)
    scaler = torch.amp.GradScaler("cpu", enabled=dtype == torch.float16)
    nan_batches = 0
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for i, idx in enumerate(torch.randperm(496).split(31)):
            with torch.autocast("cpu", dtype=dtype):
                loss = masked_huber(model(train_x[idx]), train_y[idx]) / args.accum
            if torch.isnan(loss):
                nan_batches += 1
                continue
            scaler.scale(loss).backward()
            total += loss.item()
            if i % args.accum == args.accum - 1:
                scaler.step(opt)
                scaler.update()
                sched.step()
                opt.zero_grad()
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=dtype):
            val = masked_huber(model(val_x), val_y)
        print(f"epoch {epoch:2d} train {total / 8:.4f} val {val.item():.4f} nan batches {nan_batches}")


if __name__ == "__main__":
    main()
