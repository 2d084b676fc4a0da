"""BYOL with a frozen patch stem, an EMA teacher, gradient accumulation, and an online linear probe."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(31)

ACCUM, DIM, CLASSES = 4, 64, 8


class Stem(nn.Module):
    """random patch projection, kept fixed as in MoCo v3"""

    def __init__(self, patch=4, dim=DIM):
        super().__init__()
        self.patch = patch
        self.proj = nn.Linear(patch * patch, dim)

    def forward(self, x):
        b, h, w = x.shape
        p = self.patch
        return self.proj(x.view(b, h // p, p, w // p, p).transpose(2, 3).reshape(b, -1, p * p))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = Stem()
        self.stem.requires_grad_(False)
        self.mix = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, DIM), nn.GELU(), nn.Linear(DIM, DIM))
        self.proj = nn.Sequential(nn.Linear(DIM, DIM), nn.BatchNorm1d(DIM), nn.ReLU(), nn.Linear(DIM, 32))

    def features(self, x):
        return self.mix(self.stem(x)).mean(1)

    def forward(self, x):
        f = self.features(x)
        return f, self.proj(f)


student = Encoder()
teacher = copy.deepcopy(student).requires_grad_(False)
predictor = nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32))
probe = nn.Linear(DIM, CLASSES)

trained = [p for p in student.parameters() if p.requires_grad] + list(predictor.parameters())
opt = torch.optim.AdamW(trained, lr=2e-3)
opt_probe = torch.optim.SGD(probe.parameters(), lr=0.5, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)

patterns = torch.randn(CLASSES, 16, 16)


def views(n=32):
    y = torch.randint(0, CLASSES, (n,))
    aug = lambda: patterns[y] * (0.7 + 0.6 * torch.rand(n, 1, 1)) + 0.5 * torch.randn(n, 16, 16)
    return aug(), aug(), y


def byol_loss(p, z):
    return 2 - 2 * F.cosine_similarity(p.float(), z.float().detach(), dim=-1).mean()


for it in range(160):
    v1, v2, y = views()
    with torch.autocast("cpu", dtype=torch.float16):
        f1, z1 = student(v1)
        f2, z2 = student(v2)
        with torch.no_grad():
            _, t1 = teacher(v1)
            _, t2 = teacher(v2)
        loss = 0.5 * (byol_loss(predictor(z1), t2) + byol_loss(predictor(z2), t1))
        # the probe must not shape the features
        probe_out = probe(f1.detach())
    probe_loss = F.cross_entropy(probe_out.float(), y)
    scaler.scale(loss / ACCUM + probe_loss / ACCUM).backward()

    if (it + 1) % ACCUM == 0:
        scaler.step(opt)
        scaler.step(opt_probe)
        scaler.update()
        for p in [*trained, *probe.parameters()]:
            p.grad = None
        with torch.no_grad():
            for q, p in zip(teacher.parameters(), student.parameters()):
                q.mul_(0.97).add_(p, alpha=0.03)
    if it % 16 == 0:
        std = F.normalize(z1.detach().float(), dim=1).std(0).mean().item()
        acc = (probe_out.argmax(1) == y).float().mean().item()
        print(f"it {it:3d} byol {loss.item():.4f} std {std:.3f} probe {probe_loss.item():.3f} acc {acc:.2f}")
