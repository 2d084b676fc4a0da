"""A YOLO-like one-anchor grid detector on synthetic boxes."""
import argparse
import logging

import torch
import torch.nn as nn
import torch.nn.functional as F

from engine import Engine, log


class GridDetector(nn.Module):
    """4x4 grid; per cell: objectness, box (cx, cy, w, h), class logits."""

    def __init__(self, n_cls=3, w=12):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, w, 3, padding=1), nn.GroupNorm(3, w), nn.SiLU(),
            nn.Conv2d(w, 2 * w, 3, stride=2, padding=1), nn.GroupNorm(3, 2 * w), nn.SiLU(),
            nn.Conv2d(2 * w, 2 * w, 3, stride=2, padding=1), nn.GroupNorm(3, 2 * w), nn.SiLU(),
        )
        self.pred = nn.Conv2d(2 * w, 5 + n_cls, 1)

    def forward(self, x):
        return self.pred(self.backbone(x)).permute(0, 2, 3, 1)


class DetectionLoss(nn.Module):
    def __init__(self, w_box=5.0, w_obj=1.0, w_cls=1.0):
        super().__init__()
        self.w_box, self.w_obj, self.w_cls = w_box, w_obj, w_cls

    def forward(self, out, t):
        obj = F.binary_cross_entropy_with_logits(out[..., 0], t["obj"])
        pos = t["obj"] > 0
        box = F.smooth_l1_loss(out[..., 1:5][pos].sigmoid(), t["box"][pos])
        cls = F.cross_entropy(out[..., 5:][pos], t["cls"][pos])
        return {"obj": self.w_obj * obj, "box": self.w_box * box, "cls": self.w_cls * cls}


def make_batch(n, g, size=16, grid=4):
    img = 0.1 * torch.randn(n, 1, size, size, generator=g)
    obj, box = torch.zeros(n, grid, grid), torch.zeros(n, grid, grid, 4)
    cls = torch.zeros(n, grid, grid, dtype=torch.long)
    for i in range(n):
        side = int(torch.randint(3, 7, (1,), generator=g))
        y, x = torch.randint(0, size - side, (2,), generator=g).tolist()
        k = int(torch.randint(0, 3, (1,), generator=g))
        img[i, 0, y:y + side, x:x + side] += 0.5 + 0.5 * k
        cy, cx = (y + side / 2) / size * grid, (x + side / 2) / size * grid
        gy, gx = int(cy), int(cx)
        obj[i, gy, gx] = 1
        box[i, gy, gx] = torch.tensor([cx - gx, cy - gy, side / size, side / size])
        cls[i, gy, gx] = k
    return img, {"obj": obj, "box": box, "cls": cls}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=160)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(0)
    model = GridDetector()
    engine = Engine(model, DetectionLoss(), torch.optim.SGD(model.parameters(), lr=args.lr * 10, momentum=0.9))
    window = []
    for it in range(1, args.iters + 1):
        stats = engine.step(*make_batch(args.batch, g))
        window.append(stats["loss"])
        if it % 16 == 0:
            log.info("it %d loss %.4f norm %.3g cleaned %d scale %g", it, sum(window) / len(window), stats["norm"], stats["cleaned"], stats["scale"])
            window.clear()


if __name__ == "__main__":
    main()
