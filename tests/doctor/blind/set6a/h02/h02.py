"""Sliding-window encoder over padded event sequences; additive -inf attention bias."""
import math
import torch
from torch import nn
from torch.nn import functional as F


class WindowAttention(nn.Module):
    def __init__(self, dim, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def bias(self, pad):
        n = pad.size(1)
        i = torch.arange(n)
        far = (i[:, None] - i[None, :]).abs() > self.window
        blocked = far[None] | pad[:, None, :]
        blocked = blocked & ~torch.eye(n, dtype=torch.bool)[None]
        return torch.zeros(blocked.shape).masked_fill(blocked, -torch.inf).unsqueeze(1)

    def forward(self, x, pad):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        score = q @ k.mT / math.sqrt(d // self.heads) + self.bias(pad)
        w = torch.softmax(score, -1)
        return self.out((w.to(v.dtype) @ v).transpose(1, 2).reshape(b, n, d))


class Model(nn.Module):
    def __init__(self, vocab=40, dim=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.att = nn.ModuleList(WindowAttention(dim, 4, 3) for _ in range(2))
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))
        self.cls = nn.Linear(dim, 2)

    def forward(self, ids):
        pad = ids == 0
        h = self.emb(ids)
        for att, norm in zip(self.att, self.norm):
            h = h + att(norm(h), pad)
        top = h.float().masked_fill(pad[..., None], float("-inf")).amax(1)
        return self.cls(top)


def batch(n=48, length=16):
    ids = torch.randint(3, 40, (n, length))
    y = torch.randint(0, 2, (n,))
    lens = torch.randint(4, length + 1, (n,))
    for r in range(n):
        p = int(torch.randint(0, int(lens[r]) - 1, (1,)))
        ids[r, p] = 1
        ids[r, p + 1] = 2 if y[r] else 3
        ids[r, lens[r]:] = 0
    flip = torch.rand(n) < 0.06
    return ids, torch.where(flip, 1 - y, y)


if __name__ == "__main__":
    torch.manual_seed(4)
    model = Model()
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
    scaler = torch.amp.GradScaler("cpu")
    for step in range(90):
        ids, y = batch()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(model(ids), y)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        if step % 10 == 9:
            print(f"step {step + 1} loss {loss.item():.4f} scale {scaler.get_scale():g}")
