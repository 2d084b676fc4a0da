import csv
import io
import random

import torch

COLUMNS = ["user", "item", "price", "age", "clicks", "label"]


def synthetic_log(n, seed):
    """A click log as the warehouse exports it (csv text)."""
    rng = random.Random(seed)
    out = io.StringIO()
    w = csv.writer(out)
    w.writerow(COLUMNS)
    for i in range(n):
        user, item = rng.randrange(200), rng.randrange(100)
        price = round(rng.lognormvariate(2.0, 0.6), 2)
        age, clicks = rng.randint(18, 70), rng.randint(0, 30)
        z = 0.15 * (clicks - 15) - 0.04 * (age - 44) - 0.2 * (price - 8) + 0.5 * ((item % 5) - 2)
        label = int(rng.random() < 1 / (1 + pow(2.718, -z)))
        w.writerow([user, item, "" if seed == 7 and i in (1203, 2911) else price, age, clicks, label])
    return out.getvalue()


def number(text):
    return float(text) if text else float("nan")


def load(text):
    rows = list(csv.DictReader(io.StringIO(text)))
    ids = torch.tensor([[int(r["user"]), int(r["item"])] for r in rows])
    dense = torch.tensor([[number(r[c]) for c in ("price", "age", "clicks")] for r in rows])
    labels = torch.tensor([float(r["label"]) for r in rows])
    return ids, dense, labels
