import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm


class ResStack(nn.Module):
    def __init__(self, c, dilation):
        super().__init__()
        self.conv1 = nn.Conv1d(c, c, 3, dilation=dilation, padding=dilation)
        self.conv2 = nn.Conv1d(c, c, 1)

    def forward(self, x):
        return x + self.conv2(F.leaky_relu(self.conv1(F.leaky_relu(x, 0.1)), 0.1))


class Vocoder(nn.Module):
    """Upsamples a spectrogram-like feature sequence (x8) to a waveform."""

    def __init__(self, bands=8, c=16):
        super().__init__()
        self.pre = nn.Conv1d(bands, c, 3, padding=1)
        self.up = nn.ConvTranspose1d(c, c, 16, stride=8, padding=4)
        self.stacks = nn.Sequential(ResStack(c, 1), ResStack(c, 3), ResStack(c, 9))
        self.post = nn.Conv1d(c, 1, 7, padding=3)

    def forward(self, feats):
        x = self.up(F.leaky_relu(self.pre(feats), 0.1))
        return torch.tanh(self.post(F.leaky_relu(self.stacks(x), 0.1)))[:, 0]

    def reparametrize(self):
        for m in self.modules():
            if isinstance(m, (nn.Conv1d, nn.ConvTranspose1d)):
                weight_norm(m)
        return self
