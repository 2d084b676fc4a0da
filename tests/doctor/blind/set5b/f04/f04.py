"""Refine camera orientations: a network predicts a small rotation that is
applied to a coarse estimate; the loss is the angle between prediction and truth."""
import torch
from torch import nn


def quat_mul(a, b):
    aw, ax, ay, az = a.unbind(-1)
    bw, bx, by, bz = b.unbind(-1)
    return torch.stack([
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw], -1)


def random_quat(n, g):
    q = torch.randn(n, 4, generator=g)
    return q / q.norm(dim=-1, keepdim=True)


def small_quat(n, size, g):
    v = torch.randn(n, 3, generator=g) * size
    q = torch.cat([torch.ones(n, 1), v], -1)
    return q / q.norm(dim=-1, keepdim=True)


def angle_between(p, q):
    dot = (p * q).sum(-1).abs().clamp(max=1.0)
    return 2 * torch.acos(dot)


class Refiner(nn.Module):
    def __init__(self, feats=12, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(feats + 4, width), nn.SiLU(),
                                  nn.Linear(width, width), nn.SiLU())
        self.delta = nn.Linear(width, 3)
        nn.init.zeros_(self.delta.weight)
        nn.init.zeros_(self.delta.bias)

    def forward(self, feats, coarse):
        v = self.delta(self.body(torch.cat([feats, coarse], -1))).float()
        q = torch.cat([torch.ones_like(v[:, :1]), v], -1)
        q = q / q.norm(dim=-1, keepdim=True)
        return quat_mul(q, coarse)


class PoseSet(torch.utils.data.Dataset):
    def __init__(self, n=512, seed=11):
        g = torch.Generator().manual_seed(seed)
        self.coarse = random_quat(n, g)
        offset = small_quat(n, 0.15, g)
        static = torch.rand(n, generator=g) < 0.02
        offset[static] = torch.tensor([1.0, 0.0, 0.0, 0.0])
        self.truth = quat_mul(offset, self.coarse)
        lift = torch.randn(3, 12, generator=g)
        self.feats = offset[:, 1:] @ lift + 0.01 * torch.randn(n, 12, generator=g)

    def __len__(self):
        return len(self.truth)

    def __getitem__(self, i):
        return self.feats[i], self.coarse[i], self.truth[i]


def fit():
    torch.manual_seed(2)
    loader = torch.utils.data.DataLoader(PoseSet(), batch_size=32, shuffle=True)
    net = Refiner()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(3):
        angles = []
        for feats, coarse, truth in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                pred = net(feats, coarse)
                loss = angle_between(pred, truth).mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            angles.append(loss.item())
        print(f"epoch {epoch} mean angle {sum(angles) / len(angles) * 57.3:.2f} deg")


if __name__ == "__main__":
    fit()
