"""Patch transformer on synthetic digits-like glyphs, mixed-precision recipe with warm-up."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Glyphs(Dataset):
    def __init__(self, n, seed, classes=4, size=12):
        g = torch.Generator().manual_seed(seed)
        proto = (torch.rand(classes, size, size, generator=torch.Generator().manual_seed(5)) > 0.6).float()
        self.y = torch.randint(0, classes, (n,), generator=g)
        self.x = proto[self.y] + 0.5 * torch.randn(n, size, size, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class ViT(nn.Module):
    def __init__(self, size=12, patch=4, dim=32, classes=4):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(patch * patch, dim)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2 + 1, dim))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True) for _ in range(2))
        self.head = nn.Linear(dim, classes)
        self.last_dtype, self.activation_bytes = None, 0

    def forward(self, img):
        p = self.patch
        x = img.unfold(1, p, p).unfold(2, p, p).flatten(3).flatten(1, 2)
        x = self.embed(x)
        self.last_dtype, self.activation_bytes = x.dtype, x.numel() * x.element_size()
        x = torch.cat([self.cls.expand(len(x), -1, -1).to(x.dtype), x], 1) + self.pos
        for b in self.blocks:
            x = b(x)
        return self.head(x[:, 0])


def warmup_cosine(opt, warm, total):
    def f(s):
        return (s + 1) / warm if s < warm else 0.5 * (1 + math.cos(math.pi * (s - warm) / (total - warm)))
    return torch.optim.lr_scheduler.LambdaLR(opt, f)


def train(model, loader, epochs):
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    sched = warmup_cosine(opt, 8, epochs * len(loader))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
    for ep in range(epochs):
        total = 0.0
        for x, y in loader:
            opt.zero_grad(set_to_none=True)
            out = model(x)
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(out, y, label_smoothing=0.05)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            sched.step()
            total += loss.item()
        print(f"epoch {ep} loss {total / len(loader):.4f} tokens in {model.last_dtype}, "
              f"{model.activation_bytes} bytes per batch")


if __name__ == "__main__":
    torch.manual_seed(0)
    train(ViT(), DataLoader(Glyphs(192, 0), batch_size=24, shuffle=True), 4)
