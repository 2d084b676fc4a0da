"""Causal transformer on a copy task, bfloat16 autocast, left-padded batches."""
import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, PAD, SEP = 12, 0, 1
NEG = -1e9


class Block(nn.Module):
    def __init__(self, d, h=4):
        super().__init__()
        self.h = h
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x, mask):
        b, n, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) / (d // self.h) ** 0.5 + mask.to(q.dtype)
        x = x + self.o((s.softmax(-1).to(v.dtype) @ v).transpose(1, 2).reshape(b, n, d))
        return x + self.ff(self.n2(x))


class LM(nn.Module):
    def __init__(self, d=48, layers=2, length=11):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, d, padding_idx=PAD), nn.Embedding(length, d)
        self.blocks = nn.ModuleList([Block(d) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, VOCAB)

    def forward(self, ids):
        n = ids.shape[1]
        causal = torch.full((n, n), NEG).triu(1)
        pad = torch.zeros(ids.shape).masked_fill(ids == PAD, NEG)
        mask = causal[None, None] + pad[:, None, None]
        x = self.tok(ids) + self.pos.weight[:n]
        for blk in self.blocks:
            x = blk(x, mask)
        return self.head(self.norm(x))


def batch(n, gen, longest=5):
    rows, labels = [], []
    for _ in range(n):
        k = int(torch.randint(2, longest + 1, (1,), generator=gen))
        w = torch.randint(2, VOCAB, (k,), generator=gen)
        seq = torch.cat([w, torch.tensor([SEP]), w])
        gap = 2 * longest + 1 - len(seq)
        rows.append(F.pad(seq, (gap, 0), value=PAD))
        labels.append(F.pad(w, (gap + k + 1, 0), value=-100))
    return torch.stack(rows), torch.stack(labels)


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(2)
    model = LM()
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 150)
    for s in range(150):
        ids, lab = batch(32, gen)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1).float(), lab[:, 1:].flatten(), ignore_index=-100)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if s % 25 == 0 or s == 149:
            ok = lab[:, 1:] != -100
            print(f"{s} loss {loss.item():.4f} acc {(logits.argmax(-1) == lab[:, 1:])[ok].float().mean().item():.3f}")


main()
