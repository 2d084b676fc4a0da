"""Copy-with-offset language model: causal attention with -inf masks and right padding."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(2)
V, PAD = 30, 0


class SelfAttention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.h = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, bias):
        b, t, d = x.shape
        split = lambda y: y.view(b, t, self.h, d // self.h).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        s = q @ k.mT * (d // self.h) ** -0.5
        w = torch.softmax(s + bias, dim=-1)
        return self.o((w.to(v.dtype) @ v).transpose(1, 2).reshape(b, t, d))


class Decoder(nn.Module):
    def __init__(self, dim=64, depth=2):
        super().__init__()
        self.tok = nn.Embedding(V, dim, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(40, dim) * 0.02)
        self.att = nn.ModuleList(SelfAttention(dim) for _ in range(depth))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.GELU(), nn.Linear(3 * dim, dim))
            for _ in range(depth))
        self.ln = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.head = nn.Linear(dim, V)

    def forward(self, ids):
        t = ids.size(1)
        bias = torch.full((t, t), float("-inf")).triu(1)
        pad = torch.zeros(ids.shape).masked_fill(ids == PAD, float("-inf"))
        bias = bias + pad[:, None, None, :]
        x = self.tok(ids) + self.pos[:t]
        for ln, att, ff in zip(self.ln, self.att, self.ff):
            x = x + att(ln(x), bias)
            x = x + ff(x)
        return self.head(x)


def batch(n=24):
    lens = torch.randint(8, 21, (n,))
    start = torch.randint(1, V, (n, 1))
    step = torch.randint(1, 4, (n, 1))
    ids = 1 + (start + step * torch.arange(21)) % (V - 1)
    ids[torch.arange(21)[None] >= lens[:, None]] = PAD
    return ids


@torch.no_grad()
def sample(model, prompt, n, k=3):
    ids = prompt
    for _ in range(n):
        logits = model(ids)[:, -1].float()
        kth = logits.topk(k).values[:, -1:]
        logits = logits.masked_fill(logits < kth, float("-inf"))
        ids = torch.cat([ids, torch.multinomial(logits.softmax(-1), 1)], 1)
    return ids


model = Decoder()
opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
for it in range(70):
    ids = batch()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(ids[:, :-1])
        loss = F.cross_entropy(out.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PAD)
    opt.zero_grad()
    loss.backward()
    gn = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    if it % 10 == 9:
        print(f"it {it + 1} loss {loss.item():.3f} grad {gn:.2f}")
model.eval()
print(sample(model, torch.tensor([[3, 5, 7, 9, 11]]), 8).tolist())
