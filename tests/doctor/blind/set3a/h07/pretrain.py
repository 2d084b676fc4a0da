import argparse
import math

import torch
from torch.utils.data import DataLoader, Dataset

from moco_audio import MoCo


class Tones(Dataset):
    """Chords with vibrato; two random crops of each with noise."""

    def __init__(self, n=512, length=900):
        g = torch.Generator().manual_seed(4)
        t = torch.arange(length) / 400
        f = 8 + 90 * torch.rand(n, 3, generator=g)
        self.wav = torch.sin(2 * math.pi * f[..., None] * t + torch.sin(t * 9)).mean(1)

    def __len__(self):
        return len(self.wav)

    def crop(self, w):
        s = int(torch.randint(0, len(w) - 512, (1,)))
        return w[s:s + 512] + 0.05 * torch.randn(512)

    def __getitem__(self, i):
        return self.crop(self.wav[i]), self.crop(self.wav[i])


class EarlyStop:
    def __init__(self, patience):
        self.best, self.bad, self.patience = float("inf"), 0, patience

    def __call__(self, v):
        if v < self.best:
            self.best, self.bad = v, 0
        else:
            self.bad += 1
        return self.bad > self.patience


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--queue", type=int, default=256)
    args = ap.parse_args()
    torch.manual_seed(9)
    loader = DataLoader(Tones(), batch_size=32, shuffle=True, drop_last=True)
    moco = MoCo(args.queue)
    opt = torch.optim.Adam([p for p in moco.parameters() if p.requires_grad], lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 18)
    stop = EarlyStop(2)
    with torch.no_grad():
        for a, _ in loader:
            moco.enqueue(moco.k(a))
            break
    for ep in range(args.epochs):
        tot = 0.0
        for a, b in loader:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                loss, keys = moco(a, b)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            torch.nn.utils.clip_grad_norm_(moco.parameters(), 3.0)
            scaler.step(opt)
            scaler.update()
            moco.momentum()
            moco.enqueue(keys)
            tot += loss.item()
        mean = tot / len(loader)
        print(f"epoch {ep} loss {mean:.4f} queue {int(moco.filled.sum())}/{args.queue} best {stop.best:.4f} "
              f"tau {0.1 * moco.log_t.exp().item():.4f} scale {scaler.get_scale():g}")
        if stop(mean):
            print("early stop")
            break


if __name__ == "__main__":
    main()
