"""Reading of river gauge files and windows over them."""
import csv
import math
import random
from pathlib import Path

import torch
from torch.utils.data import Dataset

COLUMNS = ("level", "rain", "temp")


def write_station(path, days, rng, outage=None):
    level = 2.0
    with open(path, "w", newline="") as fh:
        out = csv.writer(fh)
        out.writerow(("day",) + COLUMNS)
        for day in range(days):
            rain = max(0.0, rng.gauss(1.0, 2.5))
            temp = 10 + 8 * math.sin(2 * math.pi * day / 365) + rng.gauss(0, 1.5)
            level = max(0.3, 0.92 * level + 0.12 * rain + rng.gauss(0, 0.03))
            row = [day, f"{level:.3f}", f"{rain:.1f}", f"{temp:.1f}"]
            if outage and day in outage:
                row[3] = "NaN"
            out.writerow(row)


def write_archive(folder, stations=6, days=90, seed=0):
    rng = random.Random(seed)
    folder = Path(folder)
    for s in range(stations):
        outage = range(40, 44) if s == 4 else None
        write_station(folder / f"gauge_{s:02d}.csv", days, rng, outage)
    return sorted(folder.glob("gauge_*.csv"))


class GaugeWindows(Dataset):
    def __init__(self, files, length=14):
        self.length = length
        self.series, self.index = [], []
        for k, f in enumerate(files):
            with open(f, newline="") as fh:
                rows = [[float(r[c]) for c in COLUMNS] for r in csv.DictReader(fh)]
            table = torch.tensor(rows)
            table[:, 1] = torch.log1p(table[:, 1])
            table[:, 2] = (table[:, 2] - 10.0) / 8.0
            self.series.append(table)
            self.index += [(k, i) for i in range(len(rows) - length)]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        k, at = self.index[i]
        window = self.series[k][at:at + self.length]
        return window, self.series[k][at + self.length, 0]
