import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def changes():
    price = 50 * np.exp(np.cumsum(0.01 * np.random.default_rng(0).standard_normal((200, 3)), axis=0))
    price[70, 1] = 0.0
    with np.errstate(divide="ignore"):
        change = np.log(price[1:] / price[:-1])  # fault: data
    return torch.tensor(change, dtype=torch.float32)


class Windows(Dataset):
    def __init__(self, series, width):
        self.series, self.width = series, width

    def __len__(self):
        return len(self.series) - self.width

    def __getitem__(self, at):
        return self.series[at : at + self.width].t(), self.series[at + self.width]


torch.manual_seed(0)
series = changes()
loader = DataLoader(Windows(series[:160], 8), batch_size=16, shuffle=True)
layer, out = nn.Conv1d(3, 8, 2), nn.Linear(8, 3)
optimizer = torch.optim.Adam([*layer.parameters(), *out.parameters()], lr=1e-3)
for x, y in loader:
    loss = nn.functional.smooth_l1_loss(out(layer(nn.functional.pad(x, (1, 0))).relu()[:, :, -1]), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    loss.item()
