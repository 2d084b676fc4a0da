import torch
import torch.nn as nn
from torch.utils.data import DataLoader

from dataset import RGBDScenes


def si_log_loss(pred_log, depth, lam=0.5):
    """scale invariant log loss over the pixels that have a depth"""
    valid = torch.isfinite(depth) & (depth > 0)
    target = torch.where(valid, depth, torch.ones_like(depth)).log()
    d = torch.where(valid, pred_log - target, torch.zeros_like(pred_log))
    n = valid.sum((1, 2)).clamp(min=1)
    mean_sq = (d ** 2).sum((1, 2)) / n
    sq_mean = (d.sum((1, 2)) / n) ** 2
    return (mean_sq - lam * sq_mean).mean()


def build_net(ch=10):
    return nn.Sequential(
        nn.Conv2d(3, ch, 3, padding=1), nn.GroupNorm(2, ch), nn.ReLU(),
        nn.Conv2d(ch, ch, 3, padding=1), nn.GroupNorm(2, ch), nn.ReLU(),
        nn.Conv2d(ch, 1, 1),
    )


class DepthTrainer:
    def __init__(self, lr=4e-3):
        torch.manual_seed(9)
        self.net = build_net()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 14)
        self.loader = DataLoader(RGBDScenes(), batch_size=12, shuffle=True)

    def step(self, rgb, depth):
        with torch.autocast("cpu", dtype=torch.float16):
            out = self.net(rgb).squeeze(1)
        loss = si_log_loss(out.float(), depth)
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item(), out.float().detach()

    def run(self, epochs=3):
        for epoch in range(epochs):
            total, errors = 0.0, []
            for rgb, depth in self.loader:
                loss, out = self.step(rgb, depth)
                total += loss
                # NaN wherever there is no ground truth; nanmean ignores those
                errors.append(((out.exp() - depth).abs() / depth).flatten())
            errors = torch.cat(errors)
            print(f"epoch {epoch} loss {total / len(self.loader):.4f} abs rel {errors.nanmean().item():.4f} "
                  f"raw mean {errors.mean().item()} without depth {errors.isnan().float().mean().item():.2f}")


if __name__ == "__main__":
    DepthTrainer().run()
