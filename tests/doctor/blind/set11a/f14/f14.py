"""Coordinate network (Fourier features) fitted to camera-ray samples of a small scene."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def look_at(eye, target=np.zeros(3), up=np.array([0.0, 0.0, 1.0])):
    z = (eye - target) / np.linalg.norm(eye - target)
    x = np.cross(up, z)
    x /= np.linalg.norm(x)
    pose = np.eye(4)
    pose[:3, 0], pose[:3, 1], pose[:3, 2], pose[:3, 3] = x, np.cross(z, x), z, eye
    return pose


def camera_rays(n_views, res, rng):
    origins, dirs = [], []
    for _ in range(n_views):
        phi, theta = rng.uniform(0, 2 * np.pi), rng.uniform(0.3, 1.2)
        eye = 3 * np.array([np.cos(phi) * np.sin(theta), np.sin(phi) * np.sin(theta), np.cos(theta)])
        pose = look_at(eye)
        v, u = np.mgrid[-0.4:0.4:res * 1j, -0.4:0.4:res * 1j]
        d = np.stack([u, -v, -np.ones_like(u)], -1).reshape(-1, 3) @ pose[:3, :3].T
        dirs.append(d / np.linalg.norm(d, axis=1, keepdims=True))
        origins.append(np.broadcast_to(eye, d.shape))
    return np.concatenate(origins), np.concatenate(dirs)


def trace_sphere(o, d, radius=0.8):
    b = (o * d).sum(1)
    disc = b ** 2 - ((o ** 2).sum(1) - radius ** 2)
    hit = disc > 0
    t = -b - np.sqrt(np.maximum(disc, 0))
    normal = (o + t[:, None] * d) / radius
    return np.where(hit[:, None], 0.5 + 0.5 * normal, 0.05)


class FourierMLP(nn.Module):
    def __init__(self, n_freq=4, width=64):
        super().__init__()
        self.register_buffer("freq", 2.0 ** torch.arange(n_freq))
        self.layers = nn.ModuleList([nn.Linear(6 * 2 * n_freq, width), nn.Linear(width, width)])
        self.rgb = nn.Linear(width, 3)

    def forward(self, o, d):
        x = torch.cat([o / 3, d], dim=-1)[..., None] * self.freq
        h = torch.cat([x.sin(), x.cos()], dim=-1).flatten(1)
        for layer in self.layers:
            h = F.relu(layer(h))
        return torch.sigmoid(self.rgb(h))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--views", type=int, default=6)
    ap.add_argument("--res", type=int, default=24)
    ap.add_argument("--iters", type=int, default=300)
    ap.add_argument("--rays", type=int, default=512)
    ap.add_argument("--lr", type=float, default=4e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    o, d = camera_rays(args.views, args.res, rng)
    rgb = torch.from_numpy(trace_sphere(o, d))
    o, d = torch.from_numpy(o.copy()), torch.from_numpy(d)

    field = FourierMLP().to(dtype=o.dtype)
    opt = torch.optim.Adam(field.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")
    tic = time.time()
    for it in range(1, args.iters + 1):
        pick = torch.from_numpy(rng.integers(0, len(o), args.rays))
        with torch.autocast("cpu", dtype=torch.float16):
            pred = field(o[pick], d[pick])
            loss = F.mse_loss(pred, rgb[pick])
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if it % 50 == 0:
            mb = sum(p.numel() * p.element_size() for p in field.parameters()) / 2 ** 20
            print(f"it {it} psnr {-10 * np.log10(loss.item()):.2f} activations {pred.dtype} params {mb:.3f} MiB {1000 * (time.time() - tic) / it:.2f} ms/it")


if __name__ == "__main__":
    main()
