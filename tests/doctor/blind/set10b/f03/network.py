import torch
from torch import nn


class InterestNet(nn.Module):
    def __init__(self, items, dim=32):
        super().__init__()
        self.item = nn.Embedding(items, dim, padding_idx=0)
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.head = nn.Sequential(nn.Linear(3 * dim, 64), nn.ReLU(), nn.Linear(64, 1))
        self.scale = dim ** -0.5

    def forward(self, hist, cand):
        keep = hist.ne(0)
        h, c = self.item(hist), self.item(cand)
        q = self.query(c).unsqueeze(1)
        score = torch.bmm(q, self.key(h).transpose(1, 2)) * self.scale
        score = score.masked_fill(~keep.unsqueeze(1), float("-inf"))
        attn = torch.softmax(score, dim=-1)
        user = torch.bmm(attn, self.value(h)).squeeze(1)
        return self.head(torch.cat([user, c, user * c], dim=-1)).squeeze(-1)
