import torch
import torch.nn as nn


class SphereRec(nn.Module):
    """Users are the mean of their recent items; items live on the unit sphere."""

    def __init__(self, items, dim=24):
        super().__init__()
        self.items = nn.Embedding(items + 1, dim, padding_idx=0)
        self.mix = nn.Linear(dim, dim)
        self.log_temp = nn.Parameter(torch.tensor(2.0))
        with torch.no_grad():
            self.items.weight[1:] = nn.functional.normalize(self.items.weight[1:], dim=1)

    def user(self, history):
        keep = (history > 0).unsqueeze(-1).float()
        pooled = (self.items(history) * keep).sum(1) / keep.sum(1)
        return nn.functional.normalize(pooled + self.mix(pooled), dim=1)

    def forward(self, history):
        return self.log_temp.exp() * self.user(history) @ self.items.weight[1:].t()

    @torch.no_grad()
    def to_sphere(self):
        w = self.items.weight
        w.div_(w.norm(dim=1, keepdim=True))
