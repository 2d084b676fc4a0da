import torch
import torch.nn as nn


def ball_mask(xyz, radius):
    """True where point j is a neighbour of point i."""
    d = torch.cdist(xyz.float(), xyz.float())
    eye = torch.eye(xyz.size(1), dtype=torch.bool)
    return (d < radius) & ~eye


class LocalAttention(nn.Module):
    def __init__(self, dim, radius):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.pos = nn.Linear(3, dim)
        self.proj = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)
        self.radius = radius
        self.scale = dim ** -0.5

    def forward(self, xyz, feat):
        q, k, v = self.qkv(self.norm(feat) + self.pos(xyz)).chunk(3, dim=-1)
        logits = torch.matmul(q, k.transpose(1, 2)) * self.scale
        near = ball_mask(xyz, self.radius)
        logits = logits.masked_fill(~near, float("-inf"))
        attn = logits.softmax(dim=-1)
        return feat + self.proj(torch.matmul(attn, v))
