"""Residual MLP with RMS normalisation on raw sensor counts (12-bit ADC values)."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def adc_dataset(n, classes=5, channels=24, seed=0):
    g = torch.Generator().manual_seed(seed)
    proto = torch.randint(200, 3800, (classes, channels), generator=torch.Generator().manual_seed(99)).float()
    y = torch.randint(0, classes, (n,), generator=g)
    x = (proto[y] + 150 * torch.randn(n, channels, generator=g)).clamp(0, 4095).round()
    return TensorDataset(x, y)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        ms = x.pow(2).mean(-1, keepdim=True)
        return x * torch.rsqrt(ms + self.eps) * self.weight


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = RMSNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, channels=24, dim=48, depth=3, classes=5):
        super().__init__()
        self.stem = nn.Linear(channels, dim)
        self.blocks = nn.Sequential(*[Block(dim) for _ in range(depth)])
        self.norm = RMSNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.stem(x))))


def train_epoch(model, loader, opt, scaler):
    model.train()
    total, seen = 0.0, 0
    for x, y in loader:
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        total += loss.item() * len(y)
        seen += len(y)
    return total / seen


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    hit = n = 0
    for x, y in loader:
        with torch.autocast("cpu", dtype=torch.float16):
            hit += (model(x).argmax(1) == y).sum().item()
        n += len(y)
    return hit / n


if __name__ == "__main__":
    torch.manual_seed(0)
    train = DataLoader(adc_dataset(512), batch_size=32, shuffle=True)
    test = DataLoader(adc_dataset(128, seed=1), batch_size=64)
    net = Net()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    for ep in range(8):
        print(f"epoch {ep} loss {train_epoch(net, train, opt, scaler):.4f} acc {evaluate(net, test):.3f}")
