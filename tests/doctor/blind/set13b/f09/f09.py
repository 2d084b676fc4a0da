"""Distil a convolutional tagger of raw 16-bit audio into a smaller one."""
import io

import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES, SAMPLES = 4, 128


def tones(n, g):
    y = torch.randint(0, CLASSES, (n,), generator=g)
    t = torch.arange(SAMPLES).float()
    freq = 0.15 + 0.35 * y.float().unsqueeze(1)
    phase = 6.28 * torch.rand(n, 1, generator=g)
    loud = 4000.0 + 6000.0 * torch.rand(n, 1, generator=g)
    wav = loud * torch.sin(freq * t + phase) + 2500.0 * torch.randn(n, SAMPLES, generator=g)
    return wav.clamp(-32768, 32767).round().unsqueeze(1), y


class Tagger(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.bn0 = nn.BatchNorm1d(1)
        self.c1 = nn.Conv1d(1, ch, 9, stride=2, padding=4)
        self.bn1 = nn.BatchNorm1d(ch)
        self.c2 = nn.Conv1d(ch, ch, 5, stride=2, padding=2)
        self.bn2 = nn.BatchNorm1d(ch)
        self.fc = nn.Linear(ch, CLASSES)

    def forward(self, x):
        x = F.relu(self.bn1(self.c1(self.bn0(x))))
        x = F.relu(self.bn2(self.c2(x)))
        return self.fc(x.amax(-1))


def batches(x, y, size, g):
    for idx in torch.randperm(len(x), generator=g).split(size):
        yield x[idx], y[idx]


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


def fit_teacher(x, y, g):
    net = Tagger(24)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(3):
        net.train()
        for xb, yb in batches(x, y, 32, g):
            opt.zero_grad()
            F.cross_entropy(net(xb), yb).backward()
            opt.step()
    return net


def export(net):
    """What goes to the shared disk."""
    small = {k: v.half() if v.is_floating_point() else v for k, v in net.state_dict().items()}
    buf = io.BytesIO()
    torch.save(small, buf)
    buf.seek(0)
    return buf


def main():
    torch.manual_seed(6)
    g = torch.Generator().manual_seed(6)
    x, y = tones(512, g)
    xv, yv = tones(128, g)
    disk = export(fit_teacher(x, y, g))

    teacher = Tagger(24)
    teacher.load_state_dict(torch.load(disk))
    teacher.eval().requires_grad_(False)
    print(f"teacher accuracy {accuracy(teacher, xv, yv):.3f}")

    student = Tagger(8)
    opt = torch.optim.Adam(student.parameters(), lr=4e-3)
    T = 2.0
    for epoch in range(5):
        student.train()
        for xb, _ in batches(x, y, 32, g):
            with torch.no_grad():
                target = F.softmax(teacher(xb) / T, dim=-1)
            loss = F.kl_div(F.log_softmax(student(xb) / T, dim=-1), target, reduction="batchmean") * T * T
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch} kd {loss.item():.4f} student accuracy {accuracy(student, xv, yv):.3f}")


if __name__ == "__main__":
    main()
