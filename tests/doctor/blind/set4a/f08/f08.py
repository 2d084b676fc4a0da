"""Price model on a listing export. The export is written first so that the example runs on its own."""
import csv
import random
import tempfile
from pathlib import Path

import torch
from torch.utils.data import DataLoader

from f08.listings import Listings
from f08.model import PriceNet


def write_export(path, rows=600):
    rng = random.Random(12)
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["area", "rooms", "floor", "year", "distance", "price"])
        for i in range(rows):
            area = rng.uniform(20, 160)
            rooms = max(1, round(area / 28 + rng.gauss(0, 0.5)))
            floor = rng.randrange(0, 12)
            year = rng.randrange(1905, 2024)
            dist = rng.expovariate(0.25)
            price = 1500 * area + 9000 * rooms + 400 * (year - 1900) - 3500 * dist + rng.gauss(0, 4000)
            price = max(price, 15000)
            if i in (433, 518):
                price = 0
            w.writerow([f"{area:.1f}", rooms, floor, year, f"{dist:.2f}", f"{price:.0f}"])


def main():
    torch.manual_seed(4)
    folder = Path(tempfile.mkdtemp())
    write_export(folder / "export.csv")
    data = Listings(folder / "export.csv")
    loader = DataLoader(data, batch_size=20, shuffle=False)
    model = PriceNet(data.features.shape[1])
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    for epoch in range(5):
        total = 0.0
        for x, y in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                pred = model(x)
                loss = torch.nn.functional.mse_loss(pred, y)
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            total += loss.item()
        print(f"epoch {epoch}: {total / len(loader):.4f}")


if __name__ == "__main__":
    main()
