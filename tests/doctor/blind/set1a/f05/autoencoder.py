import torch.nn as nn

from quantizer import SoftQuantizer


class SpeechVQ(nn.Module):
    def __init__(self, bands=24, dim=48, codes=64, code_dim=24):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(bands, dim), nn.GELU(), nn.Linear(dim, dim), nn.GELU())
        self.vq = SoftQuantizer(dim, codes, code_dim)
        self.dec = nn.Sequential(nn.Linear(code_dim, dim), nn.GELU(), nn.Linear(dim, bands))

    def forward(self, x):
        q, stats = self.vq(self.enc(x))
        return self.dec(q), stats
