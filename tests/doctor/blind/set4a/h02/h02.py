"""Copy task with an encoder-decoder; -inf masks for padding and for the future."""
import random
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, BOS, EOS = 0, 1, 2


def batch(rng, n):
    seqs = [[rng.randrange(3, 20) for _ in range(rng.randrange(2, 8))] for _ in range(n)]
    width = max(map(len, seqs))
    src = torch.zeros(n, width, dtype=torch.long)
    tgt = torch.zeros(n, width + 2, dtype=torch.long)
    for i, s in enumerate(seqs):
        src[i, : len(s)] = torch.tensor(s)
        tgt[i, : len(s) + 2] = torch.tensor([BOS] + s + [EOS])
    return src, tgt


def float_mask(blocked):
    return torch.zeros(blocked.shape).masked_fill(blocked, float("-inf"))


class Seq2Seq(nn.Module):
    def __init__(self, vocab=20, dim=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.pos = nn.Embedding(16, dim)
        self.tr = nn.Transformer(dim, 4, 1, 2, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, src, tgt):
        t = tgt.shape[1]
        causal = float_mask(torch.ones(t, t, dtype=torch.bool).triu(1))
        src_pad, tgt_pad = float_mask(src == PAD), float_mask(tgt == PAD)
        s = self.emb(src) + self.pos(torch.arange(src.shape[1]))
        d = self.emb(tgt) + self.pos(torch.arange(t))
        h = self.tr(
            s, d, tgt_mask=causal, src_key_padding_mask=src_pad,
            tgt_key_padding_mask=tgt_pad, memory_key_padding_mask=src_pad,
        )
        return self.out(h)


torch.manual_seed(0)
rng = random.Random(0)
model = Seq2Seq()
opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
for step in range(160):
    src, tgt = batch(rng, 32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(src, tgt[:, :-1])
        losses = F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), reduction="none")
        real = (tgt[:, 1:] != PAD).flatten()
        loss = losses[real].mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    if step % 20 == 0 or step == 159:
        print(step, round(loss.item(), 4))

model.eval()
src, tgt = batch(rng, 8)
scores = torch.full((8, 1), 0.0)
ids = torch.full((8, 1), BOS)
with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
    for _ in range(src.shape[1] + 1):
        nxt = model(src, ids)[:, -1].float()
        nxt[:, [PAD, BOS]] = float("-inf")
        logp = nxt.log_softmax(-1)
        best = logp.max(-1)
        scores = scores + best.values[:, None]
        ids = torch.cat([ids, best.indices[:, None]], 1)
print("copied:", (ids[:, 1 : src.shape[1] + 1] == src)[src != PAD].float().mean().item())
