import numpy as np
import torch

TOPICS = {
    "sport": "match goal team league coach score player season".split(),
    "money": "bank stock price market loan profit trade fund".split(),
    "food": "bread soup cheese oven salt recipe fruit cook".split(),
}
FILLER = "the a of in and to was with for on by at".split()


def vocabulary():
    words = ["<pad>"] + FILLER
    for ws in TOPICS.values():
        words += ws
    return {w: i for i, w in enumerate(words)}


def cooccurrence(vocab, dim=32, seed=4):
    """Stand-in for a vector file on disk: a row per word, raw counts projected."""
    rng = np.random.default_rng(seed)
    raw = np.zeros((len(vocab), dim), dtype=np.float32)
    for t, ws in enumerate(TOPICS.values()):
        axis = rng.normal(size=dim)
        for w in ws:
            raw[vocab[w]] = axis + 0.8 * rng.normal(size=dim)
    for w in FILLER[:-1]:
        raw[vocab[w]] = rng.normal(size=dim)
    return raw


def load_vectors(vocab, dim=32):
    raw = torch.from_numpy(cooccurrence(vocab, dim))
    unit = raw / raw.norm(dim=1, keepdim=True)
    unit[vocab["<pad>"]] = 0.0
    return unit
