"""Few-shot segmentation with class prototypes (after PANet), episodes of made-up images."""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.GroupNorm(4, 8), nn.ReLU(),
            nn.Conv2d(8, 12, 3, 2, 1), nn.GroupNorm(4, 12), nn.ReLU(),
            nn.Conv2d(12, dim, 3, 2, 1), nn.GroupNorm(4, dim), nn.ReLU(),
            nn.Conv2d(dim, dim, 3, 1, 1),
        )

    def forward(self, x):
        return self.net(x)


def masked_average_pool(feats, mask):
    """feats (S,C,h,w), mask (S,H,W) of 0/1 -> one vector per shot."""
    mask = F.interpolate(mask[:, None], size=feats.shape[-2:], mode="nearest")
    mask = mask.to(feats.dtype)
    return (feats * mask).sum((2, 3)) / (mask.sum((2, 3)) + 1e-8)


class PANet(nn.Module):
    def __init__(self, temperature=10.0):
        super().__init__()
        self.encoder = Encoder()
        self.temperature = temperature

    def forward(self, sup_img, sup_mask, qry_img):
        shots = sup_img.shape[0]
        feats = self.encoder(torch.cat([sup_img, qry_img]))
        fs, fq = feats[:shots], feats[shots:]
        protos = [masked_average_pool(fs, 1 - sup_mask).mean(0)]
        protos.append(masked_average_pool(fs, sup_mask).mean(0))
        sims = [F.cosine_similarity(fq, p[None, :, None, None], dim=1) for p in protos]
        logits = torch.stack(sims, 1) * self.temperature
        return F.interpolate(logits, size=qry_img.shape[-2:], mode="bilinear", align_corners=False)


def paint(size, colour, rng):
    """an image with a blob of random size, and its mask"""
    img = torch.randn(3, size, size) * 0.3
    mask = torch.zeros(size, size)
    r = rng.choice([3, 5, 9, 14, 18])
    cy, cx = rng.randint(r, size - r - 1), rng.randint(r, size - r - 1)
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    inside = (yy - cy) ** 2 + (xx - cx) ** 2 <= r * r
    mask[inside] = 1
    img[:, inside] += colour[:, None]
    return img, mask


def episode(rng, shots=5, queries=3, size=56):
    colour = torch.randn(3) * 1.5
    sup = [paint(size, colour, rng) for _ in range(shots)]
    qry = [paint(size, colour, rng) for _ in range(queries)]
    stack = lambda xs, k: torch.stack([x[k] for x in xs])
    return stack(sup, 0), stack(sup, 1), stack(qry, 0), stack(qry, 1).long()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=24)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    rng = random.Random(args.seed)

    model = PANet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(args.steps):
        sup_img, sup_mask, qry_img, qry_mask = episode(rng)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(sup_img, sup_mask, qry_img)
            loss = F.cross_entropy(logits, qry_mask)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % 2 == 0:
            pred = logits.argmax(1)
            inter = ((pred == 1) & (qry_mask == 1)).sum().item()
            union = ((pred == 1) | (qry_mask == 1)).sum().item()
            print(f"episode {step:3d}  loss {loss.item():.4f}  iou {inter / max(union, 1):.3f}  scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
