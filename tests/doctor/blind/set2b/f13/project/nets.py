import torch
import torch.nn as nn


class SubsampleConv(nn.Module):
    def __init__(self, d_in, d):
        super().__init__()
        self.c1 = nn.Conv1d(d_in, d, 3, stride=2, padding=1)
        self.c2 = nn.Conv1d(d, d, 3, stride=2, padding=1)

    def forward(self, x):
        x = torch.relu(self.c1(x.transpose(1, 2)))
        return torch.relu(self.c2(x)).transpose(1, 2)


class SelfAttention(nn.Module):
    def __init__(self, d, heads=4):
        super().__init__()
        self.h = heads
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        o = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.proj(o.transpose(1, 2).reshape(b, t, d))


class AcousticModel(nn.Module):
    def __init__(self, n_mels=20, d=64, depth=2, n_tokens=12):
        super().__init__()
        self.sub = SubsampleConv(n_mels, d)
        self.layers = nn.ModuleList()
        for _ in range(depth):
            self.layers.append(nn.ModuleDict({
                "ln1": nn.LayerNorm(d), "att": SelfAttention(d), "ln2": nn.LayerNorm(d),
                "ff": nn.Sequential(nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d))}))
        self.out = nn.Linear(d, n_tokens)

    def forward(self, feats):
        x = self.sub(feats)
        for m in self.layers:
            x = x + m["att"](m["ln1"](x))
            x = x + m["ff"](m["ln2"](x))
        return self.out(x)
