import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

generator = np.random.default_rng(0)


class Rows(Dataset):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> tuple[torch.Tensor, float]:
        row = torch.from_numpy(generator.normal(size=6).astype(np.float32))
        return row, float("nan") if index % 7 == 0 else float(row.sum())


torch.manual_seed(0)
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, label in DataLoader(Rows(), batch_size=16):
    known = ~label.isnan()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
    loss = nn.functional.mse_loss(out.float()[known, 0], label[known].float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
