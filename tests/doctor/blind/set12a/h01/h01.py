"""Sequence reversal with an encoder-decoder transformer, float16 autocast, greedy decoding."""
import argparse
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, BOS, EOS, VOCAB = 0, 1, 2, 12


def batch(n, max_len, gen):
    lens = torch.randint(2, max_len + 1, (n,), generator=gen)
    src = torch.full((n, max_len), PAD)
    tgt = torch.full((n, max_len + 2), PAD)
    for i, l in enumerate(lens.tolist()):
        s = torch.randint(3, VOCAB, (l,), generator=gen)
        src[i, :l] = s
        tgt[i, :l + 2] = torch.cat([torch.tensor([BOS]), s.flip(0), torch.tensor([EOS])])
    return src, tgt


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.h = heads
        self.q, self.kv, self.o = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def forward(self, x, mem, bias):
        b, n, d = x.shape
        q = self.q(x).view(b, n, self.h, -1).transpose(1, 2) / math.sqrt(d // self.h)
        k, v = self.kv(mem).view(b, mem.size(1), 2, self.h, -1).permute(2, 0, 3, 1, 4)
        score = q @ k.transpose(-1, -2) + bias
        return self.o((score.softmax(-1).to(v.dtype) @ v).transpose(1, 2).reshape(b, n, d))


class Layer(nn.Module):
    def __init__(self, dim, heads, cross):
        super().__init__()
        self.att = Attention(dim, heads)
        self.cross = Attention(dim, heads) if cross else None
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(3))

    def forward(self, x, bias, mem=None, mem_bias=None):
        h = self.norms[0](x)
        x = x + self.att(h, h, bias)
        if self.cross is not None:
            x = x + self.cross(self.norms[1](x), mem, mem_bias)
        return x + self.ff(self.norms[2](x))


class Seq2Seq(nn.Module):
    def __init__(self, max_len, dim=48, heads=4):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.pos = nn.Parameter(0.1 * torch.randn(max_len + 2, dim))
        self.enc, self.dec = Layer(dim, heads, False), Layer(dim, heads, True)
        self.out = nn.Linear(dim, VOCAB)
        causal = torch.full((max_len + 2, max_len + 2), float("-inf")).triu(1)
        self.register_buffer("causal", causal)

    def forward(self, src, tgt):
        pad = torch.zeros(src.shape).masked_fill(src == PAD, float("-inf"))[:, None, None, :]
        mem = self.enc(self.emb(src) + self.pos[:src.size(1)], pad)
        n = tgt.size(1)
        x = self.dec(self.emb(tgt) + self.pos[:n], self.causal[:n, :n], mem, pad)
        return self.out(x)


@torch.no_grad()
def greedy(model, src, max_len):
    out = torch.full((len(src), 1), BOS)
    for _ in range(max_len + 1):
        logits = model(src, out)[:, -1].float()
        logits[:, [PAD, BOS]] = float("-inf")
        out = torch.cat([out, logits.argmax(-1, keepdim=True)], 1)
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=160)
    ap.add_argument("--max-len", type=int, default=5)
    args = ap.parse_args()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    model = Seq2Seq(args.max_len)
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 11)
    for step in range(args.steps):
        src, tgt = batch(32, args.max_len, gen)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(src, tgt[:, :-1])
            loss = F.cross_entropy(logits.transpose(1, 2), tgt[:, 1:], ignore_index=PAD)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if step % 20 == 0 or step == args.steps - 1:
            print(f"{step:4d} loss {loss.item():.4f}")
    src, tgt = batch(64, args.max_len, gen)
    hyp, ref = greedy(model, src, args.max_len)[:, 1:], tgt[:, 1:]
    keep = ref != PAD
    print("token accuracy", ((hyp == ref) & keep).sum().item() / keep.sum().item())


if __name__ == "__main__":
    main()
