"""Image inpainting: the hole grows every epoch (curriculum)."""
import dataclasses

import torch
import torch.nn as nn
import torch.nn.functional as F

from layers import ConvBlock


@dataclasses.dataclass
class Config:
    epochs: int = 6
    steps: int = 12
    batch: int = 8
    size: int = 16
    width: int = 12
    lr: float = 2e-3
    lambda_hole: float = 6.0
    lambda_valid: float = 1.0


class Inpainter(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.stem = ConvBlock(3, w)
        self.enc = ConvBlock(w, 2 * w, stride=2)
        self.mid = ConvBlock(2 * w, 2 * w)
        self.up = nn.ConvTranspose2d(2 * w, w, 2, stride=2)
        self.out = nn.Conv2d(2 * w, 3, 3, padding=1)

    def forward(self, img):
        s = self.stem(img)
        h = self.mid(self.enc(s))
        return self.out(torch.cat([self.up(h), s], dim=1))


def make_images(cfg, g):
    """Smooth colour fields in [0.2, 1]."""
    coarse = torch.rand(cfg.batch, 3, 4, 4, generator=g)
    return 0.2 + 0.8 * F.interpolate(coarse, size=(cfg.size, cfg.size), mode="bicubic").clamp(0, 1)


def punch_holes(img, side, g):
    mask = torch.ones(img.size(0), 1, *img.shape[2:])
    for k in range(img.size(0)):
        y, x = torch.randint(1, img.size(2) - side - 1, (2,), generator=g).tolist()
        mask[k, :, y:y + side, x:x + side] = 0
    return img * mask, mask


def main():
    cfg = Config()
    torch.manual_seed(3)
    g = torch.Generator().manual_seed(11)
    net = Inpainter(cfg.width)
    optimizer = torch.optim.Adam(net.parameters(), lr=cfg.lr, betas=(0.5, 0.9))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
    for epoch in range(cfg.epochs):
        side = 1 + epoch
        history = []
        for _ in range(cfg.steps):
            img = make_images(cfg, g)
            corrupted, mask = punch_holes(img, side, g)
            optimizer.zero_grad()
            with torch.autocast(device_type="cpu", dtype=torch.float16):
                pred = net(corrupted)
                hole = F.l1_loss(pred * (1 - mask), img * (1 - mask))
                valid = F.l1_loss(pred * mask, img * mask)
                loss = cfg.lambda_hole * hole + cfg.lambda_valid * valid
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            history.append(loss.item())
        print(f"epoch {epoch} hole {side}x{side} first {history[0]:.4f} last {history[-1]:.4f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
