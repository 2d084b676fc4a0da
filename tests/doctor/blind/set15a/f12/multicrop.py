"""SimSiam with multi-crop; the crops are encoded by a small pool of workers to use all cores."""
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(4)


class Encoder(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2, 1), nn.GroupNorm(4, 32), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(32, dim), nn.BatchNorm1d(dim), nn.ReLU(),
            nn.Linear(dim, dim), nn.BatchNorm1d(dim, affine=False),
        )

    def forward(self, x):
        return self.body(x)


class SimSiam(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.encoder = Encoder(dim)
        self.predictor = nn.Sequential(
            nn.Linear(dim, dim // 4), nn.BatchNorm1d(dim // 4), nn.ReLU(), nn.Linear(dim // 4, dim))

    def encode(self, view):
        z = self.encoder(view)
        return z, self.predictor(z)


def crops(imgs, n_local=2):
    b, _, h, w = imgs.shape
    views = []
    for k in range(2 + n_local):
        s = 24 if k < 2 else 16
        y, x = torch.randint(0, h - s + 1, (1,)).item(), torch.randint(0, w - s + 1, (1,)).item()
        v = imgs[:, :, y:y + s, x:x + s]
        if torch.rand(1).item() < 0.5:
            v = v.flip(-1)
        views.append(v * (0.8 + 0.4 * torch.rand(b, 1, 1, 1)) + 0.1 * torch.randn_like(v))
    return views


def images(n, protos):
    y = torch.randint(0, len(protos), (n,))
    return F.interpolate(protos[y], size=(32, 32), mode="bilinear") + 0.3 * torch.randn(n, 3, 32, 32)


def neg_cosine(p, z):
    return -F.cosine_similarity(p.float(), z.detach().float(), dim=-1).mean()


def main():
    protos = torch.randn(12, 3, 5, 5)
    model = SimSiam()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    pool = ThreadPoolExecutor(max_workers=2)
    t0 = time.time()
    for it in range(40):
        views = crops(images(32, protos))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            outs = list(pool.map(model.encode, views))
            loss = 0.0
            for i in range(2):
                for j in range(len(outs)):
                    if i != j:
                        loss = loss + neg_cosine(outs[j][1], outs[i][0])
            loss = loss / (2 * (len(outs) - 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if it % 5 == 0:
            z = F.normalize(outs[0][0].float(), dim=1)
            mb = sum(o[0].element_size() * o[0].nelement() for o in outs) / 2 ** 20
            print(f"it {it:2d} loss {loss.item():.4f} std {z.std(0).mean().item():.4f} "
                  f"embeddings {outs[0][0].dtype} {mb:.3f} MiB  {time.time() - t0:.1f}s")
    pool.shutdown()


if __name__ == "__main__":
    main()
