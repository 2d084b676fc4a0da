"""Adapt a small text classifier to a new domain with extra vocabulary."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

PIECES = ["<pad>", "<unk>"] + [a + b for a in "bdfgklmn" for b in "aeiou"]
INDEX = {p: i for i, p in enumerate(PIECES)}
NEW_WORDS = ["bada", "fego", "kilu", "mona", "neda", "xyz", "lagi"]


def split_word(word):
    """Known two-letter pieces of a word."""
    return [INDEX[word[i : i + 2]] for i in range(0, len(word), 2) if word[i : i + 2] in INDEX]


class Classifier(nn.Module):
    def __init__(self, vocab, dim=24, classes=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, classes)

    def forward(self, ids):
        h, _ = self.gru(self.emb(ids))
        return self.out(h.mean(1))


@torch.no_grad()
def extend_vocab(model, words):
    """A new row starts as the average of the rows of its pieces."""
    old = model.emb.weight
    rows = [old[split_word(w)].mean(0) for w in words]
    emb = nn.Embedding(old.size(0) + len(words), old.size(1))
    emb.weight.copy_(torch.cat([old, torch.stack(rows)]))
    model.emb = emb
    return model


def sample(n, lo, hi, length=8):
    ids = torch.randint(lo, hi, (n, length))
    return ids, (ids % 2).sum(1).gt(length // 2).long()


def fit(model, lo, hi, steps, lr):
    opt = torch.optim.AdamW(model.parameters(), lr=lr)
    for step in range(steps):
        ids, y = sample(32, lo, hi)
        loss = F.cross_entropy(model(ids), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(f"  step {step:3d} loss {loss.item():.4f}")


def main():
    random.seed(0)
    torch.manual_seed(0)
    model = Classifier(len(PIECES))
    print("stage 1")
    fit(model, 2, len(PIECES), 60, 1e-2)
    extend_vocab(model, NEW_WORDS)
    print("stage 2")
    fit(model, 2, len(PIECES) + len(NEW_WORDS), 60, 3e-3)
    ids, y = sample(200, 2, len(PIECES) + len(NEW_WORDS))
    print("accuracy", (model(ids).argmax(-1) == y).float().mean().item())


main()
