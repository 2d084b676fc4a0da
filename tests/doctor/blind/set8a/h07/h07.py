import argparse
import copy
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Student(nn.Module):
    def __init__(self, width, n_classes=6):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(3, width, 7, padding=3), nn.ReLU(), nn.MaxPool1d(2))
        self.body = nn.Sequential(nn.Conv1d(width, width * 2, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(4))
        self.head = nn.Linear(width * 8, n_classes)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).flatten(1))


def motions(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 6, (n,), generator=g)
    t = torch.arange(64) / 64
    f = (1 + y.float())[:, None, None]
    ch = torch.arange(3).view(1, 3, 1)
    x = torch.sin(6.283 * f * t + ch + 6.283 * torch.rand(n, 1, 1, generator=g))
    return TensorDataset(x + 0.5 * torch.randn(x.shape, generator=g), y)


def save(path, **objects):
    torch.save({k: v.state_dict() for k, v in objects.items()}, path)


def load(path, **objects):
    state = torch.load(path, map_location="cpu")
    for k, v in objects.items():
        v.load_state_dict(state[k])


def train(model, loader, opt, scaler, epochs, teacher=None, alpha=0.5, temp=3.0):
    for epoch in range(epochs):
        total = 0.0
        for x, y in loader:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                out = model(x)
                loss = F.cross_entropy(out, y)
                if teacher is not None:
                    with torch.no_grad():
                        soft = F.softmax(teacher(x).float() / temp, -1)
                    kd = F.kl_div(F.log_softmax(out.float() / temp, -1), soft, reduction="batchmean") * temp ** 2
                    loss = (1 - alpha) * loss + alpha * kd
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            total += loss.item()
        print(f"  epoch {epoch} loss {total / len(loader):.4f}")


@torch.inference_mode()
def half_accuracy(model, data):
    x, y = data.tensors
    m = copy.deepcopy(model).half().eval()
    return (m(x.half()).argmax(1) == y).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    args = ap.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(motions(480, 0), 24, shuffle=True)
    test = motions(120, 1)

    print("teacher")
    teacher = Student(16)
    opt = torch.optim.Adam(teacher.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu")
    train(teacher, loader, opt, scaler, args.epochs)
    teacher.requires_grad_(False).eval()

    print("student, frozen stem")
    student = Student(8)
    student.stem.requires_grad_(False)
    opt = torch.optim.Adam(student.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", growth_interval=15)
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "last.pt")
        train(student, loader, opt, scaler, args.epochs, teacher)
        save(path, model=student, opt=opt, scaler=scaler)
        print("resume")
        student = Student(8)
        student.stem.requires_grad_(False)
        opt = torch.optim.Adam(student.parameters(), lr=3e-3)
        scaler = torch.amp.GradScaler("cpu", growth_interval=15)
        load(path, model=student, opt=opt, scaler=scaler)
    train(student, loader, opt, scaler, args.epochs, teacher)
    print(f"scale {scaler.get_scale():g} half accuracy {half_accuracy(student, test):.3f}")


if __name__ == "__main__":
    main()
