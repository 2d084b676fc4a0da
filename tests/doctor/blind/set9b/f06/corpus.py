import random

import torch
from torch.utils.data import Dataset

PAD = 0


class ReviewCorpus(Dataset):
    vocab_size = 60

    def __init__(self, count, seed):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(count):
            label = rng.randint(0, 1)
            pool = range(1, 30) if label else range(25, 60)
            length = rng.choice([1, 2, 4, 8, 12, 16])
            self.rows.append(([rng.choice(pool) for _ in range(length)], label))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class Collate:
    def __init__(self, word_dropout, seed):
        self.p = word_dropout
        self.rng = random.Random(seed)

    def __call__(self, rows):
        sents = [[w for w in words if self.rng.random() >= self.p] for words, _ in rows]
        width = max(len(s) for s in sents)
        tokens = torch.full((len(rows), width), PAD)
        for i, sent in enumerate(sents):
            tokens[i, : len(sent)] = torch.tensor(sent, dtype=torch.long)
        return tokens, tokens != PAD, torch.tensor([label for _, label in rows])
