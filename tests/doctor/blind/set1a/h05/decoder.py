import torch
import torch.nn as nn


class TinyDecoder(nn.Module):
    """One-layer causal decoder with a key/value cache for generation."""

    def __init__(self, vocab, d=40, ctx=32):
        super().__init__()
        self.ctx, self.d = ctx, d
        self.tok = nn.Embedding(vocab, d)
        self.pos = nn.Embedding(ctx, d)
        self.q, self.k, self.v = (nn.Linear(d, d) for _ in range(3))
        self.ff = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.ReLU(), nn.Linear(3 * d, d))
        self.out = nn.Linear(d, vocab)

    def forward(self, idx):
        t = idx.shape[1]
        x = self.tok(idx) + self.pos.weight[:t]
        causal = torch.ones(t, t, dtype=torch.bool, device=idx.device).tril()
        s = self.q(x) @ self.k(x).transpose(1, 2) * self.d ** -0.5
        s = s.masked_fill(~causal, float("-inf"))
        x = x + s.softmax(-1) @ self.v(x)
        return self.out(x + self.ff(x))

    def new_cache(self, batch):
        return torch.empty(2, batch, self.ctx, self.d)

    def step(self, tok, t, cache):
        x = self.tok(tok) + self.pos.weight[t]
        cache[0][:, t] = self.k(x).float()
        cache[1][:, t] = self.v(x).float()
        k, v = cache[0][:, :t + 1], cache[1][:, :t + 1]
        w = torch.einsum("bd,btd->bt", self.q(x).float(), k) * self.d ** -0.5
        x = x + torch.einsum("bt,btd->bd", w.softmax(-1), v)
        return self.out(x + self.ff(x))


def top_k_filter(logits, k):
    kth = logits.topk(k, dim=-1).values[..., -1:]
    return logits.masked_fill(logits < kth, -float("inf"))


@torch.inference_mode()
def generate(model, start, length, k=3, temperature=0.8, generator=None):
    model.eval()
    cache = model.new_cache(start.shape[0])
    tok, out, score = start, [start], torch.zeros(start.shape[0])
    for t in range(length):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model.step(tok, t, cache)
        logp = top_k_filter(logits.float() / temperature, k).log_softmax(-1)
        tok = torch.multinomial(logp.exp(), 1, generator=generator).squeeze(1)
        score += logp.gather(1, tok.unsqueeze(1)).squeeze(1)
        out.append(tok)
    return torch.stack(out, 1), score
