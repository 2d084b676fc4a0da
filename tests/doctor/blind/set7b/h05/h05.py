"""Segment blobs in small tiles; per-class IoU is reported each epoch."""
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F

NAMES = ["background", "disk", "bar", "cross"]


def render(n, gen, rare):
    img = 0.2 * torch.randn(n, 1, 24, 24, generator=gen)
    lab = torch.zeros(n, 24, 24, dtype=torch.long)
    yy, xx = torch.meshgrid(torch.arange(24), torch.arange(24), indexing="ij")
    for i in range(n):
        kind = 1 + int(torch.randint(0, 3 if rare else 2, (1,), generator=gen))
        cy, cx = (6 + torch.randint(0, 12, (2,), generator=gen)).tolist()
        if kind == 1:
            m = (yy - cy) ** 2 + (xx - cx) ** 2 < 20
        elif kind == 2:
            m = ((yy - cy).abs() < 2) & ((xx - cx).abs() < 7)
        else:
            m = ((yy - cy).abs() < 1) & ((xx - cx).abs() < 5) | ((xx - cx).abs() < 1) & ((yy - cy).abs() < 5)
        lab[i][m] = kind
        img[i, 0][m] += 1.0 + 0.3 * kind
    return img, lab


class TinySeg(nn.Module):
    def __init__(self, c=12, classes=4):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, c, 3, padding=1), nn.GroupNorm(3, c), nn.ReLU())
        self.mid = nn.Sequential(nn.Conv2d(c, c, 3, padding=2, dilation=2), nn.GroupNorm(3, c), nn.ReLU())
        self.head = nn.Conv2d(2 * c, classes, 1)

    def forward(self, x):
        a = self.down(x)
        return self.head(torch.cat([a, self.mid(a)], 1))


@torch.no_grad()
def class_iou(net, img, lab):
    net.eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        guess = net(img).argmax(1)
    inter = torch.stack([((guess == c) & (lab == c)).sum() for c in range(4)]).float()
    union = torch.stack([((guess == c) | (lab == c)).sum() for c in range(4)]).float()
    iou = inter / union
    return iou, torch.nanmean(iou)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    args = ap.parse_args()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    train, val = render(96, gen, rare=False), render(24, gen, rare=False)
    net = TinySeg()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
    weight = torch.tensor([0.2, 1.0, 1.0, 1.0])
    best = float("-inf")
    for ep in range(args.epochs):
        net.train()
        for b in torch.randperm(96).split(16):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                out = net(train[0][b])
                loss = F.cross_entropy(out, train[1][b], weight=weight)
            opt.zero_grad()
            loss.backward()
            opt.step()
        iou, mean = class_iou(net, *val)
        best = max(best, mean.item())
        print(f"epoch {ep} loss {loss.item():.3f} " + " ".join(f"{n}={v:.2f}" for n, v in zip(NAMES, iou.tolist())))
    print("best mean IoU", round(best, 3))


main()
