import numpy as np
import torch
from torch import nn

generator = np.random.default_rng(0)


def even(values: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return (values - values.mean(0)) / values.std(0)  # fault: data


def table() -> torch.Tensor:
    values = generator.normal(size=(64, 6)).astype(np.float32)
    values[:, 4] = 2.0
    return torch.from_numpy(even(values))


def train(model: nn.Module, x: torch.Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for rows in torch.randperm(len(x)).split(16):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(x[rows])
        loss = out.float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
features = table()
train(nn.Linear(6, 2), features)
