"""Character GRU in bfloat16 with top-k sampling and a small beam search."""
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F

LINES = ["the quick brown fox jumps over the lazy dog", "pack my box with five dozen liquor jugs",
         "how vexingly quick daft zebras jump", "sphinx of black quartz judge my vow"]


class Corpus:
    def __init__(self):
        text = "\n".join(LINES * 4)
        self.chars = sorted(set(text))
        self.index = {c: i for i, c in enumerate(self.chars)}
        self.ids = torch.tensor([self.index[c] for c in text])

    def sample(self, n, block):
        s = torch.randint(0, len(self.ids) - block - 1, (n,))
        x = torch.stack([self.ids[i:i + block] for i in s.tolist()])
        y = torch.stack([self.ids[i + 1:i + block + 1] for i in s.tolist()])
        return x, y


class GRULM(nn.Module):
    def __init__(self, vocab, hidden=64):
        super().__init__()
        self.emb = nn.Embedding(vocab, hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, x, state=None):
        h, state = self.gru(self.emb(x), state)
        return self.out(h), state


def top_k(logits, k):
    kth = logits.topk(k, dim=-1).values[..., -1:]
    return torch.where(logits < kth, torch.full_like(logits, -float("inf")), logits)


@torch.no_grad()
def generate(model, start, n, k):
    x, state, out = start, None, []
    for _ in range(n):
        logits, state = model(x, state)
        p = F.softmax(top_k(logits[:, -1], k), dim=-1)
        x = torch.multinomial(p, 1)
        out.append(x.item())
    return out


@torch.no_grad()
def beam(model, start, n, width=3):
    score = torch.full((width,), -float("inf"))
    score[0] = 0.0
    seqs = start.expand(width, 1)
    for _ in range(n):
        logp = F.log_softmax(model(seqs)[0][:, -1], -1)
        score, pick = (score[:, None] + logp).flatten().topk(width)
        seqs = torch.cat([seqs[pick // logp.size(1)], (pick % logp.size(1))[:, None]], 1)
    return seqs[0].tolist(), score[0].item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=120)
    ap.add_argument("--scaler", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    data = Corpus()
    model = GRULM(len(data.chars))
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", enabled=args.scaler)
    for s in range(args.steps):
        x, y = data.sample(16, 24)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits, _ = model(x)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if s % 20 == 0 or s == args.steps - 1:
            print(f"{s:4d} loss {loss.item():.4f}")
    model.eval()
    start = torch.tensor([[data.index["t"]]])
    print("sample:", "t" + "".join(data.chars[i] for i in generate(model, start, 30, 3)).replace("\n", "|"))
    ids, sc = beam(model, start, 20)
    print("beam:  ", "".join(data.chars[i] for i in ids).replace("\n", "|"), f"{sc:.3f}")


if __name__ == "__main__":
    main()
