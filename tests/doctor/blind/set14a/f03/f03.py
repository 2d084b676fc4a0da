"""Tiny text-conditioned DDPM with classifier-free guidance dropout."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    T: int = 50
    dim: int = 48
    vocab: int = 20
    max_tokens: int = 6
    p_uncond: float = 0.1
    batch: int = 32
    steps: int = 150
    lr: float = 2e-3
    seed: int = 3


class CrossAttention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.h = heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.o = nn.Linear(dim, dim)

    def forward(self, x, ctx, keep):
        b, n, d = x.shape
        q = self.q(x).view(b, n, self.h, -1).transpose(1, 2)
        k, v = self.kv(ctx).view(b, ctx.shape[1], 2, self.h, -1).unbind(2)
        k, v = k.transpose(1, 2), v.transpose(1, 2)
        att = q @ k.transpose(-1, -2) * (d // self.h) ** -0.5
        att = att + torch.log(keep.to(att.dtype))[:, None, None, :]
        return self.o((att.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


class Denoiser(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d = cfg.dim
        self.patch = nn.Conv2d(1, d, 2, stride=2)
        self.pos = nn.Parameter(torch.randn(16, d) * 0.02)
        self.time = nn.Embedding(cfg.T, d)
        self.tok = nn.Embedding(cfg.vocab, d)
        self.attn = CrossAttention(d)
        self.n1, self.n2, self.n3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.mix = nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.out = nn.Linear(d, 4)

    def forward(self, x, t, tokens, keep):
        h = self.patch(x).flatten(2).transpose(1, 2) + self.pos + self.time(t)[:, None]
        h = h + self.mix(self.n1(h).transpose(1, 2)).transpose(1, 2)
        h = h + self.attn(self.n2(h), self.tok(tokens), keep)
        h = h + self.mlp(self.n3(h))
        return F.pixel_shuffle(self.out(h).transpose(1, 2).reshape(-1, 4, 4, 4), 2)


class Captioned:
    def __init__(self, cfg):
        self.cfg = cfg
        self.proto = torch.randn(cfg.vocab, 1, 8, 8) * 0.5

    def batch(self, n):
        tokens = torch.randint(0, self.cfg.vocab, (n, self.cfg.max_tokens))
        length = torch.randint(1, self.cfg.max_tokens + 1, (n,))
        keep = torch.arange(self.cfg.max_tokens)[None] < length[:, None]
        img = (self.proto[tokens] * keep[:, :, None, None, None]).sum(1)
        return img / length.sqrt()[:, None, None, None], tokens, keep


def drop_text(keep, p):
    dropped = torch.rand(keep.shape[0], 1) < p
    return keep & ~dropped


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    data, net = Captioned(cfg), Denoiser(cfg)
    opt = torch.optim.AdamW(net.parameters(), lr=cfg.lr)
    abar = torch.cumprod(1 - torch.linspace(1e-3, 0.12, cfg.T), 0)
    for step in range(cfg.steps):
        x, tokens, keep = data.batch(cfg.batch)
        keep = drop_text(keep, cfg.p_uncond)
        t = torch.randint(0, cfg.T, (cfg.batch,))
        noise = torch.randn_like(x)
        a = abar[t].view(-1, 1, 1, 1)
        pred = net(a.sqrt() * x + (1 - a).sqrt() * noise, t, tokens, keep)
        loss = F.mse_loss(pred, noise)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        if step % 25 == 0 or step == cfg.steps - 1:
            print(f"step {step:4d} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
