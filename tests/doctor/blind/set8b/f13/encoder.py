import torch
import torch.nn as nn

PAD = 0


class BagEncoder(nn.Module):
    """Averages unit-length word vectors, then projects them."""

    def __init__(self, vocab, dim, out):
        super().__init__()
        self.words = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.proj = nn.Sequential(nn.Linear(dim, out * 2), nn.ReLU(), nn.Linear(out * 2, out))

    @torch.no_grad()
    def to_sphere(self):
        w = self.words.weight
        w.div_(w.norm(dim=1, keepdim=True))

    def forward(self, ids):
        mask = (ids != PAD).float().unsqueeze(-1)
        vec = self.words(ids) * mask
        return self.proj(vec.sum(1) / mask.sum(1))
