"""BYOL pre-training and linear probe with a partly frozen backbone, float16 autocast."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        gabor = nn.Conv2d(1, 8, 5, padding=2, bias=False)
        grid = torch.arange(5.0) - 2
        for k in range(8):
            gabor.weight.data[k, 0] = torch.cos((k + 1) * 0.4 * (grid[None] if k % 2 else grid[:, None])).expand(5, 5) / 5
        self.filters = gabor.requires_grad_(False)
        self.net = nn.Sequential(
            nn.Conv2d(8, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, dim, 3, 2, 1), nn.BatchNorm2d(dim), nn.ReLU())
        self.classifier = nn.Linear(dim, 4)

    def forward(self, x):
        return self.net(self.filters(x)).mean((2, 3))


def projector(i, o=32):
    return nn.Sequential(nn.Linear(i, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, o))


class BYOL(nn.Module):
    def __init__(self):
        super().__init__()
        self.online = nn.Sequential(Encoder(), projector(64))
        self.predictor = projector(32)
        self.target = copy.deepcopy(self.online).requires_grad_(False)

    @torch.no_grad()
    def momentum(self, tau):
        for a, b in zip(self.target.parameters(), self.online.parameters()):
            if b.requires_grad:
                a.lerp_(b, 1 - tau)

    def forward(self, u, v):
        with torch.no_grad():
            tu, tv = self.target(u), self.target(v)
        pu, pv = self.predictor(self.online(u)), self.predictor(self.online(v))
        dist = lambda p, t: 2 - 2 * F.cosine_similarity(p.float(), t.float()).mean()
        return dist(pu, tv) + dist(pv, tu)


def data(n):
    y = torch.randint(0, 4, (n,))
    g = torch.arange(16.0)
    w = torch.sin((0.4 + 0.45 * (y % 2))[:, None] * g + torch.rand(n, 1) * 6.28)[:, None].expand(n, 16, 16)
    return torch.where((y < 2)[:, None, None], w, w.transpose(1, 2))[:, None] + 0.2 * torch.randn(n, 1, 16, 16), y


def augment(x):
    x = torch.roll(x, torch.randint(0, 16, (2,)).tolist(), (2, 3)) * (0.7 + 0.6 * torch.rand(len(x), 1, 1, 1))
    box = torch.ones_like(x)
    i, j = torch.randint(0, 11, (2,)).tolist()
    box[:, :, i:i + 5, j:j + 5] = 0
    return x * box


def pretrain(model, x, epochs=6):
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 23, growth_interval=50)
    for epoch in range(epochs):
        total, norms = 0.0, []
        for idx in torch.randperm(len(x)).split(48):
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = model(augment(x[idx]), augment(x[idx]))
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            norms.append(nn.utils.clip_grad_norm_(params, 3.0).item())
            scaler.step(opt)
            scaler.update()
            model.momentum(0.95)
            total += loss.item()
        print(f"pretrain {epoch} loss {total / len(norms):.4f} max grad norm {max(norms):.3f} scale 2^{torch.tensor(scaler.get_scale()).log2():.0f}")


def probe(encoder, x, y, xt, yt):
    encoder.requires_grad_(False).eval()
    head = encoder.classifier.requires_grad_(True)
    opt = torch.optim.Adam(encoder.parameters(), lr=2e-2)
    for step in range(60):
        loss = F.cross_entropy(head(encoder(x)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    with torch.no_grad():
        print(f"probe loss {loss.item():.4f} test acc {(head(encoder(xt)).argmax(1) == yt).float().mean():.3f}")


if __name__ == "__main__":
    torch.manual_seed(41)
    x, y = data(256)
    xt, yt = data(200)
    model = BYOL()
    pretrain(model, x)
    probe(model.online[0], x, y, xt, yt)
