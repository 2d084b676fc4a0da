"""Truncated BPTT for a character GRU; the chunks of a stream are produced by a generator."""
import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = ("the quick brown fox jumps over the lazy dog and runs away from the angry bees. "
        "a small boat drifts along the quiet river while the sun goes down behind the hills. ") * 12


class CharGRU(nn.Module):
    def __init__(self, vocab, dim=96):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rz = nn.Linear(2 * dim, 2 * dim)
        self.cand = nn.Linear(2 * dim, dim)
        self.out = nn.Linear(dim, vocab)
        self.dim = dim

    def cell(self, x, h):
        r, z = self.rz(torch.cat([x, h], -1)).sigmoid().chunk(2, -1)
        n = self.cand(torch.cat([x, r * h], -1)).tanh()
        return (1 - z) * n + z * h

    def forward(self, ids, h):
        hs = []
        for x in self.emb(ids).unbind(1):
            h = self.cell(x, h)
            hs.append(h)
        return self.out(torch.stack(hs, 1)), h


class StreamTrainer:
    def __init__(self, text, batch=8, chunk=16):
        chars = sorted(set(text))
        ids = torch.tensor([chars.index(c) for c in text])
        n = (len(ids) - 1) // batch * batch
        self.x = ids[:n].view(batch, -1)
        self.y = ids[1:n + 1].view(batch, -1)
        self.chunk = chunk
        self.model = CharGRU(len(chars))
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=4e-3)

    @torch.autocast("cpu", dtype=torch.bfloat16)
    def losses(self):
        h = torch.zeros(self.x.size(0), self.model.dim)
        for s in range(0, self.x.size(1) - self.chunk, self.chunk):
            logits, h = self.model(self.x[:, s:s + self.chunk], h.detach())
            yield F.cross_entropy(logits.flatten(0, 1), self.y[:, s:s + self.chunk].flatten()), logits.dtype

    def epoch(self):
        total, n, seen = 0.0, 0, set()
        for loss, dtype in self.losses():
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.opt.step()
            total, n = total + loss.item(), n + 1
            seen.add(str(dtype))
        return total / n, seen


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = StreamTrainer(TEXT)
    for e in range(4):
        loss, dtypes = trainer.epoch()
        print(f"epoch {e}: loss {loss:.3f}, logits in {', '.join(sorted(dtypes))}")
