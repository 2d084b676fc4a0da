"""Spectrogram VAE for short sounds, fp16 with a configurable loss scale."""
import dataclasses
import math

import torch
from torch import nn


@dataclasses.dataclass
class AmpConfig:
    dtype: torch.dtype = torch.float16
    init_scale: float = 2.0 ** 40
    growth_factor: float = 1.0005
    backoff_factor: float = 0.995
    growth_interval: int = 500


@dataclasses.dataclass
class TrainConfig:
    batch: int = 16
    steps: int = 200
    lr: float = 2e-3
    beta: float = 0.02
    seed: int = 77
    amp: AmpConfig = dataclasses.field(default_factory=AmpConfig)


def tones(n, g, frames=24, n_fft=64):
    """Log spectrograms of two decaying partials."""
    length = frames * n_fft // 2
    t = torch.arange(length).float()
    f = 0.05 + 0.3 * torch.rand(n, 2, 1, generator=g)
    decay = 1e-3 + 4e-3 * torch.rand(n, 2, 1, generator=g)
    wav = (torch.exp(-decay * t) * torch.sin(2 * math.pi * f * t)).sum(1)
    wav = wav + 0.01 * torch.randn(n, length, generator=g)
    spec = torch.stft(wav, n_fft, n_fft // 2, window=torch.hann_window(n_fft), return_complex=True).abs()
    return (torch.log(spec[:, :32, :frames] + 1e-2) / 3.0)[:, None]


class SpecVAE(nn.Module):
    def __init__(self, latent=8, ch=12):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(1, ch, 4, 2, 1), nn.SiLU(),
                                 nn.Conv2d(ch, ch * 2, 4, 2, 1), nn.SiLU(), nn.Flatten())
        self.stats = nn.Linear(ch * 2 * 8 * 6, 2 * latent)
        self.start = nn.Linear(latent, ch * 2 * 8 * 6)
        self.dec = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(ch * 2, ch, 3, padding=1), nn.SiLU(),
                                 nn.Upsample(scale_factor=2), nn.Conv2d(ch, 1, 3, padding=1))
        self.ch = ch

    def forward(self, x):
        mu, logvar = self.stats(self.enc(x)).chunk(2, -1)
        z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
        h = self.start(z).view(-1, self.ch * 2, 8, 6)
        return self.dec(h), mu, logvar


def elbo(rec, x, mu, logvar, beta):
    recon = nn.functional.mse_loss(rec.float(), x)
    mu, logvar = mu.float(), logvar.float()
    kl = -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum(1).mean()
    return recon + beta * kl / x[0].numel() * 8, recon, kl


class Engine:
    def __init__(self, cfg):
        self.cfg, amp = cfg, cfg.amp
        self.net = SpecVAE()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=cfg.lr)
        self.scaler = torch.amp.GradScaler(
            "cpu", init_scale=amp.init_scale, growth_factor=amp.growth_factor,
            backoff_factor=amp.backoff_factor, growth_interval=amp.growth_interval)

    def step(self, x):
        with torch.autocast("cpu", dtype=self.cfg.amp.dtype):
            rec, mu, logvar = self.net(x)
        loss, recon, kl = elbo(rec, x, mu, logvar, self.cfg.beta)
        self.opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item(), recon.item(), kl.item()


def main():
    cfg = TrainConfig()
    torch.manual_seed(cfg.seed)
    g = torch.Generator().manual_seed(cfg.seed)
    engine = Engine(cfg)
    for step in range(cfg.steps):
        loss, recon, kl = engine.step(tones(cfg.batch, g))
        if step % 20 == 0 or step == cfg.steps - 1:
            print(f"step {step:4d} elbo {loss:.4f} recon {recon:.4f} kl {kl:.3f}")


if __name__ == "__main__":
    main()
