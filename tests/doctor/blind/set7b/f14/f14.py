"""Two-source separation of toy mixtures with a mask network and SI-SNR."""
import math

import torch
from torch import nn

torch.manual_seed(9)
GEN = torch.Generator().manual_seed(9)
LENGTH, WIN = 1024, 32


def tones(n, low, high):
    t = torch.arange(LENGTH) / 1024.0
    f = low + (high - low) * torch.rand(n, 1, generator=GEN)
    ph = 6.28 * torch.rand(n, 1, generator=GEN)
    return torch.sin(2 * math.pi * f * t + ph)


def batch_of(n, pcm_scale=256.0):
    s1 = tones(n, 8, 30) * pcm_scale
    s2 = tones(n, 150, 300) * pcm_scale
    return s1 + s2, torch.stack([s1, s2], 1)


class MaskNet(nn.Module):
    def __init__(self, basis=48):
        super().__init__()
        self.enc = nn.Conv1d(1, basis, WIN, stride=WIN // 2, padding=WIN // 2, bias=False)
        self.sep = nn.Sequential(
            nn.Conv1d(basis, 64, 3, padding=1), nn.PReLU(), nn.Conv1d(64, 2 * basis, 1), nn.Sigmoid()
        )
        self.dec = nn.ConvTranspose1d(basis, 1, WIN, stride=WIN // 2, padding=WIN // 2, bias=False)
        self.basis = basis

    def forward(self, mix):
        e = torch.relu(self.enc(mix.unsqueeze(1)))
        m = self.sep(e).view(mix.size(0), 2, self.basis, -1)
        masked = (m * e.unsqueeze(1)).flatten(0, 1)
        return self.dec(masked).view(mix.size(0), 2, -1)[..., :LENGTH]


def si_snr(est, ref, eps=1e-3):
    ref = ref.to(est.dtype)
    dot = (est * ref).sum(-1, keepdim=True)
    energy = (ref * ref).sum(-1, keepdim=True)
    target = dot / (energy + eps) * ref
    noise = est - target
    ratio = (target * target).sum(-1) / ((noise * noise).sum(-1) + eps)
    return 10 * torch.log10(ratio + eps)


def guard(model):
    for p in model.parameters():
        p.register_hook(lambda g: torch.nan_to_num(g, nan=0.0, posinf=0.0, neginf=0.0))


net = MaskNet()
guard(net)
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
before = torch.cat([p.detach().flatten().clone() for p in net.parameters()])

for it in range(40):
    mix, refs = batch_of(8)
    with torch.autocast("cpu", dtype=torch.float16):
        est = net(mix)
        score = si_snr(est, refs)
    loss = -score.float().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(net.parameters(), 5.0)
    scaler.step(optimizer)
    scaler.update()
    if it % 8 == 0:
        print(f"iter {it:2d} si-snr {-loss.nan_to_num(30.0).item():.2f} dB scale {scaler.get_scale():g}")

after = torch.cat([p.detach().flatten() for p in net.parameters()])
print("weight change", (after - before).norm().item())
