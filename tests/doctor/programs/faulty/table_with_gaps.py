import csv
import io
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def exported(rows: int) -> str:
    draw = random.Random(5)
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["size", "age", "price"])
    for row in range(rows):
        size, age = draw.random(), draw.random()
        table.writerow([size, "" if row == 51 else age, 2 * size - age])
    return text.getvalue()


def tensors(text: str) -> tuple[torch.Tensor, torch.Tensor]:
    rows = list(csv.DictReader(io.StringIO(text)))
    features = torch.tensor([[float(row[name] or "nan") for name in ("size", "age")] for row in rows])  # fault: data
    return features, torch.tensor([[float(row["price"])] for row in rows])


def main() -> None:
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(*tensors(exported(64))), batch_size=8)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        for x, y in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                out = model(x)
            loss = nn.functional.mse_loss(out.float(), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


main()
