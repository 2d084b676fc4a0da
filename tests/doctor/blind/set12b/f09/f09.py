"""Distil a wide teacher into a narrow student, float16 autocast."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def mlp(*sizes):
    layers = []
    for i, o in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(i, o), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def spirals(n=900, classes=3):
    y = torch.arange(n) % classes
    r = torch.rand(n)
    a = r * 4 + y * 2 * torch.pi / classes + 0.15 * torch.randn(n)
    xy = torch.stack([r * a.cos(), r * a.sin()], 1)
    return torch.cat([xy, xy.square(), xy.prod(1, keepdim=True)], 1) * 2, y


class Distiller:
    def __init__(self, teacher, student, temp=2.0, alpha=0.7):
        self.teacher = teacher.eval().requires_grad_(False)
        self.student = student
        self.temp, self.alpha = temp, alpha
        for p in student.parameters():
            p.register_hook(lambda g: g.clamp(-1.0, 1.0))
        self.opt = torch.optim.SGD(student.parameters(), lr=0.3, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu")

    def loss(self, x, y):
        with torch.no_grad():
            soft = F.softmax(self.teacher(x).float() / self.temp, -1)
        out = self.student(x).float()
        kd = F.kl_div(F.log_softmax(out / self.temp, -1), soft, reduction="batchmean")
        return self.alpha * self.temp**2 * kd + (1 - self.alpha) * F.cross_entropy(out, y)

    def step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = self.loss(x, y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()


def pretrain(model, loader, epochs=12):
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(epochs):
        for x, y in loader:
            opt.zero_grad()
            F.cross_entropy(model(x), y).backward()
            opt.step()


def accuracy(model, x, y):
    with torch.no_grad():
        return (model(x).argmax(-1) == y).float().mean().item()


def main():
    torch.manual_seed(4)
    x, y = spirals()
    loader = DataLoader(TensorDataset(x, y), batch_size=90, shuffle=True)
    teacher, student = mlp(5, 64, 64, 3), mlp(5, 24, 3)
    pretrain(teacher, loader)
    print("teacher", round(accuracy(teacher, x, y), 3))
    before = copy.deepcopy(student.state_dict())
    kd = Distiller(teacher, student)
    for epoch in range(10):
        losses = [kd.step(a, b) for a, b in loader]
        moved = max((v - before[k]).abs().max().item() for k, v in student.state_dict().items())
        if epoch % 3 == 0:
            print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f} "
                  f"acc {accuracy(student, x, y):.3f} moved {moved:.2e}")


main()
