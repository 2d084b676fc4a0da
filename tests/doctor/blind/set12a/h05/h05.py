"""Gradual unfreezing: the head first, the trunk later, with a mean-teacher copy of the net."""
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F


def views(n, gen):
    y = torch.randint(0, 3, (n,), generator=gen)
    t = torch.linspace(0, 6.28, 32)
    freq = torch.tensor([1.0, 2.0, 3.0])[y][:, None]
    phase = 6.28 * torch.rand(n, 1, generator=gen)
    clean = torch.sin(freq * t + phase)
    noise = lambda: 0.4 * torch.randn(n, 32, generator=gen)
    return (clean + noise())[:, None], (clean + noise())[:, None], y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv1d(1, 16, 7, padding=3), nn.GELU(), nn.MaxPool1d(2),
                                   nn.Conv1d(16, 24, 5, padding=2), nn.GELU(), nn.AdaptiveMaxPool1d(4), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(96, 32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, x):
        return self.head(self.trunk(x))


class MeanTeacher:
    def __init__(self, student, decay=0.95):
        self.net = copy.deepcopy(student).requires_grad_(False).eval()
        self.decay = decay

    @torch.no_grad()
    def follow(self, student):
        for t, s in zip(self.net.parameters(), student.parameters()):
            t.lerp_(s.detach(), 1 - self.decay)

    @torch.no_grad()
    def __call__(self, x):
        return F.softmax(self.net(x), dim=1)


class Stage:
    """Which parts take part in the optimisation at a given step."""

    def __init__(self, net, switch):
        self.net, self.switch = net, switch
        net.trunk.requires_grad_(False)

    def update(self, step):
        if step == self.switch:
            self.net.trunk.requires_grad_(True)
        return "all" if step >= self.switch else "head"


def main(steps=160):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    net = Net()
    teacher = MeanTeacher(net)
    stage = Stage(net, switch=50)
    opt = torch.optim.AdamW([{"params": net.trunk.parameters(), "lr": 2e-3},
                             {"params": net.head.parameters(), "lr": 5e-3}])
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    for s in range(steps):
        name = stage.update(s)
        a, b, y = views(48, gen)
        labelled = slice(0, 24)
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = net(a)
            sup = F.cross_entropy(logits[labelled], y[labelled])
        cons = F.mse_loss(F.softmax(logits.float(), 1), teacher(b))
        scaler.scale(sup + 2.0 * cons).backward()
        scaler.step(opt)
        scaler.update()
        teacher.follow(net)
        if s % 20 == 0 or s == steps - 1:
            _, v, yv = views(200, torch.Generator().manual_seed(9))
            acc = (teacher(v).argmax(1) == yv).float().mean().item()
            print(f"{s:4d} [{name:4s}] sup {sup.item():.4f} cons {cons.item():.4f} teacher acc {acc:.3f}")


if __name__ == "__main__":
    main()
