import torch
import torch.nn as nn
import torch.nn.functional as F


class EMACodebook(nn.Module):
    def __init__(self, num_codes, dim, decay=0.95):
        super().__init__()
        self.decay = decay
        self.register_buffer("codes", torch.randn(num_codes, dim) * 0.5)
        self.register_buffer("usage", torch.zeros(num_codes))
        self.register_buffer("sums", torch.zeros(num_codes, dim))

    def forward(self, z):
        flat = z.permute(0, 2, 3, 1).reshape(-1, z.shape[1])
        dist = flat.square().sum(1, keepdim=True) - 2 * flat @ self.codes.t() + self.codes.square().sum(1)
        ids = dist.argmin(dim=1)
        q = self.codes[ids].view(z.shape[0], z.shape[2], z.shape[3], -1).permute(0, 3, 1, 2)
        if self.training:
            self._update(flat.detach(), ids)
        commit = F.mse_loss(z, q)
        return z + (q - z).detach(), commit, ids

    @torch.no_grad()
    def _update(self, flat, ids):
        onehot = F.one_hot(ids, len(self.codes)).to(flat.dtype)
        self.usage.lerp_(onehot.sum(0), 1 - self.decay)
        self.sums.lerp_(onehot.t() @ flat, 1 - self.decay)
        self.codes.copy_(self.sums / self.usage[:, None])


class VQVAE(nn.Module):
    def __init__(self, dim=8, num_codes=32):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, dim, 1))
        self.book = EMACodebook(num_codes, dim)
        self.dec = nn.Sequential(
            nn.ConvTranspose2d(dim, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1))

    def forward(self, x):
        q, commit, ids = self.book(self.enc(x))
        return self.dec(q), commit, ids
