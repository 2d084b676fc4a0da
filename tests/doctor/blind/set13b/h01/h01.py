"""Character language model on packed rows: several short documents share one row."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = "the cat sat on the mat. the dog ate the bone. a bird sang in the tree. rain fell on the roof. "
CHARS = sorted(set(TEXT))
STOI = {c: i + 1 for i, c in enumerate(CHARS)}
DOCS = [s.strip() + "." for s in TEXT.split(".") if s.strip()]
ROW = 64


def pack(g):
    """Returns token ids and the number of the document each belongs to; 0 is the padding."""
    ids, seg = torch.zeros(ROW, dtype=torch.long), torch.zeros(ROW, dtype=torch.long)
    at, k = 0, 1
    while True:
        doc = DOCS[int(torch.randint(0, len(DOCS), (1,), generator=g))]
        if at + len(doc) > ROW - 4:
            return ids, seg
        ids[at : at + len(doc)] = torch.tensor([STOI[c] for c in doc])
        seg[at : at + len(doc)] = k
        at, k = at + len(doc), k + 1


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.h = heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x, bias):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        w = q @ k.transpose(-1, -2) / math.sqrt(d // self.h) + bias
        x = x + self.o((w.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class CharLM(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.emb = nn.Embedding(len(CHARS) + 1, d, padding_idx=0)
        self.pos = nn.Parameter(0.02 * torch.randn(ROW, d))
        self.blocks = nn.ModuleList([Block(d, 4) for _ in range(2)])
        self.head = nn.Linear(d, len(CHARS) + 1)

    def forward(self, ids, seg):
        same = (seg[:, :, None] == seg[:, None, :]) & (seg[:, None, :] > 0)
        same &= torch.ones(ROW, ROW, dtype=torch.bool).tril()
        same |= torch.eye(ROW, dtype=torch.bool)
        bias = torch.zeros(same.shape).masked_fill(~same, -float("inf")).unsqueeze(1)
        x = self.emb(ids) + self.pos
        for blk in self.blocks:
            x = blk(x, bias)
        return self.head(x)


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(0)
    net = CharLM()
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    for step in range(60):
        rows = [pack(g) for _ in range(8)]
        ids, seg = torch.stack([r[0] for r in rows]), torch.stack([r[1] for r in rows])
        tgt = torch.where(seg[:, 1:] == seg[:, :-1], ids[:, 1:], 0)
        loss = F.cross_entropy(net(ids, seg)[:, :-1].flatten(0, 1), tgt.flatten(), ignore_index=0)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 9:
            print(f"step {step + 1} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
