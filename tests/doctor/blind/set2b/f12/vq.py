import torch
import torch.nn as nn
import torch.nn.functional as F


class Codebook(nn.Module):
    def __init__(self, n_codes, dim):
        super().__init__()
        self.embed = nn.Embedding(n_codes, dim)
        nn.init.uniform_(self.embed.weight, -1.0 / n_codes, 1.0 / n_codes)

    def forward(self, z):
        flat = z.reshape(-1, z.size(-1)).float()
        w = self.embed.weight
        d = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ w.t().float() + w.pow(2).sum(1)
        idx = d.argmin(1).view(z.shape[:-1])
        return self.embed(idx), idx


class ResidualVQ(nn.Module):
    def __init__(self, n_books=2, n_codes=32, dim=12):
        super().__init__()
        self.books = nn.ModuleList(Codebook(n_codes, dim) for _ in range(n_books))

    def forward(self, z):
        residual, total = z.float(), torch.zeros_like(z, dtype=torch.float32)
        codebook_loss, commit_loss = 0.0, 0.0
        for book in self.books:
            q, _ = book(residual.detach())
            codebook_loss = codebook_loss + F.mse_loss(q, residual.detach())
            commit_loss = commit_loss + F.mse_loss(residual, q.detach())
            residual = residual - q.detach()
            total = total + q
        straight = z + (total - z).detach()
        return straight, codebook_loss, commit_loss
