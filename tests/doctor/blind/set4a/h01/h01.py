"""Small image classifier with a very high first loss scale; the scaler finds its level in the first steps."""
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F


def textures(n, g):
    y = torch.randint(3, (n,), generator=g)
    x = torch.randn(n, 1, 16, 16, generator=g)
    blur_h = F.avg_pool2d(x, (1, 5), 1, (0, 2)) * 2.2
    blur_v = F.avg_pool2d(x, (5, 1), 1, (2, 0)) * 2.2
    pick = y[:, None, None, None]
    return torch.where(pick == 0, x, torch.where(pick == 1, blur_h, blur_v)), y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 16, 3, padding=1)
        self.c2 = nn.Conv2d(16, 16, 3, stride=2, padding=1)
        self.bn = nn.BatchNorm2d(16)
        self.fc = nn.Linear(16, 3)

    def forward(self, x):
        x = F.relu(self.c1(x))
        x = F.relu(self.bn(self.c2(x)))
        return self.fc(x.mean((2, 3)))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=80)
    ap.add_argument("--init-scale", type=float, default=2.0**24)
    args = ap.parse_args()
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(0)
    model = Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)
    scaler = torch.amp.GradScaler("cpu", init_scale=args.init_scale, growth_interval=25)
    skipped = 0
    for step in range(args.steps):
        x, y = textures(32, g)
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        old = scaler.get_scale()
        scaler.step(opt)
        scaler.update()
        if scaler.get_scale() < old:
            skipped += 1
        else:
            sched.step()
        if step % 10 == 0 or step == args.steps - 1:
            print(f"step {step} loss {loss.item():.4f} scale {scaler.get_scale():g} skipped {skipped}")


if __name__ == "__main__":
    main()
