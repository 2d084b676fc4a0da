"""Knowledge distillation for keyword spotting on synthetic spectrograms."""
import argparse
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

from precision import make_scaler


class Keywords(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        template = torch.randn(6, 16, 16, generator=torch.Generator().manual_seed(99))
        self.y = torch.randint(6, (n,), generator=g)
        self.x = template[self.y] + 1.2 * torch.randn(n, 16, 16, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def mlp(width):
    return nn.Sequential(nn.Flatten(), nn.Linear(256, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 6))


@dataclass
class Distiller:
    teacher: nn.Module
    student: nn.Module
    temperature: float
    mix: float

    def __call__(self, x, y):
        with torch.no_grad():
            soft = self.teacher(x).float()
        out = self.student(x)
        t = self.temperature
        kd = F.kl_div(F.log_softmax(out.float() / t, 1), F.softmax(soft / t, 1), reduction="batchmean") * t * t
        return self.mix * kd + (1 - self.mix) * F.cross_entropy(out, y), out


def pretrain(teacher, loader):
    opt = torch.optim.Adam(teacher.parameters(), 1e-3)
    for _ in range(3):
        for x, y in loader:
            opt.zero_grad()
            F.cross_entropy(teacher(x), y).backward()
            opt.step()
    return teacher.eval().requires_grad_(False)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--lr", type=float, default=0.005)
    ap.add_argument("--temperature", type=float, default=3.0)
    ap.add_argument("--mix", type=float, default=0.5)
    args = ap.parse_args()
    torch.manual_seed(0)

    loader = DataLoader(Keywords(1536, 1), args.batch, shuffle=True)
    test = Keywords(384, 2)
    teacher = pretrain(mlp(96), DataLoader(Keywords(1536, 3), 32, shuffle=True))
    student = mlp(24)
    distil = Distiller(teacher, student, args.temperature, args.mix)
    opt = torch.optim.SGD(student.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, [5], 0.3)
    scaler = make_scaler("cpu")

    for epoch in range(args.epochs):
        total = 0.0
        for x, y in loader:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                loss, _ = distil(x, y)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(student.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            total += loss.item()
        sched.step()
        acc = (student(test.x).argmax(1) == test.y).float().mean().item()
        print(f"epoch {epoch} loss {total / len(loader):.4f} test acc {acc:.3f} scale {scaler.get_scale():.3g}")


if __name__ == "__main__":
    main()
