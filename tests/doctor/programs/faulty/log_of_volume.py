import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def features(volume):
    logs = np.log(volume)  # fault: data
    return np.diff(logs, axis=0).astype(np.float32)


torch.manual_seed(0)
volume = np.random.default_rng(1).lognormal(3, 1, (120, 5)).round() + 1
volume[70, 2] = 0
with np.errstate(all="ignore"):
    x = features(volume)
loader = DataLoader(TensorDataset(torch.from_numpy(x), torch.zeros(len(x), 1)), batch_size=16)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for inputs, target in loader:
    loss = nn.functional.mse_loss(model(inputs), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
