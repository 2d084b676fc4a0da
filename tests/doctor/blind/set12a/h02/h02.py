"""Image classification, float16 with a high initial loss scale; scheduler waits for real updates."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def textures(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 4, (n,), generator=g)
    base = torch.rand(4, 3, 10, 10, generator=torch.Generator().manual_seed(77))
    x = base[y] + 0.4 * torch.randn(n, 3, 10, 10, generator=g)
    return TensorDataset(x, y)


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(c)
        self.b = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(c)
        nn.init.zeros_(self.bn2.weight)

    def forward(self, x):
        h = F.relu(self.bn1(self.a(x)))
        return F.relu(x + self.bn2(self.b(h)))


class Trainer:
    def __init__(self, lr=0.05, total=60):
        self.model = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(),
                                   Residual(12), nn.MaxPool2d(2), Residual(12),
                                   nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(48, 4))
        self.opt = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)
        self.sched = torch.optim.lr_scheduler.OneCycleLR(self.opt, max_lr=lr, total_steps=total)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 24, growth_interval=500)
        self.done = 0

    def step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(self.model(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 2.0)
        before = self.scaler.get_scale()
        self.scaler.step(self.opt)
        self.scaler.update()
        applied = self.scaler.get_scale() >= before
        if applied:
            self.sched.step()
            self.done += 1
        return loss.item(), norm.item(), applied

    @torch.no_grad()
    def accuracy(self, loader):
        self.model.eval()
        hits = sum((self.model(x).argmax(1) == y).sum().item() for x, y in loader)
        self.model.train()
        return hits / len(loader.dataset)


def main():
    torch.manual_seed(0)
    train = DataLoader(textures(256, 0), batch_size=32, shuffle=True, drop_last=True)
    test = DataLoader(textures(128, 1), batch_size=64)
    tr = Trainer(total=60)
    for epoch in range(7):
        for x, y in train:
            loss, norm, applied = tr.step(x, y)
            if epoch == 0:
                print(f"   scale {tr.scaler.get_scale():g} norm {norm:.3f} applied {applied}")
        print(f"epoch {epoch} loss {loss:.4f} updates {tr.done} acc {tr.accuracy(test):.3f}")


if __name__ == "__main__":
    main()
