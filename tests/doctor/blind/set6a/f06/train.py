import torch
import torch.nn as nn
import torch.nn.functional as F

from data import PKSampler
from losses import BatchHardTriplet


class Embedder(nn.Module):
    def __init__(self, dim=32, out=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, out))

    def forward(self, x):
        return F.normalize(self.net(x).float(), dim=1)


def main(steps=60):
    torch.manual_seed(1)
    sampler, model = PKSampler(), Embedder()
    criterion = BatchHardTriplet()
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        x, y = sampler()
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = model(x)
            loss = criterion(z, y)
        loss.backward()
        opt.step()
        if step % 5 == 0:
            print(f"{step:3d} triplet {loss.item():.4f} |w| {model.net[0].weight.norm().item():.3f}")


if __name__ == "__main__":
    main()
