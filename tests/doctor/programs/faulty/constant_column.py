import numpy as np, torch
from torch import nn


class Weather(torch.utils.data.Dataset):
    def __init__(self, n):
        rng = np.random.default_rng(0)
        raw = rng.normal(size=(n, 5)).astype(np.float32)
        raw[:, 2] = 1.0
        self.y = torch.from_numpy(rng.normal(size=(n, 1)).astype(np.float32))
        self.x = (raw - raw.mean(0)) / raw.std(0)  # fault: data

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), self.y[i]


def main():
    m = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
    o = torch.optim.Adam(m.parameters())
    loader = torch.utils.data.DataLoader(Weather(200), batch_size=32, shuffle=True)
    for e in range(2):
        for x, y in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                pred = m(x)
            loss = (pred.float() - y).square().mean()
            o.zero_grad()
            loss.backward()
            o.step()


main()
