import torch
from torch import nn

LINES = ["the cat sat on the mat", "a dog ran in the park", "the bird sang at dawn",
         "rain fell on the old roof", "a child drew a red kite", "the lamp lit the long hall"]


def corpus(n=900):
    g = torch.Generator().manual_seed(1)
    pick = torch.randint(0, len(LINES), (n,), generator=g).tolist()
    text = ". ".join(LINES[i] for i in pick)
    chars = sorted(set(text))
    index = {c: i for i, c in enumerate(chars)}
    return torch.tensor([index[c] for c in text]), chars


class CharLM(nn.Module):
    """Gated convolution language model."""

    def __init__(self, vocab, dim=48, layers=2, width=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.convs = nn.ModuleList([nn.Conv1d(dim, 2 * dim, width) for _ in range(layers)])
        self.width = width
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        h = self.emb(ids).transpose(1, 2)
        for conv in self.convs:
            u = conv(nn.functional.pad(h, (self.width - 1, 0)))
            a, b = u.chunk(2, dim=1)
            h = h + a * torch.sigmoid(b)
        return self.out(h.transpose(1, 2))
