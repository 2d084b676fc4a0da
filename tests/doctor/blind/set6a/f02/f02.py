"""Lesion segmentation on small patches, trained with the soft Dice loss only."""
import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE, BATCH, STEPS = 96, 16, 18
torch.manual_seed(3)


def conv(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class SmallUNet(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.stem = nn.Conv2d(1, w, 8, stride=8)
        self.down = conv(w, 2 * w)
        self.up = conv(3 * w, w)
        self.head = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = F.relu(self.stem(x))
        b = self.down(F.max_pool2d(a, 2))
        b = F.interpolate(b, scale_factor=2.0)
        c = self.head(self.up(torch.cat([a, b], 1)))
        return F.interpolate(c, size=x.shape[-2:], mode="bilinear")


class SoftDice(nn.Module):
    def __init__(self, smooth=1.0):
        super().__init__()
        self.smooth = smooth

    def forward(self, logits, target):
        prob = torch.sigmoid(logits)
        target = target.to(prob.dtype)
        inter = (prob * target).sum()
        union = prob.sum() + target.sum()
        return 1 - (2 * inter + self.smooth) / (union + self.smooth)


def patches(n):
    yy, xx = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    img, lab = [], []
    for _ in range(n):
        cy, cx = torch.randint(20, SIZE - 20, (2,)).tolist()
        r = int(torch.randint(6, 18, (1,)))
        m = ((yy - cy) ** 2 + (xx - cx) ** 2 < r * r).float()
        img.append(m * 0.8 + 0.3 * torch.randn(SIZE, SIZE))
        lab.append(m)
    return torch.stack(img)[:, None], torch.stack(lab)[:, None]


model = SmallUNet()
criterion = SoftDice()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 10)

for step in range(STEPS):
    x, y = patches(BATCH)
    optimizer.zero_grad()
    with torch.autocast(device_type="cpu", dtype=torch.float16):
        logits = model(x)
        loss = criterion(logits, y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 3 == 0:
        with torch.no_grad():
            pred = (logits > 0).float()
            d = 2 * (pred * y).sum() / (pred.sum() + y.sum() + 1)
        print(f"step {step:3d}  dice loss {loss.item():.4f}  hard dice {d:.3f}")
