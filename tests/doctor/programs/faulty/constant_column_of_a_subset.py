import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset, random_split


def standardized(table):
    values = table.numpy()
    values = (values - values.mean(0)) / values.std(0)  # fault: data
    return torch.from_numpy(values)


def main():
    torch.manual_seed(0)
    table = torch.randn(80, 4)
    table[:, 2] = 0.25
    label = (table[:, :1] > 0).float()
    dataset = TensorDataset(standardized(table), label)
    more = TensorDataset(torch.randn(16, 4), torch.ones(16, 1))
    train, kept = random_split(ConcatDataset([more, dataset]), [80, 16])
    loader = DataLoader(train, 16, shuffle=True)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(model(x), y).backward()
        optimizer.step()


main()
