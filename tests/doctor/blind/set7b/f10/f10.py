import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

from f10.agc import adaptive_clip


class SmallMixer(nn.Module):
    """MLP-Mixer on 8x8 patches of 16x16 synthetic textures."""

    def __init__(self, patches=16, dim=32, classes=4):
        super().__init__()
        self.stem = nn.Conv2d(1, dim, 4, 4)
        self.tok = nn.Sequential(nn.Linear(patches, 32), nn.GELU(), nn.Linear(32, patches))
        self.ch = nn.Sequential(nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, dim))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        h = self.stem(x).flatten(2).transpose(1, 2)
        h = h + self.tok(self.n1(h).transpose(1, 2)).transpose(1, 2)
        h = h + self.ch(self.n2(h))
        return self.head(h.mean(1))


def textures(n, gen):
    y = torch.randint(0, 4, (n,), generator=gen)
    grid = torch.arange(16).float()
    phase = torch.rand(n, 1, 1, generator=gen) * 6.28
    horiz = torch.sin(grid[None, :, None] * 1.3 + phase).expand(n, 16, 16)
    vert = torch.sin(grid[None, None, :] * 1.3 + phase).expand(n, 16, 16)
    img = torch.stack([horiz, vert, horiz * vert, (horiz + vert) / 2], 1)[torch.arange(n), y]
    return (img + 0.3 * torch.randn(n, 16, 16, generator=gen)).unsqueeze(1), y


def train_one_step(model, opt, scaler, x, y, args):
    with torch.autocast("cpu", dtype=torch.float16, enabled=args.amp):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    opt.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    adaptive_clip(model.parameters(), clipping=args.agc)
    scaler.step(opt)
    scaler.update()
    return loss.detach(), logits.argmax(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--no-amp", dest="amp", action="store_false")
    ap.add_argument("--agc", type=float, default=0.05)
    ap.add_argument("--lr", type=float, default=0.2)
    ap.add_argument("--steps", type=int, default=80)
    args = ap.parse_args()

    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    model = SmallMixer()
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, nesterov=True)
    scaler = torch.amp.GradScaler("cpu", enabled=args.amp, init_scale=4096.0)
    for step in range(args.steps):
        x, y = textures(48, gen)
        loss, guess = train_one_step(model, opt, scaler, x, y, args)
        if step % 10 == 9:
            acc = (guess == y).float().mean()
            print(f"[{step + 1}/{args.steps}] loss {loss:.4f} acc {acc:.2f}")


if __name__ == "__main__":
    main()
