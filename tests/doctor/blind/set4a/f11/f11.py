"""Multi-label tagging of short texts with prior-initialised output biases."""
import math
import random
from collections import Counter

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

TAGS = ["sports", "politics", "science", "music", "travel", "food", "finance", "obituary"]
VOCAB = 160


def make_documents(n, seed):
    rng = random.Random(seed)
    docs = []
    for _ in range(n):
        tags = [t for t in range(7) if rng.random() < 0.22]
        words = [rng.randrange(VOCAB) for _ in range(6)]
        for t in tags:
            words += [t * 20 + rng.randrange(20) for _ in range(5)]
        docs.append((words[:40], tags))
    return docs


def collate(batch):
    flat, offsets = [], [0]
    target = torch.zeros(len(batch), len(TAGS))
    for i, (words, tags) in enumerate(batch):
        flat += words
        offsets.append(len(flat))
        target[i, tags] = 1.0
    return torch.tensor(flat), torch.tensor(offsets[:-1]), target


class Tagger(nn.Module):
    def __init__(self, frequencies):
        super().__init__()
        self.bag = nn.EmbeddingBag(VOCAB, 48, mode="mean")
        self.hidden = nn.Linear(48, 64)
        self.out = nn.Linear(64, len(TAGS))
        self.reset(frequencies)

    def reset(self, frequencies):
        nn.init.normal_(self.bag.weight, std=0.3)
        nn.init.xavier_uniform_(self.hidden.weight)
        nn.init.normal_(self.out.weight, std=0.02)
        prior = torch.tensor(frequencies)
        with torch.no_grad():
            self.out.bias.copy_(torch.log(prior / (1 - prior)))

    def forward(self, words, offsets):
        return self.out(F.gelu(self.hidden(self.bag(words, offsets))))


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0):
        super().__init__()
        self.gamma = gamma

    def forward(self, logits, target):
        ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        p = torch.sigmoid(logits)
        pt = target * p + (1 - target) * (1 - p)
        return ((1 - pt) ** self.gamma * ce).sum(1).mean()


def main():
    torch.manual_seed(0)
    train = make_documents(400, 1)
    counts = Counter(t for _, tags in train for t in tags)
    frequencies = [counts[i] / len(train) for i in range(len(TAGS))]
    model, criterion = Tagger(frequencies), FocalLoss()
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
    loader = DataLoader(train, batch_size=32, shuffle=True, collate_fn=collate)
    for epoch in range(4):
        total = 0.0
        for words, offsets, target in loader:
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = model(words, offsets)
            loss = criterion(logits.float(), target)
            loss.backward()
            opt.step()
            total += loss.item() * len(target)
        print(f"epoch {epoch} loss {total / len(train):.4f}")


if __name__ == "__main__":
    main()
