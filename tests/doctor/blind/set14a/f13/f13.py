"""DINO-style multi-crop self-distillation in bfloat16 autocast."""
import copy
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Args:
    steps: int = 160
    batch: int = 32
    dim: int = 64
    out: int = 32
    lr: float = 5e-3
    momentum: float = 0.95
    t_student: float = 0.1
    t_teacher: float = 0.04
    local_crops: int = 2
    amp_dtype: torch.dtype = torch.bfloat16


class Net(nn.Module):
    def __init__(self, dim, out):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 16, 3, 2, 1), nn.GELU(), nn.Conv2d(16, 32, 3, 2, 1), nn.GELU())
        self.fc = nn.Sequential(nn.Linear(32, dim), nn.GELU(), nn.Linear(dim, out))
        self.last_dtype = None

    def forward(self, x):
        y = self.fc(self.conv(x).mean((2, 3)))
        self.last_dtype = y.dtype
        return y


class MultiCrop:
    def __init__(self, local):
        self.local = local

    def crop(self, x, size):
        i, j = torch.randint(0, 16 - size + 1, (2,)).tolist()
        v = x[:, :, i:i + size, j:j + size]
        if torch.rand(()) < 0.5:
            v = v.flip(3)
        return v + 0.05 * torch.randn_like(v)

    def __call__(self, x):
        return [self.crop(x, 14), self.crop(x, 14)] + [self.crop(x, 8) for _ in range(self.local)]


class DINOLoss:
    def __init__(self, args):
        self.args, self.center = args, torch.zeros(args.out)

    def __call__(self, student, teacher):
        teacher = [t.detach().float() for t in teacher]
        probs = [((t - self.center) / self.args.t_teacher).softmax(-1) for t in teacher]
        total = n = 0
        for j, s in enumerate(student):
            logp = F.log_softmax(s.float() / self.args.t_student, -1)
            for i, p in enumerate(probs):
                if i != j:
                    total, n = total - (p * logp).sum(-1).mean(), n + 1
        self.center = 0.9 * self.center + 0.1 * torch.cat(teacher).mean(0)
        return total / n


def images(n):
    y = torch.randint(0, 4, (n,))
    grid = torch.arange(16.0)
    wave = torch.sin((0.4 + 0.5 * y)[:, None] * grid + torch.rand(n, 1) * 6.28)
    return (wave[:, None, :] * wave[:, :, None])[:, None], y


def main(args):
    torch.manual_seed(17)
    student = Net(args.dim, args.out)
    teacher = copy.deepcopy(student).requires_grad_(False)
    crops, criterion = MultiCrop(args.local_crops), DINOLoss(args)
    opt = torch.optim.AdamW(student.parameters(), lr=args.lr)
    start = time.time()
    for step in range(args.steps):
        x, _ = images(args.batch)
        with torch.autocast("cpu", dtype=args.amp_dtype):
            views = crops(x)
            s_out = map(student, views)
            t_out = map(teacher, views[:2])
        loss = criterion(s_out, t_out)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        with torch.no_grad():
            for a, b in zip(teacher.parameters(), student.parameters()):
                a.lerp_(b, 1 - args.momentum)
        if step % 32 == 0 or step == args.steps - 1:
            print(f"step {step:3d} loss {loss.item():.4f} activations {student.last_dtype} {time.time() - start:.1f}s")


if __name__ == "__main__":
    main(Args())
