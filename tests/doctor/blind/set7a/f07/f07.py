"""Sparse-view denoising with a hand-rolled static loss scale (no GradScaler)."""
import torch
import torch.nn as nn

LOSS_SCALE = 2.0 ** 15


class StaticScaler:
    def __init__(self, scale):
        self.scale = scale

    def backward(self, loss):
        (loss * self.scale).backward()

    def unscale(self, params):
        for p in params:
            if p.grad is not None:
                p.grad.mul_(1.0 / self.scale)


class ResBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a = nn.Conv2d(c, c, 3, padding=1)
        self.b = nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(x)))


class Denoiser(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.inp = nn.Conv2d(1, c, 3, padding=1)
        self.blocks = nn.Sequential(ResBlock(c), ResBlock(c))
        self.out = nn.Conv2d(c, 1, 3, padding=1)

    def forward(self, x):
        return x + self.out(self.blocks(torch.relu(self.inp(x))))


def phantom(n, gen):
    img = torch.zeros(n, 1, 16, 16)
    for i in range(n):
        r0, c0 = torch.randint(1, 9, (2,), generator=gen).tolist()
        img[i, 0, r0 : r0 + 5, c0 : c0 + 5] = 1.0
    return img


def make_batch(n, gen, step):
    clean = phantom(n, gen)
    noise = torch.randn(clean.shape, generator=gen)
    sigma = 0.1 if step < 15 else 0.1 + 0.25 * (step - 15)
    return clean + min(sigma, 8.0) * noise, clean


def main():
    torch.manual_seed(4)
    gen = torch.Generator().manual_seed(8)
    model = Denoiser()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    scaler = StaticScaler(LOSS_SCALE)
    for step in range(70):
        noisy, clean = make_batch(8, gen, step)
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            pred = model(noisy)
        loss = (pred.float() - clean).square().mean()
        scaler.backward(loss)
        scaler.unscale(model.parameters())
        opt.step()
        if step % 5 == 0:
            print(f"step {step:2d} loss {loss.item():.5f}")


main()
