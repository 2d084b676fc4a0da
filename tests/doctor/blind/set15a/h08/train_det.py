"""Centre-point detector; boxes live in full-resolution pixels, so their areas stay in float32."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from data import batches

STRIDE = 64  # full-resolution pixels per cell


class CentreNet(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, ch, 3, 2, 1), nn.GroupNorm(3, ch), nn.ReLU(),
            nn.Conv2d(ch, 2 * ch, 3, 2, 1), nn.GroupNorm(3, 2 * ch), nn.ReLU(),
            nn.Conv2d(2 * ch, 2 * ch, 3, padding=2, dilation=2), nn.ReLU())
        self.heat, self.size = nn.Conv2d(2 * ch, 1, 1), nn.Conv2d(2 * ch, 4, 1)
        nn.init.constant_(self.heat.bias, -2.0)
        nn.init.normal_(self.size.weight, std=0.01)

    def forward(self, x):
        f = self.body(x)
        return self.heat(f)[:, 0], self.size(f)


def decode(size, ys, xs):
    s = size.float()  # areas up to 512 * 512
    ltrb = F.softplus(s) * STRIDE
    cx, cy = (xs + 0.5) * STRIDE, (ys + 0.5) * STRIDE
    return torch.stack([cx - ltrb[:, 0], cy - ltrb[:, 1], cx + ltrb[:, 2], cy + ltrb[:, 3]], 1)


def iou(a, b, eps=1.0):
    wh = (torch.min(a[:, 2:], b[:, 2:]) - torch.max(a[:, :2], b[:, :2])).clamp(min=0)
    inter = wh.prod(1)
    area = lambda t: (t[:, 2:] - t[:, :2]).prod(1)
    return inter / (area(a) + area(b) - inter + eps)


def top_scores(heat, k=3):
    """3x3 maximum suppression; what is not a peak gets -inf (for the log only)"""
    peak = F.max_pool2d(heat[:, None], 3, 1, 1)[:, 0]
    return heat.masked_fill(heat < peak, float("-inf")).flatten(1).topk(k).values


torch.manual_seed(14)
net = CentreNet()
opt = torch.optim.AdamW(net.parameters(), lr=5e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 60)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 15)
broken = empty = 0
for step, batch in enumerate(batches(60)):
    good = [(im, bx) for im, bx in batch if not torch.isnan(im).any()]
    broken += len(batch) - len(good)
    if sum(len(bx) for _, bx in good) == 0:
        empty += 1  # no box to regress: leave the batch out
        continue
    imgs = torch.stack([im for im, _ in good])
    with torch.autocast("cpu", dtype=torch.float16):
        heat, size = net(imgs)
    target = torch.zeros_like(heat, dtype=torch.float32)
    rows, boxes = [], []
    for i, (_, bx) in enumerate(good):
        for b in bx:
            cx, cy = int((b[0] + b[2]) / 2 // STRIDE), int((b[1] + b[3]) / 2 // STRIDE)
            target[i, cy, cx] = 1.0
            rows.append((i, cy, cx))
            boxes.append(b)
    bi, cy, cx = torch.tensor(rows).unbind(1)
    pred = decode(size[bi, :, cy, cx], cy, cx)
    loss_heat = F.binary_cross_entropy_with_logits(heat.float(), target, pos_weight=torch.tensor(5.0))
    loss_box = -iou(pred, torch.stack(boxes)).clamp(min=1e-4).log().mean()
    loss = loss_heat + loss_box
    opt.zero_grad()
    scaler.scale(loss).backward()
    before = scaler.get_scale()
    scaler.step(opt)
    scaler.update()
    if scaler.get_scale() >= before:
        sched.step()
    if step % 6 == 0:
        top = top_scores(heat.detach().float())
        print(f"step {step:2d} heat {loss_heat.item():.3f} box {loss_box.item():.3f} top {top.mean().item():.2f} "
              f"scale {scaler.get_scale():g} broken {broken} empty {empty}")
