"""Small residual CNN, float16; the loss scale starts high and settles by itself."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.na = nn.BatchNorm2d(c)
        self.b = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.nb = nn.BatchNorm2d(c)

    def forward(self, x):
        return F.relu(x + self.nb(self.b(F.relu(self.na(self.a(x))))))


class ResNetTiny(nn.Module):
    def __init__(self, c=12, classes=3):
        super().__init__()
        self.stem = nn.Conv2d(1, c, 3, padding=1)
        self.body = nn.Sequential(Block(c), nn.MaxPool2d(2), Block(c))
        self.fc = nn.Linear(c, classes)

    def forward(self, x):
        return self.fc(self.body(F.relu(self.stem(x))).mean((2, 3)))


def make_images(n, gen):
    y = torch.randint(0, 3, (n,), generator=gen)
    base = torch.zeros(n, 1, 12, 12)
    for i, k in enumerate(y.tolist()):
        if k == 0:
            base[i, 0, 3:9, 3:9] = 1
        elif k == 1:
            base[i, 0, :, 5:7] = 1
        else:
            base[i, 0].fill_diagonal_(1)
    return base + 0.3 * torch.randn(base.shape, generator=gen), y


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    net = ResNetTiny()
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=50)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**22, growth_interval=25)
    skipped = 0
    for step in range(50):
        x, y = make_images(24, gen)
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(net(x).float(), y)
        before = scaler.get_scale()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        norm = nn.utils.clip_grad_norm_(net.parameters(), 2.0)
        scaler.step(opt)
        scaler.update()
        if scaler.get_scale() < before:
            skipped += 1
        else:
            sched.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f} norm {norm.item():.3f} scale {scaler.get_scale():g} skipped {skipped}")


main()
