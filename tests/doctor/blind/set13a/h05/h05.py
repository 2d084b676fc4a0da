"""BYOL with a momentum teacher on small textures; half precision for both towers."""
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F


def tower(c=12, d=24):
    return nn.Sequential(
        nn.Conv2d(1, c, 3, 2, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU(),
        nn.Conv2d(c, d, 3, 2, 1, bias=False), nn.BatchNorm2d(d), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * d, d))


class BYOL(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.student = tower(d=d)
        self.predictor = nn.Sequential(nn.Linear(d, d), nn.BatchNorm1d(d), nn.ReLU(), nn.Linear(d, d))
        self.teacher = copy.deepcopy(self.student)
        self.teacher.requires_grad_(False)

    @torch.no_grad()
    def follow(self, m):
        for a, b in zip(self.teacher.parameters(), self.student.parameters()):
            a.lerp_(b, 1 - m)

    def forward(self, a, b):
        p = self.predictor(self.student(a)), self.predictor(self.student(b))
        with torch.no_grad():
            t = self.teacher(b), self.teacher(a)
        return sum(2 - 2 * F.cosine_similarity(x.float(), y.float(), eps=1e-6).mean() for x, y in zip(p, t)) / 2


def augment(x, gen):
    x = x * (0.7 + 0.6 * torch.rand(len(x), 1, 1, 1, generator=gen)) + 0.2 * torch.randn(x.shape, generator=gen)
    flip = torch.rand(len(x), 1, 1, 1, generator=gen) < 0.5
    return torch.where(flip, x.flip(-1), x)


@torch.no_grad()
def knn(model, proto, gen):
    model.eval()
    bank = torch.arange(10).repeat(8)
    f = F.normalize(model.student(proto[bank] + 0.2 * torch.randn(len(bank), 1, 12, 12, generator=gen)), dim=1)
    q = torch.arange(10).repeat(4)
    g = F.normalize(model.student(proto[q].flip(-1) + 0.2 * torch.randn(len(q), 1, 12, 12, generator=gen)), dim=1)
    model.train()
    return (bank[(g @ f.t()).argmax(1)] == q).float().mean().item()


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(3)
    proto = F.interpolate(torch.randn(10, 1, 4, 4, generator=gen), size=12, mode="bilinear")
    model = BYOL()
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)
    for s in range(60):
        y = torch.randint(0, 10, (32,), generator=gen)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = model(augment(proto[y], gen), augment(proto[y], gen))
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        model.follow(1 - 0.1 * (1 - s / 60))
        if s % 15 == 0 or s == 59:
            print(f"{s} loss {loss.item():.4f} knn {knn(model, proto, gen):.3f}")


main()
