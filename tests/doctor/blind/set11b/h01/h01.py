"""Character-level transformer on synthetic text, windowed causal attention, fp16."""
import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn

TEXT = "the cat sat on the mat and the dog sat on the log while the bird sang to the cat "
CHARS = sorted(set(TEXT))


def window_bias(t, window):
    i = torch.arange(t)
    d = i[:, None] - i[None, :]
    bias = torch.full((t, t), float("-inf"))
    return bias.masked_fill((d >= 0) & (d < window), 0.0)


class Attention(nn.Module):
    def __init__(self, dim, heads, ctx, window):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.o = nn.Linear(dim, dim)
        self.register_buffer("bias", window_bias(ctx, window))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(x).chunk(3, -1))
        s = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)
        p = (s + self.bias[:t, :t].to(s.dtype)).softmax(-1)
        return self.o((p @ v).transpose(1, 2).reshape(b, t, d))


class Layer(nn.Module):
    def __init__(self, dim, **kw):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = Attention(dim, **kw)
        self.ff = nn.Sequential(nn.Linear(dim, 3 * dim), nn.GELU(), nn.Linear(3 * dim, dim))

    def forward(self, x):
        x = x + self.att(self.n1(x))
        return x + self.ff(self.n2(x))


class CharLM(nn.Module):
    def __init__(self, vocab, dim=40, heads=4, ctx=32, window=8, depth=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(ctx, dim)
        self.layers = nn.Sequential(*(Layer(dim, heads=heads, ctx=ctx, window=window) for _ in range(depth)))
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight[: ids.size(1)]
        x = self.norm(self.layers(x))
        return F.linear(x, self.tok.weight)


def batches(data, ctx, n, g):
    while True:
        at = torch.randint(len(data) - ctx - 1, (n,), generator=g)
        chunk = data[at[:, None] + torch.arange(ctx + 1)]
        yield chunk[:, :-1], chunk[:, 1:]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=120)
    ap.add_argument("--init-scale", type=float, default=2.0 ** 24)
    ap.add_argument("--lr", type=float, default=5e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(0)
    data = torch.tensor([CHARS.index(c) for c in TEXT * 20])
    model = CharLM(len(CHARS))
    nn.init.normal_(model.tok.weight, std=0.15)
    nn.init.normal_(model.pos.weight, std=0.05)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=args.init_scale)
    skipped = 0
    for step, (x, y) in zip(range(args.steps), batches(data, 32, 16, g)):
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(model(x).flatten(0, 1).float(), y.flatten())
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        skipped += int(not torch.isfinite(norm))
        if step % 20 == 0 or step == args.steps - 1:
            print(f"step {step:3d} loss {loss.item():.4f} gnorm {norm.item():.3f} scale {scaler.get_scale():g} skipped {skipped}")


if __name__ == "__main__":
    main()
