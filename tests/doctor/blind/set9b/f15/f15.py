import argparse
import logging

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from precision import Precision

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("distill")


class ConvNet(nn.Module):
    def __init__(self, width, classes=6):
        super().__init__()
        self.c1 = nn.Conv2d(1, width, 3, padding=1)
        self.c2 = nn.Conv2d(width, 2 * width, 3, padding=1, stride=2)
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, x):
        a = F.relu(self.c1(x))
        b = F.relu(self.c2(a))
        return self.fc(b.mean(dim=(2, 3))), [a, b]


def patterns(n, seed):
    gen = torch.Generator().manual_seed(99)
    proto = torch.randn(6, 1, 12, 12, generator=gen).cumsum(-1)
    gen.manual_seed(seed)
    y = torch.randint(0, 6, (n,), generator=gen)
    return TensorDataset(proto[y] + 0.8 * torch.randn(n, 1, 12, 12, generator=gen), y)


def train_teacher(loader, epochs):
    teacher = ConvNet(16)
    opt = torch.optim.Adam(teacher.parameters(), lr=5e-3)
    for _ in range(epochs):
        for x, y in loader:
            opt.zero_grad()
            F.cross_entropy(teacher(x)[0], y).backward()
            opt.step()
    return teacher.eval().requires_grad_(False)


class Distiller:
    def __init__(self, teacher, student, opts):
        self.teacher = teacher
        self.student = student
        self.opts = opts
        self.precision = Precision(opts.precision)
        self.optimizer = torch.optim.Adam(student.parameters(), lr=opts.lr)

    def loss(self, x):
        with torch.no_grad():
            t_logits, _ = self.teacher(x)
        with self.precision.context():
            s_logits, _ = self.student(x)
            t = self.opts.temperature
            soft = F.kl_div(F.log_softmax(s_logits.float() / t, 1), F.softmax(t_logits / t, 1), reduction="batchmean")
        return self.opts.weight * soft

    def epoch(self, loader):
        total = 0.0
        for x, _ in loader:
            self.optimizer.zero_grad()
            loss = self.loss(x)
            self.precision.backward(loss)
            self.precision.step(self.optimizer)
            total += loss.item() / self.opts.weight
        return total / len(loader)

    @torch.no_grad()
    def agreement(self, loader):
        same = sum((self.teacher(x)[0].argmax(1) == self.student(x)[0].argmax(1)).sum().item() for x, _ in loader)
        return same / len(loader.dataset)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--temperature", type=float, default=4.0)
    parser.add_argument("--weight", type=float, default=1e-4)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--precision", default="fp16", choices=["fp32", "fp16", "bf16"])
    opts = parser.parse_args()
    torch.manual_seed(12)
    train_loader = DataLoader(patterns(512, 0), 32, shuffle=True)
    test_loader = DataLoader(patterns(128, 1), 64)
    distiller = Distiller(train_teacher(train_loader, 3), ConvNet(6), opts)
    for epoch in range(opts.epochs):
        kl = distiller.epoch(train_loader)
        log.info("epoch %d kl %.5f agreement %.3f", epoch, kl, distiller.agreement(test_loader))
