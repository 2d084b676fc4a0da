"""Diffusion on two moons: zero-initialised output, activation checkpointing, Min-SNR weights, EMA, fp16."""
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from h08.net import Eps
from h08.schedule import Cosine


def moons(n, g):
    a = torch.rand(n, generator=g) * 3.14159
    side = torch.randint(2, (n,), generator=g).float()
    x = torch.stack([a.cos() + side - 0.5, a.sin() * (1 - 2 * side) + 0.5 * side - 0.25], 1)
    return x + 0.04 * torch.randn(n, 2, generator=g)


@torch.no_grad()
def sample(model, sched, n, g):
    model.eval()
    x = torch.randn(n, 2, generator=g)
    for i in reversed(range(sched.steps)):
        t = torch.full((n,), i)
        with torch.autocast("cpu", dtype=torch.float16):
            e = model(x, t).float()
        b, beta = sched.bar[i], sched.beta[i]
        x0 = ((x - (1 - b).sqrt() * e) / b.sqrt()).clamp(-2, 2)
        prev = sched.bar[i - 1] if i else torch.tensor(1.0)
        x = prev.sqrt() * beta / (1 - b) * x0 + (1 - beta).sqrt() * (1 - prev) / (1 - b) * x
        if i:
            x = x + (beta * (1 - prev) / (1 - b)).sqrt() * torch.randn(n, 2, generator=g)
    return x


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(0)
    model, sched = Eps(), Cosine()
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.97))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu")
    window = []
    for step in range(120):
        x0 = moons(128, g)
        t = torch.randint(sched.steps, (128,), generator=g)
        eps = torch.randn(128, 2, generator=g)
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(sched.noise(x0, t, eps), t)
            loss = ((out.float() - eps).pow(2).mean(1) * sched.min_snr(t)).mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        ema.update_parameters(model)
        window = (window + [loss.item()])[-25:]
        if step % 30 == 0 or step == 119:
            print(f"step {step} loss {sum(window) / len(window):.4f}")
    s = sample(ema, sched, 128, g)
    ref = moons(1000, g)
    print("mean distance of a sample to the data:", torch.cdist(s, ref).amin(1).mean().item())


if __name__ == "__main__":
    main()
