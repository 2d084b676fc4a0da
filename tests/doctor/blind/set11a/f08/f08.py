"""Facial landmark regression, large-batch recipe with the linear scaling rule."""
import argparse
import json
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

DEFAULTS = {
    "base_lr": 0.1,
    "reference_batch": 4,
    "batch_size": 32,
    "accumulate": 4,
    "warmup": 10,
    "updates": 60,
    "momentum": 0.9,
    "num_landmarks": 4,
}


class Faces:
    """Four bright dots; the targets are their coordinates in [0, 1]."""

    def __init__(self, k, size=16, seed=0):
        self.k, self.size = k, size
        self.g = torch.Generator().manual_seed(seed)

    def batch(self, n):
        base = torch.tensor([[0.3, 0.3], [0.3, 0.7], [0.7, 0.35], [0.7, 0.65]])[: self.k]
        pts = base + 0.1 * (torch.rand(n, self.k, 2, generator=self.g) - 0.5) + 0.15 * (torch.rand(n, 1, 2, generator=self.g) - 0.5)
        t = torch.linspace(0, 1, self.size)
        dy = (t[None, None, :, None] - pts[:, :, 0, None, None]) ** 2
        dx = (t[None, None, None, :] - pts[:, :, 1, None, None]) ** 2
        img = torch.exp(-(dy + dx) / 0.004).sum(1, keepdim=True)
        return img, pts.flatten(1)


class LandmarkNet(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU())
        self.fc1 = nn.Linear(16 * 16, 64)
        self.fc2 = nn.Linear(64, 2 * k)

    def forward(self, x):
        h = self.conv(x).flatten(1)
        return self.fc2(F.relu(self.fc1(h)))


def scaled_lr(cfg):
    return cfg["base_lr"] * cfg["batch_size"] * cfg["accumulate"] / cfg["reference_batch"]


def lr_lambda(cfg):
    def fn(i):
        if i < cfg["warmup"]:
            return (i + 1) / cfg["warmup"]
        t = (i - cfg["warmup"]) / max(1, cfg["updates"] - cfg["warmup"])
        return 0.5 * (1 + math.cos(math.pi * t))
    return fn


def main(cfg):
    torch.manual_seed(0)
    faces = Faces(cfg["num_landmarks"])
    net = LandmarkNet(cfg["num_landmarks"])
    opt = torch.optim.SGD(net.parameters(), lr=scaled_lr(cfg), momentum=cfg["momentum"])
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lr_lambda(cfg))
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for update in range(cfg["updates"]):
        opt.zero_grad()
        running = 0.0
        for _ in range(cfg["accumulate"]):
            img, pts = faces.batch(cfg["batch_size"])
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.mse_loss(net(img), pts, reduction="none").sum(dim=1).mean()
            scaler.scale(loss / cfg["accumulate"]).backward()
            running += loss.item() / cfg["accumulate"]
        scaler.step(opt)
        scaler.update()
        sched.step()
        if update % 5 == 0 or update == cfg["updates"] - 1:
            print(json.dumps({"update": update, "loss": running, "lr": opt.param_groups[0]["lr"], "scale": scaler.get_scale()}))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    for key, value in DEFAULTS.items():
        ap.add_argument("--" + key.replace("_", "-"), type=type(value), default=value)
    main(vars(ap.parse_args()))
