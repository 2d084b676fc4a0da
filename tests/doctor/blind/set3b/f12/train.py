"""Character n-gram language model over a made-up phrase grammar; the loop is a generator of metrics."""
import itertools
import random

import torch
import torch.nn.functional as F
from torch import nn

WORDS = {
    "det": ["the", "a", "every", "no"],
    "noun": ["sensor", "valve", "pump", "filter", "motor"],
    "verb": ["starts", "stops", "feeds", "heats", "drains"],
}


def sentence(rng):
    d, n, v, d2, n2 = (rng.choice(WORDS[k]) for k in ("det", "noun", "verb", "det", "noun"))
    return f"{d} {n} {v} {d2} {n2}. "


class Corpus:
    def __init__(self, sentences=400, context=8, seed=0):
        rng = random.Random(seed)
        text = "".join(sentence(rng) for _ in range(sentences))
        self.vocab = sorted(set(text))
        lookup = {c: i for i, c in enumerate(self.vocab)}
        self.ids = torch.tensor([lookup[c] for c in text])
        self.context = context

    def stream(self, batch, seed=1):
        gen = torch.Generator().manual_seed(seed)
        span = torch.arange(self.context)
        while True:
            at = torch.randint(0, len(self.ids) - self.context - 1, (batch, 1), generator=gen)
            yield self.ids[at + span], self.ids[at.squeeze(1) + self.context]


class NGram(nn.Module):
    def __init__(self, vocab, context, dim=12, hidden=64):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.up = nn.Linear(context * dim, hidden)
        self.down = nn.Linear(hidden, vocab)

    def forward(self, ids):
        return self.down(F.gelu(self.up(self.emb(ids).flatten(1))))


def optimise(net, stream, opt, scaler):
    """Yields the loss of one step after the other, as long as somebody asks."""
    with torch.autocast("cpu", dtype=torch.float16):
        for ids, nxt in stream:
            loss = F.cross_entropy(net(ids), nxt)
            opt.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            yield loss.item()


def chunks(iterable, size):
    it = iter(iterable)
    while part := list(itertools.islice(it, size)):
        yield part


def main(steps=120, report=20):
    torch.manual_seed(0)
    corpus = Corpus()
    net = NGram(len(corpus.vocab), corpus.context)
    opt = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
    losses = optimise(net, corpus.stream(64), opt, scaler)
    for i, part in enumerate(chunks(itertools.islice(losses, steps), report), 1):
        print(f"step {i * report:4d} bits/char {sum(part) / len(part) / 0.6931:.3f}")


if __name__ == "__main__":
    main()
