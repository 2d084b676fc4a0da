import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def quotes(seed):
    generator = torch.Generator().manual_seed(seed)
    price = 100 * torch.exp(0.01 * torch.randn(24, 60, generator=generator).cumsum(1))
    price[17, 30] = 0.0
    return price


def windows(price):
    change = torch.log(price[:, 1:] / price[:, :-1])  # fault: data
    pieces = [change[:, start : start + 10] for start in range(0, 40, 5)]
    return torch.cat(pieces), torch.cat([each.abs().mean(1, keepdim=True) for each in pieces])


def main():
    torch.manual_seed(0)
    x, y = windows(quotes(0))
    order = torch.randperm(len(x))
    x, y = x[order], y[order]
    loader = DataLoader(TensorDataset(x[:160], y[:160]), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(10, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for _ in range(2):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = nn.functional.l1_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
            print(loss.item())


main()
