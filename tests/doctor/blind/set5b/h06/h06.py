"""Toy diffusion in two dimensions: min-SNR weighting, EMA, a custom activation."""
import copy

import torch
import torch.nn as nn


class SquaredReLU(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x):
        y = x.clamp(min=0)
        ctx.save_for_backward(y)
        return y * y

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        y, = ctx.saved_tensors
        return 2 * y * g


class Denoiser(nn.Module):
    def __init__(self, steps, width=64):
        super().__init__()
        self.time = nn.Embedding(steps, 16)
        self.a = nn.Linear(2 + 16, width)
        self.b = nn.Linear(width, width)
        self.c = nn.Linear(width, 2)

    def forward(self, x, t):
        h = SquaredReLU.apply(self.a(torch.cat([x, self.time(t)], -1)))
        h = SquaredReLU.apply(self.b(h))
        return self.c(h)


class Averaged:
    def __init__(self, model, decay):
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for a, b in zip(self.model.parameters(), model.parameters()):
            a.lerp_(b, 1 - self.decay)


class Schedule:
    def __init__(self, steps):
        t = torch.arange(steps + 1) / steps
        self.alpha_bar = torch.cos(t * torch.pi / 2 * 0.98).pow(2)
        self.snr = self.alpha_bar / (1 - self.alpha_bar)
        self.weight = self.snr.clamp(max=5.0) / self.snr.clamp(min=1e-3)
        self.weight = torch.where(torch.isinf(self.snr), torch.ones_like(self.snr), self.weight)

    def noise(self, x, t):
        eps = torch.randn_like(x)
        a = self.alpha_bar[t][:, None]
        return a.sqrt() * x + (1 - a).sqrt() * eps, eps


def ring(n):
    angle = torch.rand(n) * 6.2832
    return torch.stack([angle.cos(), angle.sin()], -1) + 0.05 * torch.randn(n, 2)


def main():
    torch.manual_seed(0)
    steps = 40
    sched = Schedule(steps)
    model = Denoiser(steps + 1)
    ema = Averaged(model, 0.95)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    print("signal to noise from", sched.snr[0].item(), "to", sched.snr[-1].item())
    average = None
    for it in range(240):
        x = ring(128)
        t = torch.randint(0, steps + 1, (128,))
        noisy, eps = sched.noise(x, t)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(noisy, t)
            per = (out.float() - eps).pow(2).mean(-1)
            loss = (per * sched.weight[t]).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        ema.update(model)
        average = loss.item() if average is None else 0.95 * average + 0.05 * loss.item()
        if it % 40 == 0:
            print(f"{it:4d} loss {average:.4f}")
    with torch.no_grad():
        x = ring(512)
        t = torch.full((512,), steps // 2)
        noisy, eps = sched.noise(x, t)
        print(f"ema mid-time error {(ema.model(noisy, t) - eps).pow(2).mean().item():.4f}, end loss {average:.4f}")


if __name__ == "__main__":
    main()
