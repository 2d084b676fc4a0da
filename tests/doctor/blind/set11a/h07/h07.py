"""Keypoint regression in bfloat16 with an EMA teacher; the evaluation runs in full precision."""
import argparse
import copy
import json

import torch
import torch.nn as nn
import torch.nn.functional as F

PRECISIONS = {"fp16": torch.float16, "bf16": torch.bfloat16}


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--precision", choices=["fp32", "fp16", "bf16"], default="bf16")
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--steps", type=int, default=14)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--lr", type=float, default=4e-3)
    p.add_argument("--clip", type=float, default=2.0)
    p.add_argument("--ema", type=float, default=0.9)
    return p.parse_args()


class SoftArgmax(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("axis", torch.linspace(0, 1, size))

    def forward(self, heat):
        p = heat.float().flatten(2).softmax(-1).view_as(heat)
        y = (p.sum(3) * self.axis).sum(-1)
        x = (p.sum(2) * self.axis).sum(-1)
        return torch.stack([y, x], dim=-1)


class KeypointNet(nn.Module):
    def __init__(self, k=2, w=12, size=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(2, w, 5, padding=2), nn.BatchNorm2d(w), nn.ReLU(),
            nn.Conv2d(w, w, 3, padding=1), nn.BatchNorm2d(w), nn.ReLU(), nn.Conv2d(w, k, 1),
        )
        self.decode = SoftArgmax(size)

    def forward(self, x):
        return self.decode(self.net(x))


def sample(n, g, size=16):
    pts = torch.randint(2, size - 2, (n, 2, 2), generator=g)
    img = 0.2 * torch.randn(n, 2, size, size, generator=g)
    for i in range(n):
        for k in range(2):
            y, x = pts[i, k].tolist()
            img[i, k, y - 1:y + 2, x - 1:x + 2] += 1.0
    return img, pts.float() / (size - 1)


@torch.no_grad()
def update_teacher(teacher, student, m):
    for a, b in zip(teacher.state_dict().values(), student.state_dict().values()):
        a.copy_(m * a + (1 - m) * b if a.is_floating_point() else b)


@torch.inference_mode()
def pck(net, g, thr=0.08):
    net.eval()
    img, pts = sample(48, g)
    return ((net(img) - pts).norm(dim=-1) < thr).float().mean().item()


def main():
    args = get_args()
    torch.manual_seed(0)
    train_rng, test_rng = torch.Generator().manual_seed(0), torch.Generator().manual_seed(9)
    student = KeypointNet()
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = torch.optim.AdamW(student.parameters(), lr=args.lr)
    use_amp = args.precision != "fp32"
    scaler = torch.amp.GradScaler("cpu", enabled=args.precision == "fp16")
    for epoch in range(args.epochs):
        student.train()
        losses = []
        for _ in range(args.steps):
            img, pts = sample(args.batch, train_rng)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=PRECISIONS.get(args.precision), enabled=use_amp):
                loss = 100.0 * F.smooth_l1_loss(student(img), pts, beta=0.05)
            scaler.scale(loss).backward()
            if scaler.is_enabled():
                scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(student.parameters(), args.clip)
            scaler.step(optimizer)
            scaler.update()
            update_teacher(teacher, student, args.ema)
            losses.append(loss.item())
        print(json.dumps({"epoch": epoch, "loss": round(sum(losses) / len(losses), 4), "pck": pck(student, test_rng), "pck_teacher": pck(teacher, test_rng), "scale": scaler.get_scale()}))


if __name__ == "__main__":
    main()
