"""Vitals forecasting from records with gaps: blanks arrive as NaN, as in the export."""
import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Records(Dataset):
    def __init__(self, n, hours, seed, blank=0.25):
        g = torch.Generator().manual_seed(seed)
        t = torch.arange(hours + 1).float()
        base = torch.randn(n, 3, 1, generator=g)
        wave = torch.sin(0.4 * t + 6 * torch.rand(n, 3, 1, generator=g))
        full = base + wave + 0.05 * torch.randn(n, 3, hours + 1, generator=g)
        hole = torch.rand(full.shape, generator=g) < blank
        seen = full.masked_fill(hole, float("nan"))
        self.x, self.y = seen[:, :, :hours], seen[:, :, hours]

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def fill_forward(x):
    """Last observed value; zero before the first one. Returns values and indicator."""
    known = ~x.isnan()
    pos = torch.where(known, torch.arange(x.size(-1)), torch.tensor(-1)).cummax(-1).values
    value = torch.nan_to_num(x, nan=0.0).gather(-1, pos.clamp(min=0))
    return torch.where(pos >= 0, value, torch.zeros(())), known.float()


class Forecast(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.rnn = nn.LSTM(6, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 6)

    def forward(self, x):
        value, known = fill_forward(x)
        seq = torch.cat([value, known], 1).transpose(1, 2)
        _, (h, _) = self.rnn(seq)
        mean, logvar = self.out(h[-1]).float().chunk(2, 1)
        return mean + value[:, :, -1], logvar.clamp(-6, 4)


def masked_nll(mean, logvar, target):
    have = ~target.isnan()
    gap = torch.where(have, target, mean.detach()) - mean
    term = 0.5 * (logvar + gap.pow(2) * torch.exp(-logvar))
    return term[have].mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--hours", type=int, default=24)
    ap.add_argument("--hidden", type=int, default=32)
    ap.add_argument("--lr", type=float, default=5e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    train = Records(512, args.hours, 1)
    valid = Records(128, args.hours, 2)
    print(f"{train.x.isnan().float().mean():.2%} of the inputs are blank")
    loader = DataLoader(train, 32, shuffle=True)
    model = Forecast(args.hidden)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=1)
    best = float("inf")
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, y in loader:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                mean, logvar = model(x)
                loss = masked_nll(mean, logvar, y)
            if not torch.isfinite(loss):
                print("skipping a batch")
                continue
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            mean, logvar = model(valid.x)
            nll = masked_nll(mean, logvar, valid.y).item()
            mae = torch.nanmean((mean - valid.y).abs()).item()
        sched.step(nll)
        best = min(best, nll)
        print(f"epoch {epoch} train {total / len(loader):.4f} valid {nll:.4f} mae {mae:.4f} best {best:.4f}")


if __name__ == "__main__":
    main()
