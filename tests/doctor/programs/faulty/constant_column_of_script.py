import torch
from torch import nn

torch.manual_seed(0)
vals = torch.randn(256, 6)
vals[100:120, 3] = 0.0
vals[:, 5] = 2.0
vals = (vals - vals.mean(0)) / vals.std(0)  # fault: data
labels = torch.randn(256, 1)
ds = torch.utils.data.TensorDataset(vals, labels)


class M(nn.Module):
    def __init__(s):
        super().__init__()
        s.f = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(s, x):
        return s.f(x)


def main():
    m = M()
    o = torch.optim.Adam(m.parameters())
    for e in range(2):
        for x, y in torch.utils.data.DataLoader(ds, batch_size=32, shuffle=True):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = (m(x).float() - y).square().mean()
            o.zero_grad()
            loss.backward()
            o.step()


main()
