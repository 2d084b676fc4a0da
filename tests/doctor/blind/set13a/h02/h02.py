"""ResNet with gradient accumulation, clipping and a generous initial loss scale."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Res(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.f = nn.Sequential(nn.Conv2d(c, c, 3, 1, 1), nn.GroupNorm(2, c), nn.ReLU(), nn.Conv2d(c, c, 3, 1, 1), nn.GroupNorm(2, c))

    def forward(self, x):
        return F.relu(x + self.f(x))


def build(c=8, classes=4):
    return nn.Sequential(nn.Conv2d(1, c, 4, 4), nn.ReLU(), Res(c), Res(c), nn.Flatten(), nn.Linear(c * 16, classes))


def stripes(n=256):
    g = torch.Generator().manual_seed(4)
    y = torch.randint(0, 4, (n,), generator=g)
    t = torch.linspace(0, 6.28, 16)
    base = torch.stack([
        torch.sin(2 * t)[None].expand(16, 16), torch.sin(2 * t)[:, None].expand(16, 16),
        torch.sin(t[:, None] + t[None]), torch.cos(2 * (t[:, None] - t[None]))])
    return (base[y] + 0.5 * torch.randn(n, 16, 16, generator=g))[:, None], y


class Trainer:
    def __init__(self, model, accumulate=2, max_norm=0.5, lr=0.05):
        self.model, self.accumulate, self.max_norm = model, accumulate, max_norm
        self.opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, nesterov=True)
        self.sched = torch.optim.lr_scheduler.OneCycleLR(self.opt, max_lr=2 * lr, total_steps=40)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 20)
        self.skipped = 0

    def micro(self, x, y):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(self.model(x), y) / self.accumulate
        self.scaler.scale(loss).backward()
        return loss.item()

    def step(self, chunks):
        total = sum(self.micro(x, y) for x, y in chunks)
        self.scaler.unscale_(self.opt)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        before = self.scaler.get_scale()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.opt.zero_grad(set_to_none=True)
        if self.scaler.get_scale() < before:
            self.skipped += 1
        else:
            self.sched.step()
        return total


if __name__ == "__main__":
    torch.manual_seed(0)
    x, y = stripes()
    tr = Trainer(build())
    for s in range(40):
        parts = [torch.randint(0, len(x), (16,)) for _ in range(tr.accumulate)]
        loss = tr.step([(x[p], y[p]) for p in parts])
        if s % 8 == 0 or s == 39:
            print(f"step {s} loss {loss:.4f} skipped {tr.skipped} scale {tr.scaler.get_scale():g}")
    with torch.no_grad():
        print("accuracy", (tr.model(x).argmax(1) == y).float().mean().item())
