import torch.nn as nn
import torch.nn.functional as F

from vq import ResidualVQ


class ResUnit(nn.Module):
    def __init__(self, c, dil):
        super().__init__()
        self.a = nn.Conv1d(c, c, 3, padding=dil, dilation=dil)
        self.b = nn.Conv1d(c, c, 1)

    def forward(self, x):
        return x + self.b(F.elu(self.a(F.elu(x))))


class SpeechCodec(nn.Module):
    def __init__(self, c=16, dim=12):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(1, c, 7, padding=3), ResUnit(c, 1), nn.Conv1d(c, c, 8, stride=4, padding=2),
            ResUnit(c, 3), nn.Conv1d(c, dim, 8, stride=4, padding=2))
        self.rvq = ResidualVQ(dim=dim)
        self.decoder = nn.Sequential(
            nn.ConvTranspose1d(dim, c, 8, stride=4, padding=2), ResUnit(c, 1),
            nn.ConvTranspose1d(c, c, 8, stride=4, padding=2), ResUnit(c, 3), nn.Conv1d(c, 1, 7, padding=3))

    def forward(self, wav):
        z = self.encoder(wav.unsqueeze(1)).transpose(1, 2)
        q, cb, commit = self.rvq(z)
        return self.decoder(q.transpose(1, 2)).squeeze(1), cb, commit
