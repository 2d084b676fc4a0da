"""Distil a wide teacher into a student that is kept in bfloat16 to save memory."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def teacher_net():
    g = torch.Generator().manual_seed(8)
    w1 = torch.randn(16, 64, generator=g) / 4
    w2 = torch.randn(64, 6, generator=g) / 3
    return lambda x: (x @ w1).tanh() @ w2


class Student(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.inp = nn.Linear(16, hidden)
        self.mid = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, 6)
        for m in (self.inp, self.mid, self.out):
            nn.init.xavier_uniform_(m.weight, gain=1.6)
            nn.init.uniform_(m.bias, 0.2, 0.4)

    def forward(self, x):
        return self.out(torch.tanh(self.mid(torch.tanh(self.inp(x)))))


class Distiller:
    def __init__(self, student, teacher, lr, temperature=2.0):
        self.student, self.teacher, self.t = student, teacher, temperature
        self.opt = torch.optim.SGD(student.parameters(), lr=lr, momentum=0.0)
        self.dtype = next(student.parameters()).dtype
        self.before = [p.detach().clone() for p in student.parameters()]

    def loss(self, x):
        with torch.no_grad():
            target = F.log_softmax(self.teacher(x) / self.t, -1)
        pred = F.log_softmax(self.student(x.to(self.dtype)).float() / self.t, -1)
        return F.kl_div(pred, target, reduction="batchmean", log_target=True) * self.t ** 2

    def fit(self, steps, batch=64):
        for s in range(steps):
            loss = self.loss(torch.randn(batch, 16))
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            if s % 150 == 0:
                print(f"{s:4d} KL {loss.item():.4f} agreement {self.agreement():.3f} "
                      f"entries moved {self.moved():.4f}")

    @torch.no_grad()
    def agreement(self):
        x = torch.randn(512, 16, generator=torch.Generator().manual_seed(1))
        return (self.student(x.to(self.dtype)).argmax(1) == self.teacher(x).argmax(1)).float().mean().item()

    @torch.no_grad()
    def moved(self):
        now = list(self.student.parameters())
        changed = sum((a != b).sum().item() for a, b in zip(self.before, now))
        return changed / sum(p.numel() for p in now)


if __name__ == "__main__":
    torch.manual_seed(0)
    student = Student().to(torch.bfloat16)
    Distiller(student, teacher_net(), lr=1.5e-3).fit(1201)
