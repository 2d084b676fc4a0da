"""Vision transformer on 4-class patterns with half precision."""
import torch
from torch import nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = (q * (d // self.heads) ** -0.5) @ k.transpose(-2, -1)
        return self.proj((a.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.ff(self.n2(x))


class ViT(nn.Module):
    def __init__(self, dim=32, depth=2, classes=4, patch=4, size=16):
        super().__init__()
        self.patch = nn.Conv2d(1, dim, patch, patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, dim) * 0.02)
        self.layers = nn.Sequential(*[Layer(dim) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, classes)

    def forward(self, x):
        t = self.patch(x).flatten(2).transpose(1, 2)
        t = torch.cat([self.cls.expand(len(t), -1, -1).to(t.dtype), t], 1) + self.pos
        return self.fc(self.norm(self.layers(t))[:, 0])


class Trainer:
    def __init__(self, model, lr=0.1, max_norm=1.0):
        self.model = model
        self.max_norm = max_norm
        self.opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu")
        self.history = []

    def step(self, x, y):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(self.model(x), y)
        self.opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.scaler.step(self.opt)
        self.scaler.update()
        self.history.append(loss.item())
        return norm

    def run(self, data, steps, bs=32):
        x, y = data
        for s in range(steps):
            j = torch.randint(0, len(x), (bs,))
            norm = self.step(x[j], y[j])
            if s % 12 == 0 or s == steps - 1:
                mean = sum(self.history[-12:]) / len(self.history[-12:])
                print(f"step {s:3d} loss {mean:.4f} norm {float(norm):.3g} scale {self.scaler.get_scale():.0f}")


def patterns(n=256):
    g = torch.Generator().manual_seed(4)
    y = torch.randint(0, 4, (n,), generator=g)
    t = torch.linspace(0, 6.28, 16)
    base = torch.stack([
        torch.sin(2 * t)[None].expand(16, 16), torch.sin(2 * t)[:, None].expand(16, 16),
        torch.sin(t[:, None] + t[None]), torch.cos(2 * (t[:, None] - t[None]))])
    return (base[y] + 0.5 * torch.randn(n, 16, 16, generator=g))[:, None], y


torch.manual_seed(0)
Trainer(ViT()).run(patterns(), 60)
