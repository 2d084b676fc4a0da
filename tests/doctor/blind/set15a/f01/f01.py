"""Tiny anchor-free detector (FCOS flavour), one object per image, GIoU regression."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)

IMG = 384
STRIDE = 32
device = "cpu"


def conv_bn(i, o, s=2):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class Detector(nn.Module):
    def __init__(self, num_classes=4):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.AvgPool2d(8),
            conv_bn(3, 16), conv_bn(16, 32),
        )
        self.cls = nn.Conv2d(32, num_classes, 3, padding=1)
        self.reg = nn.Conv2d(32, 4, 3, padding=1)
        nn.init.normal_(self.reg.weight, std=0.01)
        nn.init.zeros_(self.reg.bias)
        nn.init.constant_(self.cls.bias, -2.0)

    def forward(self, x):
        f = self.backbone(x)
        ltrb = torch.exp(self.reg(f)) * STRIDE
        return self.cls(f), ltrb


def make_points(h, w):
    ys = (torch.arange(h) + 0.5) * STRIDE
    xs = (torch.arange(w) + 0.5) * STRIDE
    gy, gx = torch.meshgrid(ys, xs, indexing="ij")
    return torch.stack([gx, gy], -1).reshape(-1, 2)


def giou_loss(pred, target, eps=1e-3):
    """pred, target: (N, 4) distances to left, top, right, bottom."""
    pl, pt, pr, pb = pred.unbind(-1)
    tl, tt, tr, tb = target.unbind(-1)
    pred_area = (pl + pr) * (pt + pb)
    target_area = (tl + tr) * (tt + tb)
    w_inter = torch.min(pl, tl) + torch.min(pr, tr)
    h_inter = torch.min(pt, tt) + torch.min(pb, tb)
    inter = w_inter * h_inter
    union = pred_area + target_area - inter
    iou = inter / (union + eps)
    hull = (torch.max(pl, tl) + torch.max(pr, tr)) * (torch.max(pt, tt) + torch.max(pb, tb))
    giou = iou - (hull - union) / (hull + eps)
    return (1 - giou).mean()


def make_batch(n=4):
    imgs = torch.randn(n, 3, IMG, IMG) * 0.2
    boxes, labels = [], torch.randint(0, 4, (n,))
    for i in range(n):
        w, h = (torch.rand(2) * 110 + 265).tolist()
        x0 = torch.rand(1).item() * (IMG - w)
        y0 = torch.rand(1).item() * (IMG - h)
        boxes.append([x0, y0, x0 + w, y0 + h])
        imgs[i, labels[i] % 3, int(y0):int(y0 + h), int(x0):int(x0 + w)] += 1.0 + 0.3 * labels[i]
    return imgs, torch.tensor(boxes), labels


def assign(points, boxes, labels):
    # distances from each location to the sides of the image's box
    px, py = points[:, 0][None], points[:, 1][None]
    l, t = px - boxes[:, 0:1], py - boxes[:, 1:2]
    r, b = boxes[:, 2:3] - px, boxes[:, 3:4] - py
    reg_t = torch.stack([l, t, r, b], -1)
    pos = reg_t.min(-1).values > 0
    cls_t = F.one_hot(labels, 4)[:, None] * pos[..., None]
    return reg_t, cls_t.float(), pos


model = Detector().to(device)
opt = torch.optim.AdamW(model.parameters(), lr=8e-4, weight_decay=1e-4)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
points = make_points(IMG // STRIDE, IMG // STRIDE)

for it in range(40):
    imgs, boxes, labels = make_batch()
    reg_t, cls_t, pos = assign(points, boxes, labels)
    opt.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.float16):
        cls_out, ltrb = model(imgs)
        cls_out = cls_out.flatten(2).transpose(1, 2)
        ltrb = ltrb.flatten(2).transpose(1, 2)
        loss_cls = F.binary_cross_entropy_with_logits(cls_out.float(), cls_t)
        loss_box = giou_loss(ltrb[pos], reg_t[pos])
        loss = loss_cls + loss_box
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    scaler.step(opt)
    scaler.update()
    if it % 3 == 0:
        print(f"iter {it:3d} cls {loss_cls.item():.4f} box {loss_box.item():.4f} scale {scaler.get_scale():g}")
