import torch
import torch.nn as nn


class DiffConvCell(nn.Module):
    """GRU cell whose gates are graph diffusion convolutions."""

    def __init__(self, n, d_in, d_h, k=2):
        super().__init__()
        self.adj = nn.Parameter(torch.randn(n, n) * 0.1)
        self.k, self.d_h = k, d_h
        self.gates = nn.Linear((k + 1) * (d_in + d_h), 2 * d_h)
        self.cand = nn.Linear((k + 1) * (d_in + d_h), d_h)

    def diffuse(self, x, p):
        out = [x]
        for _ in range(self.k):
            out.append(torch.einsum("ij,bjd->bid", p, out[-1]).to(x.dtype))
        return torch.cat(out, -1)

    def forward(self, x, h):
        p = torch.softmax(self.adj, -1)
        r, u = torch.sigmoid(self.gates(self.diffuse(torch.cat([x, h], -1), p))).chunk(2, -1)
        c = torch.tanh(self.cand(self.diffuse(torch.cat([x, r * h], -1), p)))
        return u * h + (1 - u) * c


class Forecaster(nn.Module):
    def __init__(self, n, hidden=24, horizon=3):
        super().__init__()
        self.cell = DiffConvCell(n, 1, hidden)
        self.out = nn.Linear(hidden, horizon)
        self.hidden = hidden

    def forward(self, window):
        b, t, n = window.shape
        h = window.new_zeros(b, n, self.hidden)
        for i in range(t):
            h = self.cell(window[:, i].unsqueeze(-1), h)
        return self.out(h).transpose(1, 2)
