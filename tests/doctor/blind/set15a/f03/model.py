import torch
import torch.nn as nn


def to_windows(x, ws):
    # (B, H, W, C) -> (B * nW, ws * ws, C)
    B, H, W, C = x.shape
    x = x.view(B, H // ws, ws, W // ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, C)


def from_windows(x, ws, B, H, W):
    x = x.view(B, H // ws, W // ws, ws, ws, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


class WindowAttention(nn.Module):
    def __init__(self, dim, heads, ws):
        super().__init__()
        self.heads, self.ws = heads, ws
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.bias = nn.Parameter(torch.zeros(heads, ws * ws, ws * ws))

    def forward(self, x, valid):
        N, L, C = x.shape
        q, k, v = self.qkv(x).view(N, L, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attn = (q @ k.transpose(-2, -1)) * self.scale + self.bias
        # padded tokens must not be attended to
        attn = attn.masked_fill(~valid.view(N, 1, 1, L), float("-inf"))
        attn = attn.softmax(-1).to(v.dtype)
        out = (attn @ v).transpose(1, 2).reshape(N, L, C)
        return self.proj(out)


class Block(nn.Module):
    def __init__(self, dim, heads, ws, shift):
        super().__init__()
        self.ws, self.shift = ws, shift
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, heads, ws)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, valid):
        B, H, W, C = x.shape
        y, m = self.n1(x), valid
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
            m = torch.roll(m, (-self.shift, -self.shift), (1, 2))
        y = self.attn(to_windows(y, self.ws), to_windows(m[..., None], self.ws)[..., 0])
        y = from_windows(y, self.ws, B, H, W)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + y
        return x + self.mlp(self.n2(x))


class RaggedSwin(nn.Module):
    """Window attention over a batch of images of different sizes, zero padded."""

    def __init__(self, classes=5, dim=48, heads=4, ws=4, depth=4, patch=4):
        super().__init__()
        self.patch = patch
        self.embed = nn.Conv2d(3, dim, patch, patch)
        self.blocks = nn.ModuleList(Block(dim, heads, ws, 0 if i % 2 == 0 else ws // 2) for i in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x, sizes):
        x = self.embed(x).permute(0, 2, 3, 1)
        B, H, W, _ = x.shape
        valid = torch.zeros(B, H, W, dtype=torch.bool)
        for i, (h, w) in enumerate(sizes):
            valid[i, : h // self.patch, : w // self.patch] = True
        for blk in self.blocks:
            x = blk(x, valid)
        x = self.norm(x) * valid[..., None]
        x = x.sum((1, 2)) / valid.sum((1, 2))[:, None]
        return self.head(x)
