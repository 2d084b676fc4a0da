"""Multi-task scene network: segmentation with unlabeled pixels, sparse depth (nan where lidar has no return)."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from metrics import Meter, class_iou

IGNORE, CLASSES = 255, 5


class SceneNet(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(3, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(),
            nn.Conv2d(c, c, 3, padding=2, dilation=2), nn.BatchNorm2d(c), nn.ReLU())
        self.seg = nn.Conv2d(c, CLASSES, 1)
        self.depth = nn.Conv2d(c, 1, 1)
        self.aux = nn.Conv2d(c, CLASSES, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.seg(h), self.depth(h)[:, 0]


def scenes(n, gen, size=16):
    pal = torch.tensor([[0.1, 0.1, 0.1], [0.9, 0.2, 0.1], [0.1, 0.8, 0.3], [0.2, 0.3, 0.9], [0.9, 0.9, 0.1]])
    yy, xx = torch.meshgrid(torch.arange(float(size)), torch.arange(float(size)), indexing="ij")
    seg = torch.zeros(n, size, size, dtype=torch.long)
    depth = 2 + (size - yy).expand(n, -1, -1) / 8
    for _ in range(3):
        c = torch.rand(n, 2, 1, 1, generator=gen) * size
        k = torch.randint(1, 4, (n, 1, 1), generator=gen)
        m = torch.maximum((xx - c[:, 0]).abs(), (yy - c[:, 1]).abs()) < 3
        seg, depth = torch.where(m, k, seg), torch.where(m, k.float(), depth)
    img = pal[seg].permute(0, 3, 1, 2) * (3 / (depth + 2))[:, None]
    img = img + 0.05 * torch.randn(img.shape, generator=gen)
    border = torch.rand(n, size, size, generator=gen) < 0.1
    seg = seg.masked_fill(border, IGNORE)
    depth = depth.masked_fill(torch.rand(n, size, size, generator=gen) < 0.7, float("nan"))
    if torch.rand((), generator=gen) < 0.1:
        depth[:] = float("nan")
    return img, seg, depth


def losses(net, img, seg, depth):
    logits, pred = net(img)
    seg_loss = F.cross_entropy(logits, seg, ignore_index=IGNORE)
    valid = ~depth.isnan()
    if valid.any():
        depth_loss = F.smooth_l1_loss(pred[valid], depth[valid])
    else:
        depth_loss = pred.sum() * 0.0
    return seg_loss, depth_loss


def evaluate(net, batches):
    net.eval()
    meter, err = Meter(CLASSES), []
    with torch.no_grad():
        for img, seg, depth in batches:
            logits, pred = net(img)
            meter.add(class_iou(logits.argmax(1), seg, CLASSES, IGNORE))
            err.append((pred - depth).abs().nanmean())
    net.train()
    iou = meter.result()
    return iou, iou.nanmean().item(), torch.stack(err).nanmean().item()


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(3)
    net = SceneNet()
    opt = torch.optim.AdamW(net.parameters(), lr=5e-3, weight_decay=1e-4)
    val = [scenes(16, gen) for _ in range(4)]
    for epoch in range(6):
        total = torch.zeros(2)
        for _ in range(20):
            s, d = losses(net, *scenes(16, gen))
            opt.zero_grad(set_to_none=True)
            (s + 0.5 * d).backward()
            opt.step()
            total += torch.stack([s.detach(), d.detach()]) / 20
        iou, miou, mae = evaluate(net, val)
        print(f"epoch {epoch} seg {total[0]:.4f} depth {total[1]:.4f} | iou {[round(v, 3) for v in iou.tolist()]}"
              f" mean {miou:.3f} depth mae {mae:.3f}")


if __name__ == "__main__":
    main()
