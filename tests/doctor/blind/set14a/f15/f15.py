"""Regression vocoder on synthetic tones: L1 waveform loss plus a multi-resolution STFT loss."""
import math

import torch
import torch.nn.functional as F

from nets import Vocoder

HOP, FRAMES, BANDS = 8, 32, 8


def make_batch(n):
    t = torch.arange(HOP * FRAMES).float()
    wave, feats = torch.zeros(n, HOP * FRAMES), torch.zeros(n, BANDS, FRAMES)
    for band in range(2, BANDS - 2):
        f = 0.01 * (band + 1)
        env = torch.rand(n, 4)
        env = F.interpolate(env[:, None], size=HOP * FRAMES, mode="linear", align_corners=False)[:, 0]
        tone = env * torch.sin(2 * math.pi * f * t)
        wave = wave + 0.25 * tone
        frames = tone.view(n, FRAMES, HOP)
        feats[:, band] = frames[:, :, 0]
        feats[:, band - 2] += 0.5 * frames[:, :, 4]
    return feats, wave


def stft_loss(a, b, sizes=(32, 64)):
    total = 0.0
    for n in sizes:
        w = torch.hann_window(n)
        sa = torch.stft(a, n, n // 4, window=w, return_complex=True).abs().clamp_min(1e-4)
        sb = torch.stft(b, n, n // 4, window=w, return_complex=True).abs().clamp_min(1e-4)
        total = total + (sa - sb).norm() / sb.norm() + 0.1 * F.l1_loss(sa.log(), sb.log())
    return total / len(sizes)


class Experiment:
    def __init__(self, lr=3e-3, steps=140):
        self.model = Vocoder()
        self.steps = steps
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=lr, betas=(0.8, 0.99), weight_decay=0.0)
        self.sched = torch.optim.lr_scheduler.ExponentialLR(self.opt, 0.995)

    def setup(self):
        self.model.reparametrize()
        n = sum(p.numel() for p in self.model.parameters())
        print(f"vocoder with {n} parameters")

    def run(self):
        self.setup()
        for step in range(self.steps):
            feats, wave = make_batch(16)
            out = self.model(feats)
            l1, spec = F.l1_loss(out, wave), stft_loss(out, wave)
            self.opt.zero_grad()
            (5 * l1 + spec).backward()
            self.opt.step()
            self.sched.step()
            if step % 20 == 0 or step == self.steps - 1:
                print(f"step {step:3d} l1 {l1.item():.4f} stft {spec.item():.4f} lr {self.sched.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    torch.manual_seed(12)
    Experiment().run()
