"""Semantic segmentation of road-like scenes; images are cached in half precision."""
import contextlib
import logging

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("seg")

CFG = {"device_type": "cuda", "amp": True, "amp_dtype": "float16", "classes": 3,
       "batch": 8, "epochs": 3, "lr": 3e-3, "seed": 41}


class RoadScenes(Dataset):
    def __init__(self, n, size=32, seed=0):
        g = torch.Generator().manual_seed(seed)
        yy, xx = torch.meshgrid(torch.arange(float(size)), torch.arange(float(size)), indexing="ij")
        self.images, self.masks = [], []
        for _ in range(n):
            horizon = 8 + 8 * torch.rand(1, generator=g)
            centre = size * (0.3 + 0.4 * torch.rand(1, generator=g))
            mask = (yy > horizon).long()
            mask[(yy > horizon) & ((xx - centre).abs() < (yy - horizon) * 0.4)] = 2
            palette = torch.tensor([[0.5, 0.7, 0.9], [0.2, 0.6, 0.2], [0.4, 0.4, 0.4]])
            img = palette[mask].permute(2, 0, 1) + 0.1 * torch.randn(3, size, size, generator=g)
            self.images.append(img.half())
            self.masks.append(mask)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.masks[i]


class SmallUNet(nn.Module):
    def __init__(self, classes, ch=12):
        super().__init__()
        conv = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())
        self.enc1, self.enc2 = conv(3, ch), conv(ch, ch * 2)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.dec = conv(ch * 3, ch)
        self.out = nn.Conv2d(ch, classes, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(self.pool(a))
        return self.out(self.dec(torch.cat([a, self.up(b)], 1)))


class Precision:
    def __init__(self, cfg):
        self.enabled = cfg["amp"]
        self.kind = cfg["device_type"]
        self.dtype = getattr(torch, cfg["amp_dtype"])
        self.scaler = torch.amp.GradScaler("cpu", enabled=self.enabled)

    def region(self):
        if not self.enabled:
            return contextlib.nullcontext()
        return torch.autocast(self.kind, dtype=self.dtype)

    def update(self, loss, opt):
        opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.step(opt)
        self.scaler.update()


def mean_iou(logits, mask, classes):
    pred = logits.argmax(1)
    ious = []
    for c in range(classes):
        inter = ((pred == c) & (mask == c)).sum()
        union = ((pred == c) | (mask == c)).sum()
        ious.append((inter / union.clamp(min=1)).item())
    return sum(ious) / classes


def main():
    torch.manual_seed(CFG["seed"])
    train = DataLoader(RoadScenes(96, seed=1), CFG["batch"], shuffle=True)
    valid = DataLoader(RoadScenes(24, seed=2), CFG["batch"])
    net, prec = SmallUNet(CFG["classes"]), Precision(CFG)
    opt = torch.optim.Adam(net.parameters(), CFG["lr"])
    for epoch in range(CFG["epochs"]):
        net.train()
        total = 0.0
        for img, mask in train:
            with prec.region():
                logits = net(img)
                loss = nn.functional.cross_entropy(logits.float(), mask)
            prec.update(loss, opt)
            total += loss.item()
        net.eval()
        with torch.no_grad(), prec.region():
            iou = sum(mean_iou(net(i), m, CFG["classes"]) for i, m in valid) / len(valid)
        log.info("epoch %d loss %.4f mIoU %.3f", epoch, total / len(train), iou)


if __name__ == "__main__":
    main()
