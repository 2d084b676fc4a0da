import argparse
import warnings

import torch

from engine import Trainer
from networks import DepthNet

warnings.filterwarnings("ignore", message="Detected call of `lr_scheduler.step")


def street_scene(batch, gen, size=48):
    """Road below the horizon, buildings at the side, sky above."""
    rows = torch.arange(size).float().view(1, size, 1).expand(batch, size, size)
    horizon = 14 + 6 * torch.rand(batch, 1, 1, generator=gen)
    below = (rows - horizon).clamp(min=0.0)
    depth = torch.where(below > 0.5, 90.0 / (below + 0.5), torch.full_like(rows, 900.0))
    depth = depth.clamp(2.0, 900.0)
    col = int(torch.randint(0, size - 12, (1,), generator=gen))
    near = 5 + 20 * torch.rand(batch, 1, 1, generator=gen)
    depth[:, 8:, col:col + 12] = torch.minimum(depth[:, 8:, col:col + 12], near)
    brightness = (depth.log() / 7.0).unsqueeze(1)
    image = torch.cat([brightness, brightness ** 2, 1 - brightness], 1)
    image = image + 0.02 * torch.randn(image.shape, generator=gen)
    return image, depth.unsqueeze(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=120)
    ap.add_argument("--batch", type=int, default=4)
    ap.add_argument("--lr", type=float, default=6e-4)
    args = ap.parse_args()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    trainer = Trainer(DepthNet(), args.lr, args.steps)
    for step in range(args.steps):
        image, target = street_scene(args.batch, gen)
        loss, depth = trainer.train_step(image, target)
        if step % 10 == 0:
            rel = ((depth.float() - target).abs() / target).mean().item()
            print(f"[{step:03d}] loss={loss:.4f} abs_rel={rel:.3f} depth=[{depth.min():.2f}, {depth.max():.2f}]")
    first, last = trainer.history[60], sum(trainer.history[-10:]) / 10
    print(f"loss at 60: {first:.4f}, mean of the last ten: {last:.4f}")


if __name__ == "__main__":
    main()
