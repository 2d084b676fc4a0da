import csv
import math
import random
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset

COLUMNS = ["temperature", "vibration", "current", "pressure"]


def export_csv(root: Path, files: int, rows: int, seed: int):
    """What the plant's historian exports: one file a machine-day."""
    rnd = random.Random(seed)
    for k in range(files):
        faulty = rnd.random() < 0.5
        phase = rnd.random() * 6.28
        with open(root / f"run_{k:04d}_{int(faulty)}.csv", "w", newline="") as fh:
            w = csv.writer(fh)
            w.writerow(COLUMNS)
            for i in range(rows):
                vib = math.sin(i * (0.9 if faulty else 0.4) + phase) + rnd.gauss(0, 0.3)
                row = [60 + 5 * math.sin(i / 20) + rnd.gauss(0, 1), vib, 12 + rnd.gauss(0, 0.5), 3.2 + rnd.gauss(0, 0.05)]
                cells = [f"{v:.4f}" for v in row]
                if k == 201 and 40 <= i < 44:
                    cells[3] = ""
                w.writerow(cells)


class MachineRuns(Dataset):
    def __init__(self, root: Path):
        self.files = sorted(root.glob("run_*.csv"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        path = self.files[i]
        arr = np.genfromtxt(path, delimiter=",", skip_header=1, dtype=np.float32)
        x = torch.from_numpy(arr).t().contiguous()
        x = (x - x.mean(dim=1, keepdim=True)) / x.std(dim=1, keepdim=True)
        return x, int(path.stem[-1])
