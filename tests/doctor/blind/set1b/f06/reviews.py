import random

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

GOOD = "great lovely excellent superb charming witty moving fresh".split()
BAD = "dull awful boring weak tedious stale clumsy flat".split()
FILL = "the a film movie plot cast scene script with and of in camera director story ending".split()
STOP = {"the", "a", "with", "and", "of", "in"}


def write_reviews(n, seed):
    rnd = random.Random(seed)
    rows = []
    for i in range(n):
        label = rnd.randrange(2)
        words = [rnd.choice(FILL) for _ in range(rnd.randint(3, 40))]
        for _ in range(max(1, len(words) // 5)):
            words.insert(rnd.randrange(len(words)), rnd.choice(GOOD if label else BAD))
        rows.append((" ".join(words), label))
    # some short ones from the second export
    for i in range(n // 2, n, 61):
        rows[i] = ("And with the a", rows[i][1])
    return rows


class Vocab:
    def __init__(self):
        self.itos = ["<pad>"] + sorted(set(GOOD + BAD + FILL) - STOP)
        self.stoi = {w: i for i, w in enumerate(self.itos)}

    def __len__(self):
        return len(self.itos)

    def encode(self, text):
        return [self.stoi[w] for w in text.lower().split() if w in self.stoi]


class Reviews(Dataset):
    def __init__(self, rows, vocab):
        self.items = [(torch.tensor(vocab.encode(t), dtype=torch.long), y) for t, y in rows]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    ids = pad_sequence([x for x, _ in batch], batch_first=True, padding_value=0)
    return ids, torch.tensor([y for _, y in batch])
