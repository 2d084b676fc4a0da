"""Style-transfer-like fit: AMP warm-up with Adam, then LBFGS polishing in float32."""
import argparse
import math

import torch
import torch.nn as nn


class Siren(nn.Module):
    """Coordinate network with sine activations."""

    def __init__(self, width=48, depth=3, w0=12.0):
        super().__init__()
        self.w0 = w0
        dims = [2] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims, dims[1:]))
        self.out = nn.Linear(width, 1)
        with torch.no_grad():
            for i, layer in enumerate(self.hidden):
                bound = 1 / layer.in_features if i == 0 else math.sqrt(6 / layer.in_features) / w0
                layer.weight.uniform_(-bound, bound)

    def forward(self, xy):
        h = xy
        for layer in self.hidden:
            h = torch.sin(self.w0 * layer(h))
        return self.out(h)


def picture(size):
    r = torch.linspace(-1, 1, size)
    yy, xx = torch.meshgrid(r, r, indexing="ij")
    value = torch.sin(5 * xx) * torch.cos(4 * yy) + (((xx - 0.2) ** 2 + yy ** 2) < 0.2).float()
    return torch.stack([xx, yy], -1).reshape(-1, 2), value.reshape(-1, 1)


def warm_up(model, xy, value, args):
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")
    for it in range(1, args.adam + 1):
        idx = torch.randint(len(xy), (args.batch,))
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(xy[idx]), value[idx])
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if it % 50 == 0:
            print(f"adam {it} loss {loss.item():.5f} scale {scaler.get_scale():g}")


def polish(model, xy, value, args):
    opt = torch.optim.LBFGS(model.parameters(), lr=1.0, max_iter=10, history_size=20, line_search_fn="strong_wolfe")
    scaler = torch.amp.GradScaler("cpu", enabled=False)

    def closure():
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16, enabled=False):
            loss = nn.functional.mse_loss(model(xy), value)
        scaler.scale(loss).backward()
        return loss

    for it in range(args.lbfgs):
        loss = scaler.step(opt, closure)
        scaler.update()
        print(f"lbfgs {it} loss {loss.item():.6f}")


def psnr(model, xy, value):
    with torch.no_grad():
        err = nn.functional.mse_loss(model(xy), value)
    return (10 * torch.log10(4.0 / err)).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", type=int, default=32)
    ap.add_argument("--adam", type=int, default=250)
    ap.add_argument("--lbfgs", type=int, default=6)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    xy, value = picture(args.size)
    model = Siren()
    print(f"psnr {psnr(model, xy, value):.2f}")
    warm_up(model, xy, value, args)
    print(f"psnr {psnr(model, xy, value):.2f}")
    polish(model, xy, value, args)
    print(f"psnr {psnr(model, xy, value):.2f}")


if __name__ == "__main__":
    main()
