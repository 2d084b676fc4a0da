"""Shape segmentation with a two-level U-Net, float16 autocast and dice + BCE."""
import torch
import torch.nn as nn
import torch.nn.functional as F

CFG = dict(size=24, batch=8, steps=40, lr=3e-3, width=8, loss_scale=2.0 ** 22)


def shapes(n, size, gen):
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    c = torch.randint(6, size - 6, (n, 2), generator=gen)
    r = torch.randint(3, 6, (n,), generator=gen)
    d2 = (yy - c[:, 0, None, None]) ** 2 + (xx - c[:, 1, None, None]) ** 2
    mask = (d2 <= r[:, None, None] ** 2).float()[:, None]
    img = mask * 0.8 + 0.3 * torch.randn(n, 1, size, size, generator=gen)
    return img, mask


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.ReLU(),
                         nn.Conv2d(o, o, 3, padding=1), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.d1, self.d2 = block(1, w), block(w, 2 * w)
        self.up = nn.ConvTranspose2d(2 * w, w, 2, stride=2)
        self.u1 = block(2 * w, w)
        self.out = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        return self.out(self.u1(torch.cat([a, self.up(b)], 1)))


def dice(logits, mask):
    p = logits.sigmoid()
    inter = (p * mask).sum((1, 2, 3))
    return 1 - ((2 * inter + 1) / (p.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + 1)).mean()


def iou(logits, mask):
    p = logits > 0
    m = mask > 0.5
    return ((p & m).sum() / (p | m).sum().clamp(min=1)).item()


def main(cfg):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(7)
    model = UNet(cfg["width"])
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    scaler = torch.amp.GradScaler("cpu", init_scale=cfg["loss_scale"])
    start = [p.detach().clone() for p in model.parameters()]
    for step in range(cfg["steps"]):
        img, mask = shapes(cfg["batch"], cfg["size"], gen)
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(img)
        logits = logits.float()
        loss = F.binary_cross_entropy_with_logits(logits, mask, reduction="mean") + dice(logits, mask)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update(cfg["loss_scale"])
        if step % 8 == 0 or step == cfg["steps"] - 1:
            moved = sum((a - b).abs().sum().item() for a, b in zip(start, model.parameters()))
            print(f"{step:3d} loss {loss.item():.4f} iou {iou(logits, mask):.3f} moved {moved:.4f}")


if __name__ == "__main__":
    main(CFG)
