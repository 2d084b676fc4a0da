"""Relief (surface height, metres) from shading; per-pixel squared error averaged over the batch."""
import argparse

import torch
import torch.nn as nn


class UNetish(nn.Module):
    def __init__(self, c=10):
        super().__init__()
        self.d1 = nn.Conv2d(1, c, 3, padding=1)
        self.d2 = nn.Conv2d(c, c * 2, 3, stride=2, padding=1)
        self.mid = nn.Conv2d(c * 2, c * 2, 3, padding=1)
        self.up = nn.ConvTranspose2d(c * 2, c, 2, stride=2)
        self.out = nn.Conv2d(c * 2, 1, 1)

    def forward(self, x):
        a = torch.relu(self.d1(x))
        b = torch.relu(self.mid(torch.relu(self.d2(a))))
        return self.out(torch.cat([a, torch.relu(self.up(b))], dim=1))


def scenes(n, gen):
    ramp = torch.linspace(0, 1, 32)
    tilt = torch.rand(n, 1, 1, 1, generator=gen)
    height = tilt * ramp.view(1, 1, 32, 1) + (1 - tilt) * ramp.view(1, 1, 1, 32)
    image = height + 0.05 * torch.randn(n, 1, 32, 32, generator=gen)
    return image, height * 5e-5


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--amp", default="fp16", choices=["fp16", "bf16", "off"])
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--lr", type=float, default=2e-6)
    args = ap.parse_args()
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16, "off": torch.float32}[args.amp]

    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(3)
    model = UNetish()
    nn.init.normal_(model.out.weight, std=2e-5)
    nn.init.zeros_(model.out.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler(enabled=args.amp == "fp16")

    for step in range(args.steps):
        image, height = scenes(8, gen)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=dtype, enabled=args.amp != "off"):
            pred = model(image)
            loss = (pred.float() - height).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % 10 == 0 or step == args.steps - 1:
            print(f"step {step:3d} rmse {loss.item() ** 0.5 * 1e6:.3f} um")


if __name__ == "__main__":
    main()
