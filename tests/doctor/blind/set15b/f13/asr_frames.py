"""Frame-wise phone classifier (hybrid ASR style), loss summed over frames as in Kaldi."""
import torch
import torch.nn as nn
import torch.nn.functional as F

PHONES, MEL = 30, 40


def utterances(n, frames, gen):
    proto = torch.randn(PHONES, MEL, generator=torch.Generator().manual_seed(99))
    y = torch.zeros(n, frames, dtype=torch.long)
    for i in range(n):
        t = 0
        while t < frames:
            d = int(torch.randint(3, 9, (1,), generator=gen))
            y[i, t:t + d] = torch.randint(0, PHONES, (1,), generator=gen)
            t += d
    x = proto[y] + 0.8 * torch.randn(n, frames, MEL, generator=gen)
    return x, y


class TDNN(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.inp = nn.Linear(3 * MEL, d)
        self.ff = nn.ModuleList(nn.Linear(d, d) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))
        self.out = nn.Linear(d, PHONES)

    def forward(self, x):
        ctx = torch.cat([x.roll(1, 1), x, x.roll(-1, 1)], -1)
        h = F.relu(self.inp(ctx))
        for ff, norm in zip(self.ff, self.norms):
            h = norm(h + F.relu(ff(h)))
        return self.out(h)


def stabilise(model):
    """Rare bad frames gave NaN gradients in the past; keep these out of the optimizer."""
    def clean(g):
        return torch.nan_to_num(g, nan=0.0, posinf=0.0, neginf=0.0)

    for p in model.parameters():
        p.register_hook(clean)


class History:
    def __init__(self):
        self.rows = []

    def log(self, **kw):
        self.rows.append(kw)
        print("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in kw.items()))


def main():
    torch.manual_seed(17)
    torch.set_num_threads(1)
    gen = torch.Generator().manual_seed(17)
    x, y = utterances(128, 100, gen)
    model = TDNN()
    stabilise(model)
    opt = torch.optim.SGD(model.parameters(), lr=2e-4, momentum=0.9)
    sched = torch.optim.lr_scheduler.StepLR(opt, 3, 0.7)
    scaler = torch.amp.GradScaler("cpu")
    hist = History()
    for epoch in range(6):
        frames = right = 0
        total = 0.0
        for idx in torch.randperm(len(x), generator=gen).split(8):
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                logits = model(x[idx]).flatten(0, 1)
                loss = F.cross_entropy(logits, y[idx].flatten(), reduction="sum")
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            total += loss.item()
            frames += logits.size(0)
            right += (logits.argmax(-1) == y[idx].flatten()).sum().item()
        sched.step()
        hist.log(epoch=epoch, loss_per_frame=total / frames, acc=right / frames, scale=scaler.get_scale())


if __name__ == "__main__":
    main()
