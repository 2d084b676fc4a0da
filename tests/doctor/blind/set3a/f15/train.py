import argparse
import copy
import warnings

import torch
from torch.utils.data import DataLoader, Dataset

from diffusion import Schedule
from unet import UNet

warnings.filterwarnings("ignore")


class Blobs(Dataset):
    def __init__(self, n=320, size=12):
        g = torch.Generator().manual_seed(0)
        yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        c = torch.rand(n, 2, generator=g) * size
        r = 2 + 2 * torch.rand(n, generator=g)
        d = (yy[None] - c[:, :1, None]) ** 2 + (xx[None] - c[:, 1:, None]) ** 2
        self.x = (2 * torch.exp(-d / r[:, None, None] ** 2) - 1)[:, None]

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i]


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)
    return p.parse_args()


def main():
    args = parse()
    torch.manual_seed(0)
    device = torch.device(args.device)
    loader = DataLoader(Blobs(), batch_size=args.batch_size, shuffle=True, drop_last=True)
    sched = Schedule()
    net = UNet().to(device)
    ema = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler(enabled=args.amp)

    for epoch in range(args.epochs):
        tot = 0.0
        for x0 in loader:
            x0 = x0.to(device)
            t = torch.randint(0, sched.steps, (len(x0),), device=device)
            eps = torch.randn_like(x0)
            with torch.autocast(device.type, dtype=torch.float16, enabled=args.amp):
                pred = net(sched.noise(x0, t, eps), t)
                err = (pred.float() - eps).pow(2).mean((1, 2, 3))
                loss = (sched.p2_weight(t) * err).mean()
            opt.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            gn = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            with torch.no_grad():
                for e, p in zip(ema.parameters(), net.parameters()):
                    e.lerp_(p, 0.02)
            tot += loss.item()
        print(f"epoch {epoch} loss {tot / len(loader):.4f} grad norm {gn.item():.4f}")


if __name__ == "__main__":
    main()
