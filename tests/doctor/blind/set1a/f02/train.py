"""Foreground segmentation with progressive resizing: small crops first, large crops later."""
import argparse
import random

import torch

from losses import SegLoss
from net import MiniUNet


def make_batch(n, size, gen):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    c = torch.rand(n, 2, 1, 1, generator=gen) * 0.3 - 0.15
    r = 0.85 + 0.2 * torch.rand(n, 1, 1, generator=gen)
    mask = (((yy - c[:, 0]) ** 2 + (xx - c[:, 1]) ** 2) < r ** 2).float().unsqueeze(1)
    img = 0.7 * mask + 0.6 * torch.randn(n, 1, size, size, generator=gen)
    return img, mask


SCHEDULE = [(64, 10), (96, 14)]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bs", type=int, default=6)
    ap.add_argument("--lr", type=float, default=2e-3)
    a = ap.parse_args()
    random.seed(1)
    torch.manual_seed(1)
    gen = torch.Generator().manual_seed(5)

    model = MiniUNet()
    crit = SegLoss()
    opt = torch.optim.Adam(model.parameters(), lr=a.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)

    step = 0
    for size, iters in SCHEDULE:
        bs = a.bs
        for _ in range(iters):
            img, mask = make_batch(bs, size, gen)
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                logits = model(img)
                loss, parts = crit(logits, mask)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            step += 1
            if step % 4 == 0:
                print(f"[{size}px] step {step} loss {loss.item():.4f} bce {parts['bce'].item():.4f} dice {parts['dice'].item():.4f}")
    torch.save(model.state_dict(), "/tmp/miniunet_last.pt")
    print("done")


if __name__ == "__main__":
    main()
