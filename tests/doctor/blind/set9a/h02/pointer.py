import torch
import torch.nn as nn


class PointerNet(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.inp = nn.Sequential(nn.Linear(1, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.attn = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.cell = nn.GRUCell(dim, dim)
        self.first = nn.Parameter(torch.zeros(1, dim))
        self.key = nn.Linear(dim, dim, bias=False)
        self.query = nn.Linear(dim, dim, bias=False)
        self.scale = dim ** -0.5

    def forward(self, values, opened, order):
        h = self.inp(values[..., None])
        mixed, _ = self.attn(h, h, h, key_padding_mask=~opened)
        h = h + mixed
        key = self.key(h)
        n, length, dim = h.shape
        state = h.float().mul(opened[..., None]).sum(1) / opened.sum(1, keepdim=True)
        inp = self.first.expand(n, dim)
        free = opened.clone()
        outs = []
        for t in range(length):
            state = self.cell(inp, state.to(inp.dtype)).float()
            score = 10 * torch.tanh(torch.einsum("bd,bld->bl", self.query(state), key) * self.scale)
            score = score.masked_fill(~free, float("-inf"))
            done = ~free.any(1)
            score = score.masked_fill(done[:, None], 0.0)
            outs.append(score)
            pick = order[:, t].clamp(min=0)
            valid = order[:, t] >= 0
            inp = h[torch.arange(n), pick].float()
            free = free.clone()
            free[torch.arange(n)[valid], pick[valid]] = False
        return torch.stack(outs, 1)
