import argparse
import copy
import time

import torch
import torch.nn.functional as F

from diffusion import Schedule
from unet1d import UNet1d

PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def batch(n, g, length=64):
    t = torch.linspace(0, 1, length)
    f = torch.randint(1, 5, (n, 1, 1), generator=g)
    p = torch.rand(n, 1, 1, generator=g)
    return torch.sin(6.2832 * (f * t + p))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--precision", choices=PRECISIONS, default="bf16")
    ap.add_argument("--iters", type=int, default=60)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--ema", type=float, default=0.98)
    args = ap.parse_args()

    torch.manual_seed(0)
    g = torch.Generator().manual_seed(0)
    dtype = PRECISIONS[args.precision]
    sched, model = Schedule(), UNet1d()
    ema = copy.deepcopy(model).requires_grad_(False)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    print(f"training in {args.precision}, {sum(p.numel() for p in model.parameters())} parameters")

    start, losses = time.time(), []
    for it in range(1, args.iters + 1):
        x0 = batch(args.batch, g)
        t = torch.randint(0, sched.steps, (args.batch,), generator=g)
        eps = torch.randn(x0.shape, generator=g)
        xt = sched.noise(x0, t, eps)
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss = F.mse_loss(model(xt, t), eps)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        with torch.no_grad():
            for a, b in zip(ema.parameters(), model.parameters()):
                a.lerp_(b, 1 - args.ema)
        losses.append(loss.item())
        if it % 15 == 0:
            print(f"iter {it:3d} loss {sum(losses[-15:]) / 15:.4f} {(time.time() - start) / it * 1e3:.0f} ms/iter")
    torch.save(ema.state_dict(), "/tmp/ddpm1d_ema.pt")


if __name__ == "__main__":
    main()
