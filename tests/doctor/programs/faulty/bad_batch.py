import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def run():
    torch.manual_seed(0)
    x, y = torch.randn(64, 5), torch.randn(64, 1)
    x[37, 2] = float("nan")  # fault: data
    model = nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs, target in DataLoader(TensorDataset(x, y), batch_size=8):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            output = model(inputs)
        loss = nn.functional.mse_loss(output.float(), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


run()
