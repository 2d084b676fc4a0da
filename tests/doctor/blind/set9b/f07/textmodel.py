import random

import torch
from torch import nn
from torch.utils.data import Dataset


class PhraseSet(Dataset):
    def __init__(self, count, vocab, width=14, seed=9):
        rng = random.Random(seed)
        self.rows = torch.zeros(count, width, dtype=torch.long)
        for i in range(count):
            n = rng.randint(5, width)
            start, stride = rng.randint(1, vocab - 1), rng.choice([1, 2, 3])
            for j in range(n):
                self.rows[i, j] = 1 + (start + j * stride) % (vocab - 1)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class GRULanguageModel(nn.Module):
    def __init__(self, vocab, dim, hidden):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.gates = nn.Linear(dim + hidden, 2 * hidden)
        self.cand = nn.Linear(dim + hidden, hidden)
        self.out = nn.Linear(hidden, vocab)
        self.hidden = hidden

    def forward(self, tokens):
        x = self.embed(tokens)
        h = x.new_zeros(x.shape[0], self.hidden)
        states = []
        for t in range(x.shape[1]):
            r, z = torch.sigmoid(self.gates(torch.cat([x[:, t], h], dim=-1))).chunk(2, dim=-1)
            n = torch.tanh(self.cand(torch.cat([x[:, t], r * h], dim=-1)))
            h = (1 - z) * n + z * h
            states.append(h)
        return self.out(torch.stack(states, dim=1))
