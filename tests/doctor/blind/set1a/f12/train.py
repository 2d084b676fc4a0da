import argparse

import torch

from gan.trainer import GanTrainer

ap = argparse.ArgumentParser(description="class-conditional GAN on a ring of Gaussians")
ap.add_argument("--iters", type=int, default=200)
ap.add_argument("--batch", type=int, default=64)
ap.add_argument("--z", type=int, default=8)
ap.add_argument("--lr-g", type=float, default=2e-3)
ap.add_argument("--lr-d", type=float, default=2e-3)
ap.add_argument("--seed", type=int, default=0)

if __name__ == "__main__":
    cfg = ap.parse_args()
    torch.manual_seed(cfg.seed)
    t = GanTrainer(cfg)
    t.run()
    print(f"mean distance to the class centre: {t.distance():.3f}")
