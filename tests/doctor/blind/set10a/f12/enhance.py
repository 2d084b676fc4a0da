"""Masking network for speech enhancement and its training objective."""
import torch
from torch import nn


class Enhancer(nn.Module):
    """Learned analysis and synthesis filterbank with a mask estimator between."""

    def __init__(self, basis=32, win=16, hidden=32):
        super().__init__()
        self.encoder = nn.Conv1d(1, basis, win, stride=win // 2, bias=False)
        self.norm = nn.GroupNorm(1, basis)
        self.mask = nn.Sequential(
            nn.Conv1d(basis, hidden, 3, padding=1), nn.PReLU(),
            nn.Conv1d(hidden, hidden, 3, padding=2, dilation=2), nn.PReLU(),
            nn.Conv1d(hidden, basis, 1), nn.Sigmoid())
        self.decoder = nn.ConvTranspose1d(basis, 1, win, stride=win // 2, bias=False)

    def forward(self, wav):
        h = torch.relu(self.encoder(wav.unsqueeze(1)))
        return self.decoder(h * self.mask(self.norm(h))).squeeze(1)


def si_sdr(est, ref):
    """Scale-invariant signal-to-distortion ratio in dB, per clip."""
    est = est - est.mean(-1, keepdim=True)
    ref = ref - ref.mean(-1, keepdim=True)
    gain = (est * ref).sum(-1, keepdim=True) / ref.square().sum(-1, keepdim=True)
    target = gain * ref
    noise = est - target
    return 10 * torch.log10(target.square().sum(-1) / noise.square().sum(-1))


def objective(est, ref):
    score = si_sdr(est, ref.to(est.dtype))
    score = torch.nan_to_num(score, nan=0.0, posinf=0.0, neginf=0.0)
    return -score.float().mean()


def clean_gradients(module):
    """Drop unusable entries so that one odd clip does not cost a whole batch."""
    for p in module.parameters():
        if p.grad is not None:
            torch.nan_to_num_(p.grad, nan=0.0, posinf=0.0, neginf=0.0)
