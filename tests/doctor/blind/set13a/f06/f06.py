# One-stage detector, boxes regressed as l/t/r/b distances in pixels of a 640 x 640 frame.
import torch
import torch.nn as nn
import torch.nn.functional as F

FRAME = 640
STRIDE = 160


def synth(n, gen):
    imgs = torch.randn(n, 3, 32, 32, generator=gen) * 0.1
    boxes = torch.zeros(n, 4)
    for i in range(n):
        w = torch.randint(6, 20, (2,), generator=gen)
        o = (torch.rand(2, generator=gen) * (32 - w)).long()
        imgs[i, :, o[1]:o[1] + w[1], o[0]:o[0] + w[0]] += 1.0
        boxes[i] = torch.cat([o, o + w]).float() * (FRAME / 32)
    return imgs, boxes


class ConvBN(nn.Sequential):
    def __init__(self, i, o, s=1):
        super().__init__(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.SiLU())


class Detector(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.backbone = nn.Sequential(ConvBN(3, c, 2), ConvBN(c, c, 2), ConvBN(c, 2 * c, 2))
        self.cls = nn.Conv2d(2 * c, 1, 1)
        self.reg = nn.Conv2d(2 * c, 4, 1)
        centres = (torch.arange(4).float() + 0.5) * STRIDE
        cy, cx = torch.meshgrid(centres, centres, indexing="ij")
        self.register_buffer("points", torch.stack([cx, cy], -1).view(-1, 2))

    def forward(self, x):
        f = self.backbone(x)
        score = self.cls(f).flatten(1)
        dist = F.softplus(self.reg(f)).flatten(2).transpose(1, 2) * STRIDE
        boxes = torch.cat([self.points - dist[..., :2], self.points + dist[..., 2:]], -1)
        return score, boxes.to(score.dtype)


def area(b):
    return (b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1])


def giou(a, b):
    tl = torch.maximum(a[..., :2], b[..., :2])
    br = torch.minimum(a[..., 2:], b[..., 2:])
    wh = (br - tl).clamp(min=0)
    inter = wh[..., 0] * wh[..., 1]
    union = area(a) + area(b) - inter
    hull = torch.cat([torch.minimum(a[..., :2], b[..., :2]), torch.maximum(a[..., 2:], b[..., 2:])], -1)
    ch = area(hull)
    return inter / union - (ch - union) / ch


def assign(points, boxes):
    p = points[None]
    inside = (p > boxes[:, None, :2]).all(-1) & (p < boxes[:, None, 2:]).all(-1)
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2
    nearest = (p - centre[:, None]).norm(dim=-1).argmin(1)
    inside[torch.arange(len(boxes)), nearest] = True
    return inside


class Loss(nn.Module):
    def forward(self, score, pred, gt, points):
        pos = assign(points, gt)
        target = gt[:, None].expand(-1, pos.shape[1], -1)[pos].to(pred.dtype)
        reg = 1 - giou(pred[pos], target)
        cls = F.binary_cross_entropy_with_logits(score, pos.to(score.dtype))
        return cls, reg.mean()


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(2)
    imgs, gts = synth(128, gen)
    model, criterion = Detector(), Loss()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    for it in range(60):
        sel = torch.randint(0, 128, (16,), generator=gen)
        with torch.autocast("cpu", torch.float16):
            score, pred = model(imgs[sel])
            cls, reg = criterion(score, pred, gts[sel], model.points)
            loss = cls + 2.0 * reg
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if it % 10 == 0 or it == 59:
            print(f"[{it}/60] cls {cls.item():.3f} giou {reg.item():.3f} total {loss.item():.3f}")


if __name__ == "__main__":
    main()
