import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Scaled:
    def __init__(self, seed):
        self.random = torch.Generator().manual_seed(seed)

    def collate(self, items):
        x, y = (torch.stack(each) for each in zip(*items))
        kept = torch.rand(x.shape[1], generator=self.random) < 0.5
        x = x * kept
        x = x / x.norm(dim=0)  # fault: data
        return x, y


torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 5), torch.randn(64))
loader = DataLoader(data, batch_size=8, collate_fn=Scaled(1).collate)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in loader:
    loss = nn.functional.mse_loss(model(x).squeeze(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
