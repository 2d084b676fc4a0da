import torch
import torch.nn as nn
import torch.nn.functional as F

EPS = 1e-8


class GlobalLayerNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(1, channels, 1))
        self.beta = nn.Parameter(torch.zeros(1, channels, 1))

    def forward(self, y):
        mean = y.mean(dim=(1, 2), keepdim=True)
        var = (y - mean).pow(2).mean(dim=(1, 2), keepdim=True)
        return self.gamma * (y - mean) / torch.pow(var + EPS, 0.5) + self.beta


class TemporalBlock(nn.Module):
    def __init__(self, b, h, dilation):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(b, h, 1), nn.PReLU(), GlobalLayerNorm(h),
            nn.Conv1d(h, h, 3, dilation=dilation, padding=dilation, groups=h),
            nn.PReLU(), GlobalLayerNorm(h), nn.Conv1d(h, b, 1))

    def forward(self, x):
        return x + self.net(x)


class Separator(nn.Module):
    def __init__(self, n=32, win=16, b=24, h=48, layers=4, spk=2):
        super().__init__()
        self.spk, self.n = spk, n
        self.enc = nn.Conv1d(1, n, win, stride=win // 2, bias=False)
        self.norm = GlobalLayerNorm(n)
        self.bottleneck = nn.Conv1d(n, b, 1)
        self.tcn = nn.Sequential(*[TemporalBlock(b, h, 2 ** i) for i in range(layers)])
        self.mask = nn.Conv1d(b, n * spk, 1)
        self.dec = nn.ConvTranspose1d(n, 1, win, stride=win // 2, bias=False)

    def forward(self, mix):
        w = F.relu(self.enc(mix.unsqueeze(1)))
        m = self.mask(self.tcn(self.bottleneck(self.norm(w))))
        m = torch.sigmoid(m).view(mix.size(0), self.spk, self.n, -1)
        src = (w.unsqueeze(1) * m).flatten(0, 1)
        return self.dec(src).view(mix.size(0), self.spk, -1)


def pit_l1(est, ref):
    est = est.float()
    a = (est - ref).abs().mean(-1).mean(-1)
    b = (est - ref.flip(1)).abs().mean(-1).mean(-1)
    return torch.minimum(a, b).mean()
