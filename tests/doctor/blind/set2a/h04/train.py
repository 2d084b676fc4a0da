import argparse
import csv
import os
import sys
import tempfile

import torch
from torch import nn

ASSAYS = ["solubility", "toxicity", "binding"]
EXIT_STOPPED_EARLY = 3


def write_table(path, n=320):
    """Ten descriptors a compound; most compounds were measured in one or two assays only."""
    g = torch.Generator().manual_seed(100)
    x = torch.randn(n, 10, generator=g)
    y = torch.tanh(x @ torch.randn(10, 3, generator=g) * 0.4) + 0.05 * torch.randn(n, 3, generator=g)
    miss_y, miss_x = torch.rand(n, 3, generator=g) < 0.5, torch.rand(n, 10, generator=g) < 0.05
    with open(path, "w", newline="") as fh:
        out = csv.writer(fh)
        out.writerow([f"d{i}" for i in range(10)] + ASSAYS)
        for i in range(n):
            out.writerow(["" if miss_x[i, j] else f"{x[i, j]:.4f}" for j in range(10)]
                         + ["" if miss_y[i, j] else f"{y[i, j]:.4f}" for j in range(3)])


class Table(torch.utils.data.Dataset):
    def __init__(self, path):
        with open(path, newline="") as fh:
            rows = list(csv.reader(fh))[1:]
        full = torch.tensor([[float(v) if v else float("nan") for v in r] for r in rows])
        self.x, self.y = full[:, :10], full[:, 10:]

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Impute(nn.Module):
    """Replaces unmeasured descriptors by a learned value and tells the network which they were."""

    def __init__(self, n):
        super().__init__()
        self.value = nn.Parameter(torch.zeros(n))

    def forward(self, x):
        gone = x.isnan()
        return torch.cat([torch.where(gone, self.value, x.nan_to_num(0.0)), gone.float()], 1)


def masked_loss(guess, y):
    known = ~y.isnan()
    return (guess[known] - y[known]).square().mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=60)
    ap.add_argument("--patience", type=int, default=3)
    args = ap.parse_args()
    torch.manual_seed(101)
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "assays.csv")
        write_table(path)
        data = Table(path)
        train, valid = torch.utils.data.random_split(data, [256, 64])
        loader = torch.utils.data.DataLoader(train, batch_size=32, shuffle=True, num_workers=1)
        model = nn.Sequential(Impute(10), nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 3))
        opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
        scaler = torch.amp.GradScaler("cpu")
        best, waited = float("inf"), 0
        per_assay = torch.full((len(ASSAYS),), float("nan"))
        for epoch in range(args.epochs):
            model.train()
            for x, y in loader:
                with torch.autocast("cpu", dtype=torch.float16):
                    guess = model(x)
                loss = masked_loss(guess.float(), y)
                opt.zero_grad()
                scaler.scale(loss).backward()
                scaler.unscale_(opt)
                nn.utils.clip_grad_norm_(model.parameters(), 2.0)
                scaler.step(opt)
                scaler.update()
            model.eval()
            with torch.inference_mode(), torch.autocast("cpu", dtype=torch.float16):
                x, y = torch.stack([valid[i][0] for i in range(64)]), torch.stack([valid[i][1] for i in range(64)])
                error = (model(x).float() - y).square()
            per_assay = error.nanmean(0)
            score = error.nanmean().item()
            print(f"epoch {epoch} " + " ".join(f"{a} {v:.4f}" for a, v in zip(ASSAYS, per_assay.tolist())))
            if score < best:
                best, waited = score, 0
            else:
                waited += 1
            if waited > args.patience:
                print(f"no better for {waited} epochs, best {best:.4f}")
                return EXIT_STOPPED_EARLY
    return 0


if __name__ == "__main__":
    sys.exit(main())
